internal import NearshareBase

/// Out-of-order transport messages (Noise specification, section 11.4) for media that lose, repeat or reorder them: an explicit
/// nonce u32, big-endian, then the ciphertext (bitchat specification, section 8.3; `docs/PROTOCOL.md`, section 12.5).
package struct NoiseDatagrams: Sendable {
    /// The largest counter; after it the key is exhausted.
    package static let maximumCounter: UInt32 = 0xffff_fffe
    /// The bytes of a message besides its plaintext: counter and tag.
    package static let overheadByteCount = 4 + ChaCha20Poly1305.tagByteCount

    private var sendState: CipherState
    private var receiveState: CipherState
    private var window = ReplayWindow()

    /// - Parameters:
    ///   - send: the cipher state for messages to the peer.
    ///   - receive: the cipher state for messages from the peer.
    package init(send: CipherState, receive: CipherState) {
        sendState = send
        receiveState = receive
    }

    /// The number of messages sealed, which is the counter of the next one.
    package var sentCount: UInt64 { sendState.nonce }

    /// The fraction of the peer's latest 1024 messages that did not arrive, 0 to 1; nil before the first one.
    package var packetLoss: Double? { window.missingFraction }

    /// The counter that a message states, which is authentic once the message is opened; nil for a short one.
    package static func counter(of message: ArraySlice<UInt8>) -> UInt32? { UInt32(bigEndianBytes: message.prefix(4)) }

    /// Seals a message under the next counter. Messages must leave in this order, because phones accept fewer reordered ones
    /// than section 8.3 requires.
    package mutating func seal(_ plaintext: [UInt8]) throws(NoiseError) -> [UInt8] {
        guard sendState.nonce <= UInt64(Self.maximumCounter) else { throw .nonceExhausted }
        let counter = UInt32(sendState.nonce)
        let sealed = try sendState.encrypt(plaintext, authenticating: [])
        return counter.bigEndianBytes + sealed
    }

    /// Opens a message, and records its counter when it was authentic.
    /// - Throws: ``NoiseError/notAuthentic`` for an altered or replayed message, or one older than the window;
    ///   ``NoiseError/malformed`` for a short one; ``NoiseError/nonceExhausted`` for a counter beyond the largest.
    package mutating func open(_ message: ArraySlice<UInt8>) throws(NoiseError) -> [UInt8] {
        guard message.count >= Self.overheadByteCount, let counter = Self.counter(of: message) else { throw .malformed }
        guard counter <= Self.maximumCounter else { throw .nonceExhausted }
        guard window.allows(counter) else { throw .notAuthentic }
        receiveState.setNonce(UInt64(counter))
        let plaintext = try receiveState.decrypt(message.dropFirst(4), authenticating: [])
        window.record(counter)
        return plaintext
    }
}
