package import NearshareBase

/// The first bytes of each direction of a link: protocol and versions (`docs/PROTOCOL.md`, sections 2 and 9). On a direct link
/// only the preambles and the first handshake message are sent unencrypted.
///
/// 8 bytes: `NSHR` or `NSHM`, newest version, oldest version, two zeros. The initiator sends the range that it supports. The
/// responder answers with the version that it has chosen in both places, or with its own range when none is in common.
package struct Preamble: Sendable, Hashable {
    /// The size of a preamble.
    package static let byteCount = 8
    /// The versions of direct links that this implementation supports.
    package static let supported = Preamble(newest: hybridVersion, oldest: 1)
    /// The version whose record keys depend on ML-KEM-768 as well as on X25519.
    package static let hybridVersion: UInt8 = 2
    /// The versions of mesh links that this implementation supports.
    package static let supportedMesh = Preamble(kind: .mesh, newest: 1, oldest: 1)

    /// The protocol of a link.
    package enum Kind: String, Sendable {
        /// A direct link: handshake and records.
        case direct = "NSHR"
        /// A mesh link: bitchat packets.
        case mesh = "NSHM"

        /// The first four bytes.
        package var magic: [UInt8] { Array(rawValue.utf8) }
    }

    /// The protocol of the link.
    package let kind: Kind
    /// The newest version that the sender supports, or the chosen one.
    package let newest: UInt8
    /// The oldest version that the sender supports, or the chosen one.
    package let oldest: UInt8

    /// Creates a preamble.
    package init(kind: Kind = .direct, newest: UInt8, oldest: UInt8) {
        self.kind = kind
        self.newest = newest
        self.oldest = oldest
    }

    /// Decodes a preamble of the given kind.
    /// - Throws: ``MalformedInput`` for another protocol, or an invalid range of versions.
    package init(decoding bytes: ArraySlice<UInt8>, kind: Kind = .direct) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "preamble")
        self.kind = kind
        guard try reader.readBytes(4).elementsEqual(kind.magic) else {
            throw MalformedInput("the peer does not speak nearshare's protocol")
        }
        newest = try reader.readInteger()
        oldest = try reader.readInteger()
        _ = try reader.readBytes(2)
        try reader.finish()
        guard oldest <= newest else { throw MalformedInput("preamble: the oldest version is newer than the newest") }
    }

    /// The preamble's bytes.
    package var encoded: [UInt8] { kind.magic + [newest, oldest, 0, 0] }

    /// The newest version that both ranges contain; nil when there is none.
    package func newestInCommon(with other: Preamble) -> UInt8? {
        let candidate = min(newest, other.newest)
        return candidate >= max(oldest, other.oldest) ? candidate : nil
    }

    /// The range for users: "version 1" or "versions 1 to 3".
    package var shown: String { newest == oldest ? "version \(newest)" : "versions \(oldest) to \(newest)" }
}
