import NearshareBase
import Testing

@testable import NearshareMesh

@Suite struct LinkTableTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)

    private func link(_ number: UInt64) -> MeshLinkID { MeshLinkID(rawValue: number) }

    private func table(_ profiles: [MeshLinkProfile]) -> LinkTable {
        var table = LinkTable()
        for (number, profile) in profiles.enumerated() {
            table.open(link(UInt64(number)), profile: profile, MeshRouter.Settings(), now: now)
        }
        return table
    }

    @Test func `a stream is preferred to a radio link, and a newer link to an older one`() {
        var table = table([.stream, .radio, .stream, .radio])
        #expect(table.best(of: [link(0), link(1), link(2), link(3)]) == link(2))
        #expect(table.best(of: [link(1), link(3)]) == link(3))
        table.close(link(2), now: now)
        #expect(table.best(of: [link(2), link(3)]) == link(3))
        #expect(table.best(of: [link(9)]) == nil)
    }

    @Test func `urgent and short frames overtake fragments`() {
        var table = table([.radio])
        table.enqueue([1], on: link(0), priority: .bulk)
        table.enqueue([2], on: link(0), priority: .normal)
        table.enqueue([3], on: link(0), priority: .urgent)
        #expect((0..<4).map { _ in table.dequeueFrame(for: link(0)) } == [[3], [2], [1], nil])
        #expect(!table.hasFrame(for: link(0)))
    }

    @Test func `queued fragments congest a link and are bounded`() {
        var table = table([.radio, .radio])
        let fragment = [UInt8](repeating: 0, count: 64 << 10)
        for _ in 0..<4 { table.enqueue(fragment, on: link(0), priority: .bulk) }
        #expect(table.isCongested(link(0)) && !table.isCongested(link(1)))
        for _ in 0..<200 { table.enqueue(fragment, on: link(1), priority: .bulk) }
        var count = 0
        while table.dequeueFrame(for: link(1)) != nil { count += 1 }
        #expect(count == 15)
    }

    @Test("R2, M2: a link is limited in frames, signatures and malformed frames") func budget() {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.signatureBurst) = (3, 2)
        var budgets = LinkBudgets()
        budgets.open(link(7), from: .link(link(7)), settings, now: now)
        // Each bucket of the link's own share holds one.
        #expect((0..<6).map { _ in budgets.admitLargeFrame(on: link(7), now: now) } == [true, true, true, true, false, false])
        // The first signature costs nothing. Long payloads use up their own account, and nothing that short ones need.
        let admitted = [40_000, 10, 10, 40_000, 10, 10].map { budgets.admitSignature(byteCount: $0, on: link(7), now: now) }
        #expect(admitted == [true, true, true, false, true, false])
        var table = table([.stream])
        for _ in 0..<64 { table.recordMalformedFrame(on: link(0)) }
        #expect(!table.isExhausted(link(0)))
        table.recordMalformedFrame(on: link(0))
        #expect(table.isExhausted(link(0)))
    }

    @Test("M20: compressing again to check signatures is limited by bytes; forged ones count twice, and short payloads nothing")
    func recompression() {
        var budgets = LinkBudgets()
        var clock = now
        for number in [1, 2] as [UInt64] {
            budgets.open(link(number), from: .address("\(number)"), MeshRouter.Settings(), now: now)
            budgets.setKnown(true, on: link(number))
        }
        func admitted(_ byteCount: Int, isSigned: Bool, _ number: UInt64) -> Int {
            (0..<100).count { _ in
                guard budgets.admitRecompression(byteCount: byteCount, on: link(number), now: clock) else { return false }
                budgets.chargeRecompression(byteCount: byteCount, isSigned: isSigned, on: link(number), now: clock)
                return true
            }
        }
        // A burst of 8 MiB, a twelfth of that for the link itself, and the two that exceed these.
        #expect((17...19).contains(admitted(256 << 10, isSigned: true, 1)))
        #expect((8...11).contains(admitted(256 << 10, isSigned: false, 2)))
        #expect(admitted(1_024, isSigned: false, 2) == 100)
        clock = clock + .seconds(4)
        #expect((1...5).contains(admitted(256 << 10, isSigned: false, 2)))
    }

    @Test("R3, M2: the links of one address share a budget, also one after the other") func address() {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.framesPerSecond) = (10, 0)
        var table = LinkTable()
        func open(_ number: UInt64, _ address: String, at seconds: Int = 0) {
            table.open(
                link(number), profile: .stream, from: .address(address),
                settings, now: now + .seconds(seconds))
        }
        func admitted(_ number: UInt64) -> Int {
            (0..<20).count { _ in table.budgets.admitLargeFrame(on: link(number), now: now) }
        }
        open(1, "a")
        open(2, "a")
        open(3, "b")
        table.budgets.setKnown(true, on: link(3))
        #expect([1, 2, 3].map { admitted($0) } == [10, 1, 11])
        for number in [1, 2] as [UInt64] { table.close(link(number), now: now) }
        open(4, "a", at: 1)
        #expect(admitted(4) == 0)
        table.close(link(4), now: now + .seconds(1))
        open(5, "a", at: 200)
        let isAdmitted = table.budgets.admitLargeFrame(on: link(5), now: now + .seconds(200))
        #expect(isAdmitted)
    }

    @Test("M16: a link has a share of its own, whatever the other links of its address send, and new links bring no more")
    func shares() {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.framesPerSecond) = (120, 0)
        var table = LinkTable()
        func admitted(_ number: UInt64) -> Int {
            table.open(link(number), profile: .stream, from: .address("a"), settings, now: now)
            return (0..<200).count { _ in table.budgets.admitLargeFrame(on: link(number), now: now) }
        }
        #expect((1...30).map { admitted($0) } == [130] + [Int](repeating: 10, count: 11) + [Int](repeating: 0, count: 18))
    }

    @Test("M16: work beyond a link's share costs the common rate no more than its cost, and other links nothing") func debts() {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.framesPerSecond) = (120, 0)
        var budgets = LinkBudgets()
        func admitted(_ number: UInt64) -> Int {
            (0..<200).count { _ in budgets.admitLargeFrame(on: link(number), now: now) }
        }
        for number in [1, 2] as [UInt64] { budgets.open(link(number), from: .address("a"), settings, now: now) }
        budgets.charge(.frames, 100, on: link(1), now: now)
        // Its share of ten counts twice: the address has another link.
        #expect(admitted(1) == 10 + 10)
        for _ in 0..<2 { budgets.charge(.frames, 5, on: link(1), now: now) }
        #expect(admitted(1) == 0 && admitted(2) == 10)
    }

    @Test("M2: several links of an address exceed the rate of costly work by their bursts alone; a single link has all of it")
    func severalLinks() {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.framesPerSecond) = (1_200, 120)
        /// The frames that are admitted in a minute after the burst, of links that send ten times as many.
        func admittedCount(linkCount: UInt64, _ work: LinkWork) -> Int {
            var budgets = LinkBudgets()
            for number in 0..<linkCount { budgets.open(link(number), from: .address("a"), settings, now: now) }
            var count = 0
            for turn in 0..<7_200 {
                let clock = now + .milliseconds(10 * turn)
                for each in 0..<12 as Range<UInt64> {
                    let isAdmitted = budgets.consume(work, on: link(each % linkCount), now: clock)
                    if isAdmitted, turn >= 1_200 { count += 1 }
                }
            }
            return count
        }
        let (twelve, one) = (admittedCount(linkCount: 12, .frames), admittedCount(linkCount: 1, .frames))
        #expect((7_150...7_600).contains(twelve) && (7_700...7_850).contains(one))
    }

    @Test(
        "M2: twelve addresses without a contact exceed the rates of costly work, texts and relayed lines by their bursts alone",
        arguments: [LinkWork.frames, .signatures, .publicTexts, .relayedFrames, .bundles])
    func severalAddresses(work: LinkWork) {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.framesPerSecond) = (1_200, 120)
        (settings.signatureBurst, settings.signaturesPerSecond) = (1_200, 120)
        (settings.publicTextBurst, settings.publicTextBytesPerSecond) = (1_200, 120)
        (settings.relayedFrameBurst, settings.relayedFramesPerSecond) = (1_200, 120)
        (settings.bundleByteBurst, settings.bundleBytesPerSecond) = (1_200, 120)
        /// The work that is admitted in a minute after the burst, of links that ask for ten times as much: of the first, and of all.
        func admittedCounts(addressCount: UInt64, isKnown: Bool = false) -> (first: Int, all: Int) {
            var budgets = LinkBudgets()
            for number in 0..<addressCount {
                budgets.open(link(number), from: .address("\(number)"), settings, now: now)
                budgets.setKnown(isKnown, on: link(number))
            }
            var (first, all) = (0, 0)
            for turn in 0..<7_200 {
                let clock = now + .milliseconds(10 * turn)
                for each in 0..<12 as Range<UInt64> {
                    let isAdmitted = budgets.consume(work, on: link(each % addressCount), now: clock)
                    guard isAdmitted, turn >= 1_200 else { continue }
                    all += 1
                    if each % addressCount == 0 { first += 1 }
                }
            }
            return (first, all)
        }
        let unknown = admittedCounts(addressCount: 12)
        #expect((7_150...7_600).contains(unknown.all))
        // A twelfth of the rate, whatever the others ask for.
        #expect(unknown.first >= 590)
        // Contacts have full rates, each of its own: all that these ask for.
        #expect(admittedCounts(addressCount: 12, isKnown: true).all == 72_000)
        // An address has all of its rate while there is no other.
        #expect((7_700...7_850).contains(admittedCounts(addressCount: 1).all))
    }

    @Test("M2, R3: a flood from other addresses limits no contact's link, costs a small one nothing, and makes no excess of it")
    func besideOtherAddresses() {
        var budgets = LinkBudgets()
        for number in 1...11 as ClosedRange<UInt64> {
            budgets.open(link(number), from: .address("\(number)"), MeshRouter.Settings(), now: now)
        }
        for (number, address) in [(20, "friend"), (21, "newcomer")] as [(UInt64, String)] {
            budgets.open(link(number), from: .address(address), MeshRouter.Settings(), now: now)
        }
        budgets.setKnown(true, on: link(20))
        func admittedCount(_ count: Int, on number: UInt64) -> Int {
            (0..<count).count { _ in
                budgets.admitFrame(byteCount: 300, isPlain: true, isUnrelayed: true, on: link(number), now: now)
                    && budgets.admitSignature(byteCount: 100, on: link(number), now: now)
            }
        }
        let flood = (1...11 as ClosedRange<UInt64>).reduce(0) { $0 + admittedCount(1_000, on: $1) }
        // One burst, a twelfth of it for each link, and what each has for nothing.
        #expect((600...600 + 11 * 52).contains(flood))
        #expect(admittedCount(600, on: 20) == 600)
        #expect(admittedCount(40, on: 21) == 40)
        // More than its share: what others have used up is no fault of its own.
        let late = admittedCount(100, on: 21)
        #expect(late < 100)
        #expect([20, 21].map { budgets.excess(of: link($0), now: now) } == [0, 0])
    }

    @Test("M16: a link that is opened again gets its former share, and one new neighbour; others keep theirs") func churn() {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.framesPerSecond) = (120, 12)
        var budgets = LinkBudgets()
        var clock = now
        func open(_ number: UInt64) { budgets.open(link(number), from: .address("a"), settings, now: clock) }
        func admitted(_ number: UInt64) -> Int {
            (0..<200).count { _ in budgets.admitLargeFrame(on: link(number), now: clock) }
        }
        for number in 1..<100 as Range<UInt64> {
            open(number)
            let isFirstNeighbour = budgets.admitNewPeer(ttl: MeshPacket.maximumTTL, on: link(number), now: clock)
            #expect(isFirstNeighbour)
            #expect(admitted(number) == (number == 1 ? 130 : 0))
            budgets.close(link(number), now: clock)
        }
        // Beside one that returns without end, a newcomer has ten frames at once, and one a second.
        open(100)
        open(101)
        #expect(admitted(101) == 10)
        clock = clock + .seconds(3)
        // The bucket that all links have in common was refilled as well, after the debt of ten.
        #expect(admitted(100) == 26)
        #expect(admitted(101) == 3)
    }

    @Test("M16, M12: the beginning of a new link costs nothing, and the texts of its neighbour have a rate of their own")
    func newcomer() {
        var settings = MeshRouter.Settings()
        (settings.signatureBurst, settings.signaturesPerSecond) = (12, 0)
        var budgets = LinkBudgets()
        var (clock, textCount) = (now, 0)
        // Eleven links of a machine use up all that they may, and one that comes and goes its share.
        for number in 1...12 as ClosedRange<UInt64> {
            budgets.open(link(number), from: .address("a"), settings, now: clock)
            while budgets.admitLargeFrame(on: link(number), now: clock) {}
            while budgets.admitSignature(byteCount: 100, on: link(number), now: clock) {}
            while budgets.consume(.sealedPayloads, on: link(number), now: clock) {}
            while budgets.admitSignature(.directedSignatures, byteCount: 100, on: link(number), now: clock) {}
        }
        budgets.close(link(12), now: clock)
        budgets.open(link(13), from: .address("a"), settings, now: clock)
        let isRead = budgets.admitFrame(byteCount: 300, isPlain: true, isUnrelayed: true, on: link(13), now: clock)
        let isChecked = budgets.admitSignature(byteCount: 100, on: link(13), now: clock)
        let payloads = (0..<3).map { _ in budgets.consume(.sealedPayloads, on: link(13), now: clock) }
        let handshakes = (0..<5).map { _ in
            budgets.admitSignature(.directedSignatures, byteCount: 100, on: link(13), now: clock)
        }
        #expect(isRead && isChecked && payloads == [true, true, false])
        #expect(handshakes == [true, true, true, true, false])
        for _ in 0..<10 {
            clock = clock + .milliseconds(500)
            for number in 1...11 as ClosedRange<UInt64> {
                while budgets.consume(.sealedPayloads, on: link(number), now: clock) {}
            }
            if budgets.consume(.sealedPayloads, on: link(13), now: clock) { textCount += 1 }
        }
        #expect(textCount == 10)
    }

    @Test(
        "M2, M16: while an address is in debt, some small plain frames of each new link are read, and no large or compressed one"
    )
    func beginning() {
        var budgets = LinkBudgets()
        func open(_ number: UInt64) {
            budgets.open(link(number), from: .address("a"), MeshRouter.Settings(), now: now)
        }
        func admitted(_ byteCount: Int, isPlain: Bool = true, on number: UInt64) -> Int {
            (0..<50).count { _ in
                budgets.admitFrame(
                    byteCount: byteCount, isPlain: isPlain, isUnrelayed: true, on: link(number), now: now)
            }
        }
        // Sealed payloads of a megabyte and more, after which the common account is in debt, and then each share.
        for number in 1...12 as ClosedRange<UInt64> { open(number) }
        for _ in 0..<2 {
            for number in 1...12 as ClosedRange<UInt64> { budgets.charge(.bytes, 40e6, on: link(number), now: now) }
        }
        for number in 13...20 as ClosedRange<UInt64> {
            budgets.close(link(number - 1), now: now)
            open(number)
            #expect(admitted(LinkBudgets.freeFrameByteCount + 1, on: number) == 0)
            #expect(admitted(300, isPlain: false, on: number) == 0)
            #expect(admitted(LinkBudgets.freeFrameByteCount, on: number) == LinkBudgets.freeFrameCount)
        }
    }

    @Test("R3: work beyond its limits is an excess of its own link, where that is much, and is forgotten with time")
    func excess() {
        var budgets = LinkBudgets()
        for number in 1...3 as ClosedRange<UInt64> {
            budgets.open(link(number), from: .address("a"), MeshRouter.Settings(), now: now)
        }
        let admittedCount = (0..<5_000).count { _ in budgets.admitLargeFrame(on: link(3), now: now) }
        for number in [1, 2] as [UInt64] {
            let isRead = budgets.admitLargeFrame(on: link(number), now: now)
            #expect(isRead)
        }
        for _ in 0..<5_000 { _ = budgets.consume(.pings, on: link(1), now: now) }
        _ = budgets.consume(.pings, on: link(2), now: now)
        let excess = (1...3 as ClosedRange<UInt64>).map { budgets.excess(of: link($0), now: now) }
        #expect(excess == [1_000, 0, 1_000] && admittedCount == 5_000)
        let later = budgets.excess(of: link(1), now: now + .seconds(100))
        #expect(later == 0)
    }

    @Test("R3: what a neighbour relays, or brings for other nodes, is no excess of its own, however much it is")
    func relaying() {
        var budgets = LinkBudgets()
        for number in [1, 2] as [UInt64] {
            budgets.open(link(number), from: .address("a"), MeshRouter.Settings(), now: now)
        }
        // A flood behind an honest relay, far beyond the link's share, with all kinds of work.
        for _ in 0..<5_000 {
            let isRead = budgets.admitFrame(byteCount: 300, isPlain: true, isUnrelayed: false, on: link(1), now: now)
            guard isRead else { continue }
            for work in LinkWork.allCases { _ = budgets.consume(work, on: link(1), now: now) }
        }
        // The relay itself, and a member that has returned, within their limits: bundles, texts, answers.
        for number in [1, 2] as [UInt64] {
            _ = budgets.admitFrame(byteCount: 300, isPlain: true, isUnrelayed: true, on: link(number), now: now)
            for work in LinkWork.allCases where work.isForOthers {
                for _ in 0..<1_000 { _ = budgets.consume(work, 1_000, on: link(number), now: now) }
            }
        }
        let excess = [1, 2].map { budgets.excess(of: link($0), now: now) }
        #expect(excess == [0, 0])
    }

    @Test("M10: what one link sends delays neither this node's frames nor those of other links") func fairness() {
        var outbox = LinkOutbox()
        let junk = [UInt8](repeating: 1, count: 4_000)
        for _ in 0..<1_000 { outbox.append(junk, priority: .normal, origin: .relayed(from: link(1), isAuthentic: false)) }
        #expect(outbox.byteCount <= 256 << 10)
        // A fragment and a line of another link, a fragment and a line of this node.
        let appended = [
            outbox.append([2], priority: .bulk, origin: .relayed(from: link(2), isAuthentic: false)),
            outbox.append([3], priority: .normal, origin: .relayed(from: link(2), isAuthentic: true)),
            outbox.append([4], priority: .bulk), outbox.append([5], priority: .normal),
        ]
        #expect(appended == [true, true, true, true])
        var first: [[UInt8]] = []
        while first.count < 6, let frame = outbox.removeFirst() { first.append(frame) }
        #expect(first[0] == [5] && first[1] == [3])
        #expect(first.contains([2]) && first.contains([4]))
        while outbox.removeFirst() != nil {}
        #expect(outbox.isEmpty && outbox.byteCount == 0)
    }

    @Test("R1: an address that reads nothing on any of its links fills a part of the outboxes alone")
    func outboxesOfOneAddress() {
        var table = LinkTable()
        for number in 0..<16 as Range<UInt64> {
            let source = MeshLinkSource.address(number < 12 ? "one machine" : "\(number)")
            table.open(link(number), profile: .stream, from: source, MeshRouter.Settings(), now: now)
        }
        let frame = [UInt8](repeating: 0, count: 16 << 10)
        func fill(_ targets: Range<UInt64>) {
            for target in targets {
                for source in 0..<16 as Range<UInt64> where source != target {
                    for _ in 0..<20 {
                        table.enqueue(
                            frame, on: link(target), priority: .bulk,
                            origin: .relayed(from: link(source), isAuthentic: false))
                    }
                }
            }
        }
        fill(0..<12)
        let held = table.byteCount
        #expect(held >= 8 << 20 && held <= 13 << 20)
        fill(12..<14)
        #expect(table.byteCount - held > 6 << 20)
        table.enqueue([7], on: link(11), priority: .urgent)
        let first = table.dequeueFrame(for: link(11))
        #expect(first == [7])
    }

    @Test("R1: all outboxes together are bounded, and a link without waiting frames still gets some") func allOutboxes() {
        var table = table(Array(repeating: .stream, count: 16))
        let frame = [UInt8](repeating: 0, count: 16 << 10)
        for target in 1..<16 as Range<UInt64> {
            for source in 1..<16 as Range<UInt64> {
                for isAuthentic in [true, false] {
                    for priority in LinkOutbox.Priority.allCases {
                        for _ in 0..<20 {
                            table.enqueue(
                                frame, on: link(target), priority: priority,
                                origin: .relayed(from: link(source), isAuthentic: isAuthentic))
                        }
                    }
                }
            }
        }
        #expect(table.byteCount > 20 << 20 && table.byteCount <= 36 << 20)
        table.enqueue([7], on: link(0), priority: .normal)
        table.enqueue([8], on: link(1), priority: .urgent)
        let frames = [table.dequeueFrame(for: link(0)), table.dequeueFrame(for: link(1))]
        #expect(frames == [[7], [8]])
        for number in 0..<16 as Range<UInt64> { table.close(link(number), now: now) }
        #expect(table.byteCount == 0)
    }
}

extension LinkBudgets {
    /// Accounts for the start of a frame that is too large to cost nothing.
    fileprivate mutating func admitLargeFrame(on link: MeshLinkID, now: MonotonicInstant) -> Bool {
        admitFrame(byteCount: Self.freeFrameByteCount + 1, isPlain: true, isUnrelayed: true, on: link, now: now)
    }
}
