internal import NearshareDirect
internal import NearshareInterfaces

/// The outgoing records of a link after the handshake. Several threads seal and write, one at a time in FIFO order: a mutex
/// alone would let the thread that has just written go first again.
final class LinkWriter: Sendable {
    private struct State {
        /// nil before the handshake is done, and while a thread has its turn.
        var sealer: RecordSealer?
        var nextTicket: UInt64 = 0
        var turn: UInt64 = 0
        /// Sealed bytes for which the link had no room: they precede all others.
        var rest: ArraySlice<UInt8> = []
    }

    /// One thread's turn.
    struct Turn: ~Copyable {
        fileprivate let link: any StreamLink
        fileprivate var sealer: RecordSealer

        mutating func write(_ frames: [[UInt8]]) throws(LinkError) {
            guard !frames.isEmpty else { return }
            try sealer.seal(frames).withUnsafeBufferPointer { (bytes) throws(LinkError) in
                try link.write(UnsafeRawBufferPointer(bytes))
            }
        }

        /// Seals the records of a block in place and writes them all at once.
        mutating func write(_ filled: borrowing FilledBlock) throws(LinkError) {
            var position = 0
            for frame in filled.frames {
                position += sealer.sealInPlace(
                    UnsafeMutableRawBufferPointer(rebasing: filled.bytes[position...]), frameByteCount: frame)
            }
            try link.write(UnsafeRawBufferPointer(rebasing: filled.bytes[..<position]))
        }
    }

    private let link: any StreamLink
    private let state = Monitor(State())

    init(_ link: any StreamLink) { self.link = link }

    /// Sets the sealer and allows the first turn.
    func begin(_ sealer: RecordSealer) {
        state.update { $0.sealer = sealer }
    }

    /// Waits for a turn. After a failure nothing more may be written, and the link must be closed.
    func withTurn<Result>(_ body: (inout Turn) throws(LinkError) -> Result) throws(LinkError) -> Result {
        let ticket = state.withLock { state in
            defer { state.nextTicket += 1 }
            return state.nextTicket
        }
        let (sealer, rest): (RecordSealer, ArraySlice<UInt8>) = state.wait { state in
            guard state.turn == ticket, let sealer = state.sealer.take() else { return nil }
            defer { state.rest = [] }
            return (sealer, state.rest)
        }
        var turn = Turn(link: link, sealer: sealer)
        defer {
            state.update { [sealer = turn.sealer] state in
                state.sealer = sealer
                state.turn += 1
            }
        }
        if !rest.isEmpty {
            try rest.withUnsafeBufferPointer { (bytes) throws(LinkError) in try link.write(UnsafeRawBufferPointer(bytes)) }
        }
        return try body(&turn)
    }

    /// Writes without blocking, if no other thread has its turn.
    /// - Returns: whether all bytes were written; the rest is written by the next turn, which is then due.
    func tryTurn(_ frames: () -> [[UInt8]]) throws(LinkError) -> Bool {
        let taken: RecordSealer? = state.withLock { state in
            guard state.turn == state.nextTicket, state.rest.isEmpty, let sealer = state.sealer.take() else { return nil }
            state.nextTicket += 1
            return sealer
        }
        guard var sealer = taken else { return false }
        var rest: ArraySlice<UInt8> = []
        defer {
            state.update { state in
                state.sealer = sealer
                state.rest = rest
                state.turn += 1
            }
        }
        rest = sealer.seal(frames())[...]
        guard !rest.isEmpty else { return true }
        let count = try rest.withUnsafeBufferPointer { (bytes) throws(LinkError) in
            try link.writeWithoutBlocking(UnsafeRawBufferPointer(bytes))
        }
        rest = rest.dropFirst(count)
        return rest.isEmpty
    }
}
