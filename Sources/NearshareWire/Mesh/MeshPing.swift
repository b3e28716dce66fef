public import NearshareBase

/// The body of a ping, and of the pong that answers it: nonce 8 · the ttl that it started with u8.
public struct MeshPing: Sendable, Hashable {
    /// 8 bytes.
    public var nonce: [UInt8]
    public var originTTL: UInt8

    public init(nonce: [UInt8], originTTL: UInt8) {
        self.nonce = nonce
        self.originTTL = originTTL
    }

    public init(decoding payload: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(payload, of: "ping")
        nonce = Array(try reader.readBytes(8))
        originTTL = try reader.readInteger()
    }

    public var encoded: [UInt8] { nonce + [originTTL] }
}
