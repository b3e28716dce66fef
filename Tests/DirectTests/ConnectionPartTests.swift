import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

private func at(_ seconds: Double) -> MonotonicInstant { MonotonicInstant(nanoseconds: Int64(seconds * 1e9)) }

@Suite struct KeepaliveTests {
    @Test func `a silent link is pinged every interval, and lost at the idle timeout`() {
        var keepalive = Keepalive(now: at(0))
        var pings: [MonotonicInstant] = []
        while !keepalive.isLost(now: keepalive.deadline), pings.count < 10 {
            let due = keepalive.deadline
            let reactions = keepalive.advance(to: due)
            #expect(reactions == [.send(.ping(UInt64(bitPattern: due.nanoseconds)))])
            pings.append(due)
        }
        #expect(pings == [at(4), at(8)])
        #expect(keepalive.deadline == at(0) + DirectLimits.idleTimeout)
    }

    @Test func `any byte of the peer postpones both`() {
        var keepalive = Keepalive(now: at(0))
        keepalive.recordActivity(now: at(3.9))
        #expect(keepalive.deadline == at(3.9) + DirectLimits.keepaliveInterval)
        let early = keepalive.advance(to: at(4))
        #expect(early.isEmpty)
        #expect(!keepalive.isLost(now: at(15.8)) && keepalive.isLost(now: at(15.9)))
    }
}

@Suite struct RecentTransferIDsTests {
    @Test("A3, R1: the most recent ids are remembered, and no more of them")
    func capacity() {
        var recent = RecentTransferIDs()
        let count = UInt64(RecentTransferIDs.capacity)
        for number in 0..<count { recent.insert(TransferID(rawValue: number)) }
        // Inserting a known id again replaces nothing.
        recent.insert(TransferID(rawValue: count - 1))
        #expect(recent.contains(TransferID(rawValue: 0)))
        recent.insert(TransferID(rawValue: count))
        #expect(!recent.contains(TransferID(rawValue: 0)))
        #expect(recent.contains(TransferID(rawValue: 1)) && recent.contains(TransferID(rawValue: count)))
    }
}

@Suite("comparing the short authentication string") struct VerificationTests {
    /// Both ends of a link, whose digits are known to both.
    private func pair(revealed: Bool = true) throws -> (Verification, Verification) {
        func end(_ role: HandshakeRole, _ byte: UInt8) -> Verification {
            Verification(
                ShortAuthenticationString(
                    role: role, handshakeHash: Samples.digest,
                    nonce: [UInt8](repeating: byte, count: ShortAuthenticationString.nonceByteCount)))
        }
        var (ada, bea) = (end(.initiator, 1), end(.responder, 2))
        guard revealed else { return (ada, bea) }
        let toBea = try ada.receive(commitment: bea.commitment)
        let toAda = try bea.receive(commitment: ada.commitment)
        guard case .send(.reveal(let adaNonce))? = toBea.first, case .send(.reveal(let beaNonce))? = toAda.first else {
            throw MalformedInput("no reveal")
        }
        _ = try ada.receive(reveal: beaNonce)
        _ = try bea.receive(reveal: adaNonce)
        return (ada, bea)
    }

    @Test func `both ends see the same digits`() throws {
        let (ada, bea) = try pair()
        #expect(ada.digits != nil && ada.digits == bea.digits)
    }

    @Test("K3: each link has one comparison, answered once by each side")
    func once() throws {
        var (ada, bea) = try pair()
        let requested = ada.request()
        #expect(requested == [.send(.compare)])
        let repeated = ada.request()
        #expect(repeated.isEmpty)
        let asked = try bea.receiveRequest()
        #expect(asked == [.verificationRequested])
        #expect(throws: MalformedInput.self) { try bea.receiveRequest() }
        let own = bea.request()
        #expect(own.isEmpty)
        let answered = bea.answer(matches: false)
        #expect(answered == [.send(.compared(isSame: false))])
        let changed = bea.answer(matches: true)
        #expect(changed.isEmpty)
        let heard = try ada.receiveAnswer(matches: false)
        #expect(heard == [.verificationAnswered(matches: false)])
        #expect(throws: MalformedInput.self) { try ada.receiveAnswer(matches: true) }
    }

    @Test("K3: nothing is compared before the digits are known, and nothing answered that was not asked")
    func order() throws {
        var (ada, bea) = try pair(revealed: false)
        let early = ada.request() + ada.answer(matches: true)
        #expect(early.isEmpty)
        #expect(throws: MalformedInput.self) { try bea.receiveRequest() }
        #expect(throws: MalformedInput.self) { try bea.receiveAnswer(matches: true) }
        (ada, bea) = try pair()
        #expect(throws: MalformedInput.self) { try ada.receiveAnswer(matches: true) }
    }

    @Test("K1: a reflected commitment and a wrong reveal are refused")
    func attacks() throws {
        var (ada, bea) = try pair(revealed: false)
        #expect(throws: MalformedInput.self) { try ada.receive(commitment: ada.commitment) }
        #expect(throws: ShortAuthenticationString.Failure.outOfOrder) { try bea.receive(reveal: Samples.digest) }
        _ = try bea.receive(commitment: ada.commitment)
        #expect(throws: ShortAuthenticationString.Failure.wrongReveal) { try bea.receive(reveal: Samples.digest) }
        #expect(bea.digits == nil)
    }
}

@Suite struct TransferMeterTests {
    @Test func `a steady flow has its rate, and the time left follows from it`() throws {
        var meter = TransferMeter(amount: 1_000, now: at(0))
        #expect(meter.rate == nil && meter.timeLeft(until: 5_000) == nil)
        for second in 1...20 { meter.measure(1_000 + UInt64(second) * 100, now: at(Double(second))) }
        let rate = try #require(meter.rate)
        #expect(abs(rate - 100) < 0.001)
        let left = try #require(meter.timeLeft(until: 4_000))
        #expect(abs(left.inSeconds - 10) < 0.01)
    }

    @Test func `the wait before the first byte does not count`() throws {
        var meter = TransferMeter(amount: 0, now: at(0))
        meter.measure(0, now: at(100))
        #expect(meter.rate == nil)
        meter.measure(500, now: at(101))
        #expect(meter.rate == 500)
    }

    @Test func `a stalled transfer slows down until no time can be told`() throws {
        var meter = TransferMeter(amount: 0, now: at(0))
        meter.measure(1_000, now: at(1))
        var last = try #require(meter.rate)
        for second in 2...200 {
            meter.measure(1_000, now: at(Double(second)))
            let rate = try #require(meter.rate)
            #expect(rate <= last)
            last = rate
        }
        #expect(last < 0.001 && meter.timeLeft(until: .max) == nil)
    }

    @Test("R7: samples that are too close, go back or exceed the total give no senseless number")
    func oddSamples() {
        var meter = TransferMeter(amount: 100, now: at(0))
        meter.measure(200, now: at(0.01))
        #expect(meter.rate == nil)
        meter.measure(50, now: at(1))
        #expect(meter.rate == 0 && meter.timeLeft(until: 100) == nil)
        meter.measure(1_000, now: at(2))
        #expect(meter.timeLeft(until: 10) == nil && meter.timeLeft(until: nil) == nil)
    }

    @Test func `the decay is the exponential function`() {
        #expect(Exponential.decay(0) == 1 && Exponential.decay(1_000) == 0)
        #expect(abs(Exponential.decay(1) - 0.367_879_441) < 1e-6)
        let values = (0...400).map { Exponential.decay(Double($0) / 10) }
        #expect(zip(values, values.dropFirst()).allSatisfy { $0 >= $1 && $1 >= 0 })
    }
}
