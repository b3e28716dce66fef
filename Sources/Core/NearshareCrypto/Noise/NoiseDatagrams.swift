/// Messages of one finished handshake where some may be lost, repeated or overtaken: counter u32, big-endian, then what is
/// sealed (bitchat specification, section 8.3; `docs/PROTOCOL.md`, section 12.5). Unlike in plain Noise, the counter tells the
/// receiver which one it has.
package struct NoiseDatagrams: Sendable {
    /// Beyond it the key is used up.
    package static let maximumCounter: UInt32 = 0xffff_fffe
    package static let overheadByteCount = 4 + 16

    private var sendState: CipherState
    private var receiveState: CipherState
    private var window = ReplayWindow()

    package init(send: CipherState, receive: CipherState) {
        sendState = send
        receiveState = receive
    }

    /// Messages sealed so far: the counter of the next.
    package var sentCount: UInt64 { sendState.nonce }

    /// Sealed at the moment of queueing: messages must leave in the order of their counters, because the windows of phones
    /// refuse some that come late.
    package mutating func seal(_ plaintext: [UInt8]) throws(NoiseError) -> [UInt8] {
        guard sendState.nonce <= UInt64(Self.maximumCounter) else { throw .nonceExhausted }
        let counter = UInt32(sendState.nonce)
        let sealed = try sendState.encrypt(plaintext, authenticating: [])
        return withUnsafeBytes(of: counter.bigEndian) { Array($0) } + sealed
    }

    /// - Throws: ``NoiseError/notAuthentic`` for what was altered, repeated, or is older than the window. Nothing has changed then.
    package mutating func open(_ message: ArraySlice<UInt8>) throws(NoiseError) -> [UInt8] {
        guard message.count >= Self.overheadByteCount else { throw .malformed }
        let counter = message.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard counter <= Self.maximumCounter else { throw .nonceExhausted }
        guard window.allows(counter) else { throw .notAuthentic }
        receiveState.setNonce(UInt64(counter))
        let plaintext = try receiveState.decrypt(message.dropFirst(4), authenticating: [])
        window.mark(counter)
        return plaintext
    }
}

/// Which of the latest 1024 messages have come (K11).
struct ReplayWindow: Sendable, Hashable {
    static let size: UInt32 = 1024
    /// Bit n of the ring stands for every counter that is n modulo ``size``; only those within the window count.
    private var bits = [UInt64](repeating: 0, count: Int(size) / 64)
    private var newest: UInt32?

    func allows(_ counter: UInt32) -> Bool {
        guard let newest, counter <= newest else { return true }
        return newest - counter < Self.size && !isMarked(counter)
    }

    /// Only after the message has proven to be genuine.
    mutating func mark(_ counter: UInt32) {
        if let newest, counter > newest {
            let steps = min(counter - newest, Self.size)
            // The places of the counters in between now stand for these, and they have not come.
            for step in 0..<steps { clear(counter - step) }
        }
        newest = max(newest ?? counter, counter)
        bits[Int(counter % Self.size) / 64] |= 1 << UInt64(counter % 64)
    }

    private func isMarked(_ counter: UInt32) -> Bool {
        bits[Int(counter % Self.size) / 64] & (1 << UInt64(counter % 64)) != 0
    }

    private mutating func clear(_ counter: UInt32) {
        bits[Int(counter % Self.size) / 64] &= ~(1 << UInt64(counter % 64))
    }
}
