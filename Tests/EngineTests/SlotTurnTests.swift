import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

/// All slots of untrusted peers, held by transfers from many addresses.
@Suite("turns at slots for incoming links") struct SlotTurnTests {
    /// A registry whose links are in use from their handshakes on.
    private struct Receiver {
        var registry = LinkRegistry()
        let limits = NodeLimits()
        private let ended = Monitor<[LinkRegistry.Slot]>([])

        /// Opens a link, proves its key, and begins a transfer.
        /// - Parameter rate: the bytes a second of the transfer, as measured after the first period.
        /// - Returns: nil when no other link gave way.
        mutating func open(
            _ host: String, at milliseconds: Int, rate: Int, isFriend: Bool = false
        ) -> LinkRegistry.Slot? {
            let now = instant(milliseconds)
            let source = LinkSource(LinkAddress(host: host, port: 1))
            let admission = registry.admit(from: source, limits: limits, now: now, end: {})
            guard case .admitted(let slot, let evict) = admission else { return nil }
            evict?()
            registry.attach(
                slot, unusedSince: { _ in nil }, rate: { $0 - now < ProgressMeter.period ? nil : rate }, isMoving: { true },
                end: { [ended] in ended.update { $0.append(slot) } })
            let end = registry.classify(slot, isFriend: isFriend, limits: limits, now: now)
            end?()
            for slot in ended.withLock({ $0 }) { registry.release(slot, now: now) }
            return isOpen(slot) ? slot : nil
        }

        func instant(_ milliseconds: Int) -> MonotonicInstant {
            MonotonicInstant(nanoseconds: Int64(milliseconds) * 1_000_000)
        }

        func isOpen(_ slot: LinkRegistry.Slot) -> Bool { !ended.withLock { $0.contains(slot) } }
    }

    /// Just above the minimum rate.
    private let trickle = ProgressMeter.minimumRate + 300

    @Test(
        "R5: of sixty-four addresses that hold all slots by trickles, or renew their links, one gives way to an honest sender",
        arguments: [0, 20_000], [nil, 4_000] as [Int?])
    func manyAddresses(start: Int, lifetime: Int?) {
        var receiver = Receiver()
        var held: [Int: (slot: LinkRegistry.Slot, since: Int)] = [:]
        var honest: (slot: LinkRegistry.Slot, since: Int)?
        for time in stride(from: 0, to: start + 40_000, by: 250) {
            for number in 0..<64 {
                if let link = held[number] {
                    let isOld = lifetime.map { time - link.since >= $0 } ?? false
                    if receiver.isOpen(link.slot), !isOld { continue }
                    receiver.registry.release(link.slot, now: receiver.instant(time))
                }
                held[number] = receiver.open("10.1.0.\(number)", at: time, rate: trickle).map { ($0, time) }
            }
            // Tries as those of a send: after 1, 2, 4 and 8 s.
            guard honest == nil, [0, 1_000, 3_000, 7_000, 15_000].contains(time - start) else { continue }
            honest = receiver.open("10.2.0.1", at: time, rate: 1 << 20).map { ($0, time) }
        }
        #expect(honest.map { $0.since - start <= 15_000 } == true)
        #expect(honest.map { receiver.isOpen($0.slot) } == true, "a fast transfer stays")
        let friend = receiver.open("10.2.0.2", at: start + 40_000, rate: trickle, isFriend: true)
        #expect(friend != nil, "a friend waits for nothing")
    }

    @Test(
        "R5: forty-eight addresses that close all links together, and open them again, give way to an honest sender",
        arguments: [1_000, 2_000])
    func renewalTogether(interval: Int) {
        var receiver = Receiver()
        var held: [LinkRegistry.Slot] = []
        var honest: (slot: LinkRegistry.Slot, since: Int)?
        for time in stride(from: 0, to: 15_000, by: interval) {
            for slot in held { receiver.registry.release(slot, now: receiver.instant(time)) }
            held = (0..<48).compactMap { receiver.open("10.1.0.\($0)", at: time + 1, rate: trickle) }
            let attempt = time + interval / 2
            if honest == nil { honest = receiver.open("10.2.0.1", at: attempt, rate: 1 << 20).map { ($0, attempt) } }
        }
        #expect(honest.map { $0.since >= 10_000 && receiver.isOpen($0.slot) } == true)
    }

    @Test("R5: a link that joins a session counts for its address until then")
    func joinedLink() {
        var receiver = Receiver()
        let slots = (0..<48).compactMap { receiver.open("10.1.0.\($0)", at: 0, rate: LinkRegistry.contendedRate) }
        let member = PeerID(bytes: [UInt8](repeating: 1, count: PeerID.byteCount))!
        receiver.registry.recordMember(member, slots[7], limits: receiver.limits, now: receiver.instant(12_000))
        let second = receiver.open("10.1.0.7", at: 12_000, rate: 1 << 20)
        let newcomer = receiver.open("10.2.0.1", at: 12_001, rate: 1 << 20)
        #expect(newcomer != nil && second.map { receiver.isOpen($0) } == false)
        #expect(slots.count { receiver.isOpen($0) } == 48)
    }

    @Test("R5: where twelve addresses hold all slots by several trickles each, one with fewer links gets a slot at once")
    func severalLinks() {
        var receiver = Receiver()
        let slots = (0..<48).compactMap { receiver.open("10.1.0.\($0 % 12)", at: 0, rate: trickle) }
        let fifth = receiver.open("10.1.0.1", at: 1_000, rate: trickle)
        #expect(slots.count == 48 && fifth == nil, "it has as many as the others")
        let newcomers = (0..<3).compactMap { receiver.open("10.2.0.1", at: 1_000 + $0, rate: trickle) }
        #expect(newcomers.count == 3 && slots.count { !receiver.isOpen($0) } == 3)
        let fourth = receiver.open("10.2.0.1", at: 2_000, rate: trickle)
        #expect(fourth == nil, "no other address has more than four")
    }

    @Test("R5: where all slots are in use by one link of each address, the slowest trickle gives way, and fast transfers stay")
    func singleLinks() {
        var receiver = Receiver()
        let rates = (0..<48).map { $0 == 7 ? 12 : LinkRegistry.contendedRate }
        let slots = rates.enumerated().compactMap { receiver.open("10.1.0.\($0.offset)", at: 0, rate: $0.element) }
        let early = receiver.open("10.2.0.1", at: 9_000, rate: 0)
        #expect(slots.count == 48 && early == nil, "no rate is measured yet")
        let late = receiver.open("10.2.0.1", at: 12_000, rate: 1 << 20)
        #expect(late != nil && slots.map { receiver.isOpen($0) } == rates.map { $0 > 12 })
        let another = receiver.open("10.2.0.2", at: 60_000, rate: 1 << 20)
        #expect(another == nil && slots.count { receiver.isOpen($0) } == 47)
    }

    /// Above the rate from which links stay where each source has one.
    private let fastRate = 70_000

    @Test("R5: where six addresses hold all slots by fast transfers, another one gets a slot at once, and its fair share")
    func fastTransfers() {
        var receiver = Receiver()
        let slots = (0..<48).compactMap { receiver.open("10.1.0.\($0 % 6)", at: 0, rate: fastRate + $0) }
        func heldCounts() -> [Int] {
            (0..<6).map { address in slots.indices.count { $0 % 6 == address && receiver.isOpen(slots[$0]) } }
        }
        let own = receiver.open("10.1.0.1", at: 20_000, rate: fastRate)
        #expect(slots.count == 48 && own == nil, "its limit is reached")
        let honest = receiver.open("10.2.0.1", at: 20_001, rate: 1 << 20)
        #expect(honest != nil && heldCounts() == [7, 8, 8, 8, 8, 8] && !receiver.isOpen(slots[0]), "the slowest gives way")
        let renewed = receiver.open("10.1.0.0", at: 20_002, rate: fastRate)
        #expect(renewed == nil, "no other address has two links more")
        let further = (0..<6).compactMap { receiver.open("10.2.0.1", at: 40_000 + $0, rate: 1 << 20) }
        #expect(further.count == 5 && heldCounts() == [7, 7, 7, 7, 7, 7])
        #expect(honest.map { receiver.isOpen($0) } == true)
        let friend = receiver.open("10.2.0.2", at: 60_000, rate: fastRate, isFriend: true)
        #expect(friend != nil, "a friend has slots of its own")
    }

    @Test("R5: addresses keep one fast link each: forty-eight hold all slots of untrusted peers") func singleFastLinks() {
        var receiver = Receiver()
        let slots = (0..<48).compactMap { receiver.open("10.1.0.\($0)", at: 0, rate: fastRate) }
        let newcomer = receiver.open("10.2.0.1", at: 60_000, rate: 1 << 20)
        #expect(slots.count == 48 && newcomer == nil && slots.allSatisfy { receiver.isOpen($0) })
    }

    @Test("R5: all addresses of one IPv6 network share its slots: another one gets one at once") func fastNetwork() {
        var receiver = Receiver()
        let slots = (0..<48).compactMap { receiver.open("2001:db8:0:\($0 % 2)::\($0 + 1)", at: 0, rate: fastRate) }
        let newcomer = receiver.open("10.2.0.1", at: 20_000, rate: 1 << 20)
        #expect(slots.count == 48 && newcomer != nil && slots.count { receiver.isOpen($0) } == 47)
    }

    @Test("R5: a source with two fast links loses none where one of another source is slow") func slowBesideFast() {
        var receiver = Receiver()
        let fast = (0..<2).compactMap { _ in receiver.open("10.2.0.1", at: 0, rate: 1 << 20) }
        let slow = (0..<46).compactMap { receiver.open("10.1.0.\($0)", at: 0, rate: trickle) }
        let newcomer = receiver.open("10.2.0.2", at: 20_000, rate: 1 << 20)
        #expect(newcomer != nil && fast.count == 2 && fast.allSatisfy { receiver.isOpen($0) })
        #expect(slow.count { receiver.isOpen($0) } == 45)
    }

    @Test("R5: the time for which a source holds slots is counted up to its limit, and passes as fast; others come before it")
    func slotTimes() {
        var times = SlotTimes()
        let (first, second) = (LinkSource.host("10.1.0.1"), LinkSource.host("10.1.0.2"))
        func record(_ holders: Set<LinkSource>, _ seconds: Int) {
            times.record(holders, now: MonotonicInstant(nanoseconds: 0) + .seconds(seconds))
        }
        for second in 0...9 { record([first], second) }
        #expect(times.time(of: first) == .seconds(9) && !times.isBefore(second, first))
        record([first], 10)
        #expect(times.isBefore(second, first) && !times.isBefore(first, second))
        record([first], 100)
        #expect(times.time(of: first) == SlotTimes.maximumTime)
        record([second], 104)
        #expect(times.time(of: first) == .seconds(16) && times.time(of: second) == .seconds(4))
        record([second], 112)
        #expect(times.time(of: first) == .seconds(8) && !times.isBefore(first, second))
        record([second], 114)
        #expect(times.isBefore(first, second))
        record([], 200)
        #expect([first, second].map { times.time(of: $0) } == [.zero, .zero])
    }
}
