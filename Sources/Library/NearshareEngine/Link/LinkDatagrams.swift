internal import NearshareBase
internal import Synchronization

/// The unreliable datagrams that arrive on a link. None is queued by the link: the session that the link belongs to receives each at
/// once, and on any other link they are dropped (Q2).
final class LinkDatagrams: Sendable {
    /// Receives a datagram on the thread that reads the link. The closure must not block.
    typealias Take = @Sendable ([UInt8]) -> Void

    private struct State {
        var take: Take?
        var isClosed = false
    }

    /// Limit on a datagram: the kind of the message, and the message.
    static let maximumByteCount = 1 + Session.maximumUnreliableByteCount

    private let state = Mutex(State())

    /// Delivers the datagrams to `take`, from now on until the link ends.
    func read(_ take: @escaping Take) {
        state.withLock { state in
            if !state.isClosed { state.take = take }
        }
    }

    /// - Throws: a violation for a datagram that no session sends.
    func receive(_ bytes: some Collection<UInt8>) throws(MalformedInput) {
        guard bytes.count <= Self.maximumByteCount else { throw MalformedInput("a datagram of \(bytes.count) bytes") }
        state.withLock { $0.take }?(Array(bytes))
    }

    /// Ends the delivery because the link has ended.
    func close() {
        // Released without the lock: the closure may hold the last reference to a session.
        let held = state.withLock { state in
            state.isClosed = true
            return state.take.take()
        }
        withExtendedLifetime(held) {}
    }
}
