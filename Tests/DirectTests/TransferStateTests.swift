import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

private func offer(_ id: TransferID, timeout: Duration = .seconds(60)) -> TransferOffer {
    TransferOffer(id: id, timeout: timeout, resumeKey: Samples.digest, context: [], offer: Samples.offers[0])
}

@Suite("transfers that this side sends") struct OutgoingTransfersTests {
    private let id = Samples.id

    fileprivate enum Phase: CaseIterable {
        case offered, locating, sending, awaitingReceipt, cancelling
    }

    fileprivate func transfers(in phase: Phase) throws -> OutgoingTransfers {
        var transfers = OutgoingTransfers()
        _ = transfers.offer(offer(id), now: at(0))
        if phase == .offered { return transfers }
        _ = try transfers.receiveAccept(id, window: 100, now: at(1))
        if phase == .locating { return transfers }
        if phase == .cancelling {
            _ = transfers.cancel(id, reason: .cancelled, now: at(1))
            return transfers
        }
        _ = try transfers.receiveResume(id, at: .start)
        if phase == .awaitingReceipt { transfers.willSendLastBlock(id) }
        return transfers
    }

    @Test func `an accepted offer is sent and ends with the receipt`() throws {
        var transfers = OutgoingTransfers()
        let reactions = transfers.offer(offer(id), now: at(0))
        #expect(reactions == [.send(.offer(offer(id)))])
        let accepted = try transfers.receiveAccept(id, window: 100, now: at(1))
        #expect(accepted == [.offerAccepted(id), .windowRaised(id, upTo: 100)])
        let resumed = try transfers.receiveResume(id, at: .start)
        #expect(resumed == [.startSending(id, from: .start)])
        let granted = try transfers.receiveCredit(id, upTo: 200)
        #expect(granted == [.windowRaised(id, upTo: 200)])
        transfers.willSendLastBlock(id)
        let stored = try transfers.receiveStored(id)
        #expect(stored == [.outgoingEnded(id, .completed)])
        #expect(transfers.isEmpty && transfers.hasEnded(id) && transfers.isUsed(id) && transfers.deadline == nil)
    }

    @Test func `changed names are reported before the end`() throws {
        var transfers = try transfers(in: .awaitingReceipt)
        let names = try transfers.receiveChangedNames(id, Samples.changedNames)
        #expect(names == [.namesChanged(id, Samples.changedNames)])
        let stored = try transfers.receiveStored(id)
        #expect(stored == [.outgoingEnded(id, .completed)])
    }

    @Test func `an output that the receiver's reader has closed is reported before the end`() throws {
        var transfers = try transfers(in: .awaitingReceipt)
        let closed = transfers.receiveCancel(id, reason: .outputClosed)
        #expect(
            closed == [
                .stopSending(id), .send(.cancelled(id)), .outputClosed(id),
                .outgoingEnded(id, .failed(.storageFailed, at: .remote)),
            ])
    }

    @Test("R5: a receiver that accepts and does not go on is one whose link is broken")
    func silentReceivers() throws {
        for phase in [Phase.locating, .awaitingReceipt] {
            var transfers = try transfers(in: phase)
            // The time of the last byte is known from here on.
            let soon = transfers.advance(to: at(5))
            let deadline = try #require(transfers.deadline)
            let early = transfers.advance(to: deadline + .nanoseconds(-1))
            #expect(soon.isEmpty && early.isEmpty && deadline >= at(1) + DirectLimits.stepTimeout)
            let late = transfers.advance(to: deadline)
            #expect(late == [.stopSending(id), .send(.cancel(id, .goingAway))])
            let cancelled = transfers.receiveCancelled(id)
            #expect(cancelled == [.outgoingEnded(id, .interrupted)])
        }
    }

    @Test("A9: an accept that comes after the expiry expires the offer on both sides")
    func lateAccept() throws {
        var transfers = try transfers(in: .offered)
        let expiry = try #require(transfers.deadline)
        #expect(expiry == at(60) + DirectLimits.expiryGrace)
        let reactions = try transfers.receiveAccept(id, window: 1, now: expiry + .nanoseconds(1))
        #expect(reactions == [.send(.cancel(id, .expired)), .outgoingEnded(id, .expired)])
        // Sent before the receiver knew: a race, no violation.
        let second = try transfers.receiveAccept(id, window: 1, now: expiry + .seconds(1))
        #expect(second.isEmpty)
    }

    @Test func `an offer that is not answered expires at its deadline, not before`() throws {
        var transfers = try transfers(in: .offered)
        let expiry = try #require(transfers.deadline)
        let early = transfers.advance(to: expiry + .nanoseconds(-1))
        #expect(early.isEmpty && !transfers.isEmpty)
        let due = transfers.advance(to: expiry)
        #expect(due == [.send(.cancel(id, .expired)), .outgoingEnded(id, .expired)])
    }

    @Test("A2: a frame that its phase does not allow is a violation, after the end it is a race", arguments: Phase.allCases)
    fileprivate func violations(_ phase: Phase) throws {
        func isViolation(_ frame: (inout OutgoingTransfers) throws(MalformedInput) -> Void) throws -> Bool {
            var transfers = try transfers(in: phase)
            do throws(MalformedInput) {
                try frame(&transfers)
                return false
            } catch {
                return true
            }
        }
        let accept = try isViolation { (one) throws(MalformedInput) in _ = try one.receiveAccept(id, window: 1, now: at(2)) }
        #expect(accept == [.locating, .sending, .awaitingReceipt].contains(phase))
        let decline = try isViolation { (one) throws(MalformedInput) in _ = try one.receiveDecline(id, reason: .declined) }
        #expect(decline == [.locating, .sending, .awaitingReceipt].contains(phase))
        let resume = try isViolation { (one) throws(MalformedInput) in _ = try one.receiveResume(id, at: .start) }
        #expect(resume == [.offered, .sending, .awaitingReceipt].contains(phase))
        let credit = try isViolation { (one) throws(MalformedInput) in _ = try one.receiveCredit(id, upTo: 1) }
        #expect(credit == [.offered, .locating].contains(phase))
        let stored = try isViolation { (one) throws(MalformedInput) in _ = try one.receiveStored(id) }
        #expect(stored == (phase != .awaitingReceipt))
        let names = try isViolation { (one) throws(MalformedInput) in
            _ = try one.receiveChangedNames(id, Samples.changedNames)
        }
        #expect(names == (phase != .awaitingReceipt))

        var ended = try transfers(in: phase)
        _ = ended.receiveCancel(id, reason: .cancelled)
        let races =
            try ended.receiveAccept(id, window: 1, now: at(2)) + ended.receiveDecline(id, reason: .busy)
            + ended.receiveResume(id, at: .start) + ended.receiveCredit(id, upTo: 9) + ended.receiveStored(id)
            + ended.receiveChangedNames(id, Samples.changedNames)
        #expect(races.isEmpty)
    }

    @Test("A2: frames for a transfer that was never offered are violations")
    func unknown() {
        var transfers = OutgoingTransfers()
        #expect(throws: MalformedInput.self) { try transfers.receiveAccept(id, window: 1, now: at(0)) }
        #expect(throws: MalformedInput.self) { try transfers.receiveStored(id) }
        let cancelled = transfers.receiveCancel(id, reason: .cancelled)
        let confirmed = transfers.receiveCancelled(id)
        let own = transfers.cancel(id, reason: .cancelled, now: at(0))
        #expect(cancelled == nil && confirmed == nil && own == nil)
    }

    @Test func `a cancel stops the content and waits for its confirmation`() throws {
        var transfers = try transfers(in: .sending)
        let reactions = transfers.cancel(id, reason: .cancelled, now: at(5))
        #expect(reactions == [.stopSending(id), .send(.cancel(id, .cancelled))])
        let again = transfers.cancel(id, reason: .goingAway, now: at(5))
        #expect(again == [])
        #expect(transfers.deadline == at(5) + DirectLimits.cancelTimeout)
        var silent = transfers
        let confirmed = transfers.receiveCancelled(id)
        #expect(confirmed == [.outgoingEnded(id, .cancelled(by: .local))])
        let due = silent.advance(to: at(5) + DirectLimits.cancelTimeout)
        #expect(due == [.outgoingEnded(id, .cancelled(by: .local))])
    }

    @Test func `after all was sent only the receiver decides between a cancel and its receipt`() throws {
        var transfers = try transfers(in: .awaitingReceipt)
        _ = transfers.cancel(id, reason: .cancelled, now: at(5))
        #expect(transfers.deadline == at(5) + DirectLimits.idleTimeout)
        let stored = try transfers.receiveStored(id)
        #expect(stored == [.outgoingEnded(id, .completed)])
        // Content that is not complete cannot be stored.
        var early = try self.transfers(in: .cancelling)
        #expect(throws: MalformedInput.self) { try early.receiveStored(id) }
    }

    @Test func `when both sides cancel at once the sender's reason counts`() throws {
        var transfers = try transfers(in: .sending)
        _ = transfers.cancel(id, reason: .sourceChanged, now: at(5))
        let reactions = transfers.receiveCancel(id, reason: .noSpace)
        #expect(reactions == [.send(.cancelled(id)), .outgoingEnded(id, .failed(.sourceChanged, at: .local))])
    }

    private static let ids = (1...7 as ClosedRange<UInt64>).map { TransferID(rawValue: $0) }

    @Test func `an offer waits until the one before is answered and fewer than four run, and its time begins then`() throws {
        let ids = Self.ids
        var transfers = OutgoingTransfers()
        for id in ids { _ = transfers.offer(offer(id), now: at(0)) }
        let early = transfers.sendDueOffers(now: at(50))
        #expect(early.isEmpty && transfers.deadline == at(60) + DirectLimits.expiryGrace)
        _ = try transfers.receiveDecline(ids[0], reason: .declined)
        let second = transfers.sendDueOffers(now: at(100))
        #expect(second == [.send(.offer(offer(ids[1])))])
        #expect(transfers.deadline == at(160) + DirectLimits.expiryGrace)
        let expired = transfers.advance(to: at(200))
        #expect(expired == [.send(.cancel(ids[1], .expired)), .outgoingEnded(ids[1], .expired)])
        for id in ids[2..<6] {
            let offered = transfers.sendDueOffers(now: at(200))
            #expect(offered == [.send(.offer(offer(id)))])
            _ = try transfers.receiveAccept(id, window: 1, now: at(200))
            _ = try transfers.receiveResume(id, at: .start)
        }
        let full = transfers.sendDueOffers(now: at(200))
        #expect(full.isEmpty)
        _ = transfers.receiveCancel(ids[2], reason: .noSpace)
        let last = transfers.sendDueOffers(now: at(200))
        #expect(last == [.send(.offer(offer(ids[6])))])
    }

    @Test func `an offer that waits is cancelled without a frame, ends with the link, and is unknown to the peer`() {
        let ids = Self.ids
        var transfers = OutgoingTransfers()
        for id in ids.prefix(3) { _ = transfers.offer(offer(id), now: at(0)) }
        let cancelled = transfers.cancel(ids[1], reason: .cancelled, now: at(1))
        #expect(cancelled == [.outgoingEnded(ids[1], .cancelled(by: .local))])
        #expect(transfers.isUsed(ids[2]) && !transfers.hasEnded(ids[2]))
        #expect(throws: MalformedInput.self) { try transfers.receiveAccept(ids[2], window: 1, now: at(1)) }
        let ends = transfers.endAll()
        #expect(
            ends == [
                .stopSending(ids[0]), .outgoingEnded(ids[0], .interrupted), .outgoingEnded(ids[2], .interrupted),
            ])
        #expect(transfers.isEmpty)
    }

    @Test func `256 offers may wait`() {
        var transfers = OutgoingTransfers()
        for number in 0...256 as ClosedRange<UInt64> {
            _ = transfers.offer(offer(TransferID(rawValue: number)), now: at(0))
            #expect(transfers.hasRoom == (number < 256))
        }
        let last = TransferID(rawValue: 257)
        let refused = transfers.offer(offer(last), now: at(0))
        #expect(refused == [.outgoingEnded(last, .interrupted)] && transfers.hasEnded(last))
    }

    @Test("the end of the connection interrupts what runs, and ends what was being cancelled", arguments: Phase.allCases)
    fileprivate func endAll(_ phase: Phase) throws {
        var transfers = try transfers(in: phase)
        let outcome: TransferOutcome = phase == .cancelling ? .cancelled(by: .local) : .interrupted
        let reactions = transfers.endAll()
        #expect(reactions == [.stopSending(id), .outgoingEnded(id, outcome)])
        #expect(transfers.isEmpty)
    }
}

@Suite("transfers that this side receives") struct IncomingTransfersTests {
    private let id = Samples.id
    private let other = TransferID(rawValue: 2)

    private func limits(window: UInt64 = 100, pending: Int = 1, transfers: Int = 4) -> DirectLimits {
        var limits = DirectLimits()
        (limits.window, limits.pendingInvitations, limits.incomingTransfers) = (window, pending, transfers)
        return limits
    }

    private func receiving() -> IncomingTransfers {
        var transfers = IncomingTransfers(limits: limits())
        _ = transfers.receiveOffer(offer(id), now: at(0))
        _ = transfers.accept(id, now: at(1))
        _ = transfers.resume(id, at: .start)
        return transfers
    }

    @Test func `an offer is accepted, its content received, and its receipt sent`() throws {
        var transfers = IncomingTransfers(limits: limits())
        let offered = transfers.receiveOffer(offer(id), now: at(0))
        #expect(offered == [.offerReceived(offer(id), expiry: at(60))])
        let accepted = transfers.accept(id, now: at(1))
        #expect(accepted == [.send(.accept(id, window: 100))])
        let resumed = transfers.resume(id, at: .start)
        #expect(resumed == [.send(.resume(id, .start))])
        let verdict = try transfers.receiveContent(id, byteCount: 100)
        #expect(verdict == .deliver)
        let began = transfers.beginFinishing(id)
        let finished = transfers.finish(id)
        #expect(began && finished == [.send(.stored(id)), .incomingEnded(id, .completed)])
        #expect(transfers.isEmpty && transfers.hasEnded(id))
    }

    @Test("A1: content before the consent is a violation")
    func beforeConsent() {
        var transfers = IncomingTransfers(limits: limits())
        #expect(throws: MalformedInput.self) { try transfers.receiveContent(id, byteCount: 1) }
        _ = transfers.receiveOffer(offer(id), now: at(0))
        #expect(throws: MalformedInput.self) { try transfers.receiveContent(id, byteCount: 1) }
        _ = transfers.accept(id, now: at(1))
        #expect(throws: MalformedInput.self) { try transfers.receiveContent(id, byteCount: 1) }
    }

    @Test("R3: more content than was granted is a violation; a grant follows half a window of stored bytes")
    func window() throws {
        var transfers = receiving()
        _ = try transfers.receiveContent(id, byteCount: 100)
        var greedy = transfers
        #expect(throws: MalformedInput.self) { try greedy.receiveContent(id, byteCount: 1) }
        let early = transfers.recordStored(id, upTo: 49)
        #expect(early.isEmpty)
        let granted = transfers.recordStored(id, upTo: 50)
        #expect(granted == [.send(.credit(id, upTo: 150))])
        _ = try transfers.receiveContent(id, byteCount: 50)
        #expect(throws: MalformedInput.self) { try transfers.receiveContent(id, byteCount: 1) }
    }

    @Test("R4, R11: offers over the limits are declined at once, and nobody is asked")
    func limitsOnOffers() {
        var transfers = IncomingTransfers(limits: limits(pending: 1))
        _ = transfers.receiveOffer(offer(id), now: at(0))
        let second = transfers.receiveOffer(offer(other), now: at(0))
        #expect(second == [.send(.decline(other, .busy))] && transfers.isUsed(other))
        var full = IncomingTransfers(limits: limits(pending: 5, transfers: 1))
        _ = full.receiveOffer(offer(id), now: at(0))
        _ = full.accept(id, now: at(0))
        let third = full.receiveOffer(offer(other), now: at(0))
        #expect(third == [.send(.decline(other, .busy))])
    }

    @Test("R7: an offer's timeout is bounded at both ends", arguments: [(0, 1), (-5, 1), (3, 3), (1_000_000, 600)])
    func timeouts(claimed: Int, used: Int) {
        var transfers = IncomingTransfers(limits: limits())
        _ = transfers.receiveOffer(offer(id, timeout: .seconds(claimed)), now: at(0))
        #expect(transfers.deadline == at(Double(used)))
    }

    @Test func `an answer after the expiry declines the offer`() {
        var transfers = IncomingTransfers(limits: limits())
        _ = transfers.receiveOffer(offer(id), now: at(0))
        let reactions = transfers.accept(id, now: at(61))
        #expect(reactions == [.send(.decline(id, nil)), .incomingEnded(id, .expired)])
        let again = transfers.accept(id, now: at(61)) + transfers.decline(id, reason: .declined)
        #expect(again.isEmpty)
    }

    @Test func `content that arrives after the end is dropped, content after finishing is a violation`() throws {
        var transfers = receiving()
        _ = transfers.beginFinishing(id)
        #expect(throws: MalformedInput.self) { try transfers.receiveContent(id, byteCount: 1) }
        _ = transfers.finish(id)
        let verdict = try transfers.receiveContent(id, byteCount: 1)
        #expect(verdict == .drop)
    }

    @Test func `a cancel here drops content until it is confirmed or times out`() throws {
        var transfers = receiving()
        let reactions = transfers.cancel(id, reason: .noSpace, now: at(5))
        #expect(reactions == [.send(.cancel(id, .noSpace))])
        let verdict = try transfers.receiveContent(id, byteCount: 1_000)
        #expect(verdict == .drop)
        let stopped = transfers.beginFinishing(id)
        #expect(!stopped)
        var silent = transfers
        let confirmed = transfers.receiveCancelled(id)
        #expect(confirmed == [.incomingEnded(id, .failed(.noSpace, at: .local))])
        let due = silent.advance(to: at(5) + DirectLimits.cancelTimeout)
        #expect(due == [.incomingEnded(id, .failed(.noSpace, at: .local))])
    }

    @Test func `while the content is made durable a user's cancel is too late, a failure to store it is not`() {
        var transfers = receiving()
        _ = transfers.beginFinishing(id)
        let late = transfers.cancel(id, reason: .cancelled, now: at(5))
        let remote = transfers.receiveCancel(id, reason: .cancelled)
        #expect(late.isEmpty && remote == [])
        let failed = transfers.cancel(id, reason: .storageFailed, now: at(5))
        #expect(failed == [.send(.cancel(id, .storageFailed))])
        let finished = transfers.finish(id)
        #expect(finished.isEmpty)
    }

    @Test func `a violation ends every transfer as refused, a lost link as interrupted`() {
        var lost = receiving()
        var violated = receiving()
        let first = lost.endAll(afterViolation: false)
        let second = violated.endAll(afterViolation: true)
        #expect(first == [.incomingEnded(id, .interrupted)])
        #expect(second == [.incomingEnded(id, .failed(.refused, at: .local))])
    }

    @Test("no order of frames and calls traps, or reports a transfer's end twice", arguments: seeds(1...50))
    func madeUp(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var incoming = IncomingTransfers(limits: limits(pending: 3))
        var outgoing = OutgoingTransfers()
        var ends: [TransferID: Int] = [:]
        var now = 0.0
        for _ in 0..<400 {
            now += Double.random(in: 0...3, using: &random)
            let id = TransferID(rawValue: UInt64.random(in: 1...4, using: &random))
            let time = at(now)
            var reactions: [DirectReaction] = []
            switch Int.random(in: 0..<20, using: &random) {
            case 0 where !incoming.isUsed(id): reactions = incoming.receiveOffer(offer(id), now: time)
            case 1: reactions = incoming.accept(id, now: time)
            case 2: reactions = incoming.resume(id, at: .start)
            case 3: reactions = incoming.decline(id, reason: .declined)
            case 4: reactions = incoming.recordStored(id, upTo: random.next() >> 32)
            case 5: _ = incoming.beginFinishing(id)
            case 6: reactions = incoming.finish(id)
            case 7: reactions = incoming.cancel(id, reason: .cancelled, now: time)
            case 8: _ = try? incoming.receiveContent(id, byteCount: Int.random(in: 0...80, using: &random))
            case 9: reactions = incoming.receiveCancel(id, reason: .cancelled) ?? []
            case 10: reactions = incoming.receiveCancelled(id) ?? []
            case 11 where !outgoing.isUsed(id): reactions = outgoing.offer(offer(id), now: time)
            case 12: reactions = (try? outgoing.receiveAccept(id, window: 5, now: time)) ?? []
            case 13: reactions = (try? outgoing.receiveResume(id, at: .start)) ?? []
            case 14: reactions = (try? outgoing.receiveStored(id)) ?? []
            case 15: outgoing.willSendLastBlock(id)
            case 16: reactions = outgoing.cancel(id, reason: .goingAway, now: time) ?? []
            case 17: reactions = outgoing.receiveCancel(id, reason: .noSpace) ?? []
            case 18: reactions = outgoing.sendDueOffers(now: time)
            default: reactions = incoming.advance(to: time) + outgoing.advance(to: time)
            }
            for reaction in reactions {
                switch reaction {
                case .incomingEnded(let id, _): ends[id, default: 0] += 1
                case .outgoingEnded(let id, _): ends[TransferID(rawValue: id.rawValue + 100), default: 0] += 1
                default: break
                }
            }
        }
        for reaction in incoming.endAll(afterViolation: false) + outgoing.endAll() {
            switch reaction {
            case .incomingEnded(let id, _): ends[id, default: 0] += 1
            case .outgoingEnded(let id, _): ends[TransferID(rawValue: id.rawValue + 100), default: 0] += 1
            default: break
            }
        }
        #expect(ends.values.allSatisfy { $0 == 1 } && !ends.isEmpty, "seed \(seed): \(ends)")
    }
}
