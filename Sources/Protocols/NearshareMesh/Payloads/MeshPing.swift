package import NearshareBase

/// The body of a ping and of the pong that answers it: nonce 8 · original ttl u8.
package struct MeshPing: Sendable, Hashable {
    /// 8 bytes.
    package var nonce: [UInt8]
    /// The ttl with which the ping was sent.
    package var originTTL: UInt8

    package init(nonce: [UInt8], originTTL: UInt8) {
        self.nonce = nonce
        self.originTTL = originTTL
    }

    /// Decodes a packet's payload.
    package init(decoding payload: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(payload, of: "ping")
        nonce = Array(try reader.readBytes(8))
        originTTL = try reader.readInteger()
    }

    /// The packet's payload.
    package var encoded: [UInt8] { nonce + [originTTL] }
}
