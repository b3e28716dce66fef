package import NearshareBase

/// The first bytes of each direction of a link: which protocol, which versions (`docs/PROTOCOL.md`, sections 2 and 9). On a
/// direct link they are all that is ever sent in the clear.
///
/// 8 bytes: `NSHR` or `NSHM`, newest version, oldest version, two zeros. The initiator tells what it can speak; the responder
/// answers with the one version that it has chosen in both places, or with its own range when there is none in common.
package struct Preamble: Sendable, Hashable {
    /// Of the only bytes that go in the clear.
    package static let byteCount = 8
    /// What this implementation speaks.
    package static let supported = Preamble(newest: 1, oldest: 1)
    /// The versions of links for frames that this end speaks.
    package static let supportedFrames = Preamble(kind: .frames, newest: 1, oldest: 1)

    /// What follows on the link.
    package enum Kind: String, Sendable {
        /// A session between two peers.
        case direct = "NSHR"
        /// Frames of the mesh.
        case frames = "NSHM"

        /// The four bytes in front.
        package var magic: [UInt8] { Array(rawValue.utf8) }
    }

    /// What the link is for.
    package let kind: Kind
    /// The newest version that its sender speaks, or has chosen.
    package let newest: UInt8
    /// The oldest one.
    package let oldest: UInt8

    /// Puts a preamble together.
    package init(kind: Kind = .direct, newest: UInt8, oldest: UInt8) {
        self.kind = kind
        self.newest = newest
        self.oldest = oldest
    }

    /// - Throws: when these are not the first bytes of a nearshare peer.
    package init(decoding bytes: ArraySlice<UInt8>, kind: Kind = .direct) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "preamble")
        self.kind = kind
        guard try reader.readBytes(4).elementsEqual(kind.magic) else {
            throw MalformedInput("whoever answers there does not speak nearshare's protocol")
        }
        newest = try reader.readInteger()
        oldest = try reader.readInteger()
        _ = try reader.readBytes(2)
        try reader.finish()
        guard oldest <= newest else { throw MalformedInput("preamble: the oldest version is newer than the newest") }
    }

    /// As the first bytes of a link.
    package var encoded: [UInt8] { kind.magic + [newest, oldest, 0, 0] }

    /// The newest version that both speak; nil when there is none.
    package func newestInCommon(with other: Preamble) -> UInt8? {
        let candidate = min(newest, other.newest)
        return candidate >= max(oldest, other.oldest) ? candidate : nil
    }

    /// "version 1" or "versions 1 to 3".
    package var shown: String { newest == oldest ? "version \(newest)" : "versions \(oldest) to \(newest)" }
}
