public import NearshareBase

/// The first bytes of each direction of a direct link, and all that is ever sent in the clear: which protocol, which versions
/// (`docs/PROTOCOL.md`, section 2).
///
/// 8 bytes: `NSHR`, newest version, oldest version, two zeros. The initiator tells what it can speak; the responder
/// answers with the one version that it has chosen in both places, or with its own range when there is none in common.
public struct Preamble: Sendable, Hashable {
    public static let byteCount = 8
    /// What this implementation speaks.
    public static let supported = Preamble(newest: 1, oldest: 1)

    public let newest: UInt8
    public let oldest: UInt8

    public init(newest: UInt8, oldest: UInt8) {
        self.newest = newest
        self.oldest = oldest
    }

    /// - Throws: when these are not the first bytes of a nearshare peer.
    public init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "preamble")
        guard try reader.readBytes(4).elementsEqual(Self.magic) else {
            throw MalformedInput("whoever answers there does not speak nearshare's protocol")
        }
        newest = try reader.readInteger()
        oldest = try reader.readInteger()
        _ = try reader.readBytes(2)
        try reader.finish()
        guard oldest <= newest else { throw MalformedInput("preamble: the oldest version is newer than the newest") }
    }

    public var encoded: [UInt8] { Self.magic + [newest, oldest, 0, 0] }

    /// The newest version that both speak; nil when there is none.
    public func newestInCommon(with other: Preamble) -> UInt8? {
        let candidate = min(newest, other.newest)
        return candidate >= max(oldest, other.oldest) ? candidate : nil
    }

    /// "version 1" or "versions 1 to 3".
    public var shown: String { newest == oldest ? "version \(newest)" : "versions \(oldest) to \(newest)" }

    private static let magic = Array("NSHR".utf8)
}
