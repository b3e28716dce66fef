import Nearshare
import Testing

@testable import NearshareService

@Suite("the decisions of a direct send after its attempts") struct DirectSendStateTests {
    private let address = LinkAddress(host: "192.0.2.1", port: 4000)
    private let receiver: Fingerprint
    private let broken = CommandFailure(.peerGone, "the link broke")
    private let unreachable = CommandFailure(.peerNotFound, "could not connect")

    init() throws {
        receiver = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
    }

    private func instant(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    private func state(canResume: Bool = true) -> DirectSendState {
        DirectSendState(canResume: canResume, retryTime: .seconds(30))
    }

    /// An attempt whose link broke after a handshake.
    private func loss(byteCount: UInt64) -> DirectSendState.Attempt {
        DirectSendState.Attempt(
            addresses: [address], receiver: receiver, byteCount: byteCount, failure: broken, isBroken: true)
    }

    /// An attempt that established no connection.
    private func miss(isEndedInHandshake: Bool = false) -> DirectSendState.Attempt {
        DirectSendState.Attempt(
            addresses: [address], failure: unreachable, isBroken: true, isEndedInHandshake: isEndedInHandshake)
    }

    /// The message with which a send has failed; nil where it goes on.
    private func failure(_ step: DirectSendState.Step) -> String? {
        if case .failed(let failure) = step { failure.message } else { nil }
    }

    @Test func `an attempt without a failure is the last one`() {
        var state = state()
        let step = state.step(
            after: DirectSendState.Attempt(addresses: [address], receiver: receiver), isCancelled: false, now: instant(0))
        guard case .delivered = step else {
            Issue.record("another attempt follows")
            return
        }
    }

    @Test func `a link that ends in the handshake is opened again, and the first time is reported`() {
        var state = state()
        var steps: [(delay: Duration, isFirst: Bool)] = []
        for second: Int64 in [0, 1] {
            let step = state.step(after: miss(isEndedInHandshake: true), isCancelled: false, now: instant(second))
            if case .openAgain(let delay, _, let isFirst) = step { steps.append((delay, isFirst)) }
        }
        #expect(steps.map(\.delay) == [.seconds(1), .seconds(2)] && steps.map(\.isFirst) == [true, false])
        let late = state.step(after: miss(isEndedInHandshake: true), isCancelled: false, now: instant(30))
        #expect(failure(late) == unreachable.message)
    }

    @Test func `a receiver that was never connected to is not looked for again`() {
        var state = state()
        let step = state.step(after: miss(), isCancelled: false, now: instant(0))
        #expect(failure(step) == unreachable.message)
    }

    @Test func `a link that broke is replaced, and only an attempt that moved content is another loss`() {
        var state = state()
        var losses: [(since: MonotonicInstant, isNew: Bool)] = []
        let attempts = [(loss(byteCount: 5), 0), (miss(), 1), (loss(byteCount: 0), 3), (loss(byteCount: 9), 7)]
        for (attempt, second) in attempts {
            let step = state.step(after: attempt, isCancelled: false, now: instant(Int64(second)))
            guard case .reconnect(let peer, _, let since, let isNewLoss) = step else { continue }
            #expect(peer == receiver)
            losses.append((since, isNewLoss))
        }
        #expect(losses.map(\.since) == [instant(0), instant(0), instant(0), instant(7)])
        #expect(losses.map(\.isNew) == [true, false, false, true])
        #expect(state.receiver == receiver)
    }

    @Test func `when the time is over, the broken link is the reason, and not that nothing answers`() {
        var state = state()
        _ = state.step(after: loss(byteCount: 5), isCancelled: false, now: instant(0))
        let step = state.step(after: miss(), isCancelled: false, now: instant(31))
        #expect(failure(step) == broken.message)
    }

    @Test func `a receiver without a slot is the reason, and not a link that breaks later before it has moved more`() {
        let busy = CommandFailure(.peerGone, "the peer is busy")
        for (byteCount, expected) in [(0, busy.message), (9, broken.message)] as [(UInt64, String)] {
            var state = state()
            var noSlot = loss(byteCount: 5)
            (noSlot.failure, noSlot.foundNoSlot) = (busy, true)
            _ = state.step(after: noSlot, isCancelled: false, now: instant(0))
            _ = state.step(after: loss(byteCount: byteCount), isCancelled: false, now: instant(1))
            let step = state.step(after: miss(), isCancelled: false, now: instant(40))
            #expect(failure(step) == expected)
        }
    }

    @Test func `an answer of the receiver counts more than the break before it`() {
        var state = state()
        _ = state.step(after: loss(byteCount: 5), isCancelled: false, now: instant(0))
        let declined = DirectSendState.Attempt(
            addresses: [address], receiver: receiver, failure: CommandFailure(.declined, "declined"))
        let step = state.step(after: declined, isCancelled: false, now: instant(1))
        #expect(failure(step) == "declined")
    }

    @Test func `no other attempt follows after a cancellation, nor for content that is not resumed`() {
        var cancelled = state()
        let opening = cancelled.step(after: miss(isEndedInHandshake: true), isCancelled: true, now: instant(0))
        let later = cancelled.step(after: loss(byteCount: 5), isCancelled: true, now: instant(0))
        #expect(failure(opening) == unreachable.message && failure(later) == broken.message)
        var once = state(canResume: false)
        let step = once.step(after: loss(byteCount: 5), isCancelled: false, now: instant(0))
        #expect(failure(step) == broken.message)
    }
}
