import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

private func at(_ seconds: Double) -> MonotonicInstant { MonotonicInstant(nanoseconds: Int64(seconds * 1e9)) }

@Suite struct ByteQueueTests {
    @Test("small and large pieces leave in the order in which they came", arguments: seeds(1...20))
    func mixedSizes(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = ByteQueue()
        var expected: [UInt8] = []
        var taken: [UInt8] = []
        for _ in 0..<200 {
            let bytes = random.bytes(Int.random(in: 0...(random.once(in: 10) ? 40_000 : 30), using: &random))
            // A slice of a larger array, as in a frame.
            queue.append(([9] + bytes)[1...])
            expected += bytes
            if random.once(in: 3) { taken += queue.popPrefix(Int.random(in: 0...5000, using: &random)) }
            #expect(queue.count == expected.count - taken.count, "seed \(seed)")
        }
        while !queue.isEmpty { taken += queue.popPrefix(777) }
        #expect(taken == expected && queue.pieceCount == 0, "seed \(seed)")
    }

    @Test("Q8: single bytes are joined: neither a piece of memory nor the work of one for each")
    func singleBytes() throws {
        let count = Int(StreamFrame.initialWindow)
        var queue = ByteQueue()
        for number in 0..<count { queue.append([UInt8(truncatingIfNeeded: number)][...]) }
        #expect(queue.count == count && queue.pieceCount <= count / 4096)
        let first = queue.popPrefix(10)
        #expect(first.elementsEqual(0..<10))
        let rest = queue.popPrefix(.max)
        #expect(rest.count == count - 10 && queue.isEmpty)
    }

    @Test("bytes leave in the order in which they came, in whatever portions", arguments: seeds(1...30))
    func order(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = ByteQueue()
        var model: [UInt8] = []
        for _ in 0..<400 {
            if random.once(in: 2) {
                let bytes = random.bytes(Int.random(in: 0...40, using: &random))
                // A slice in the middle of an array, as frames are.
                queue.append((random.bytes(3) + bytes + random.bytes(2))[3..<3 + bytes.count])
                model += bytes
            } else {
                let limit = Int.random(in: 0...90, using: &random)
                let bytes = Array(queue.popPrefix(limit))
                #expect(bytes == Array(model.prefix(limit)), "seed \(seed)")
                model.removeFirst(bytes.count)
            }
            #expect(queue.count == model.count && queue.isEmpty == model.isEmpty, "seed \(seed)")
        }
    }

    @Test func `an empty queue gives nothing`() {
        var queue = ByteQueue()
        queue.append([])
        let bytes = queue.popPrefix(10)
        #expect(bytes.isEmpty && queue.isEmpty)
    }
}

@Suite("one direction of a byte stream") struct StreamPartTests {
    private func data(_ part: inout SendingPart, buffer: Int = 1_000) -> Int? {
        guard case .data(let bytes, _)? = part.next(maximumData: 1 << 30, buffer: buffer) else { return nil }
        return bytes.count
    }

    @Test func `data waits for credit, and the end for the data`() throws {
        var part = SendingPart()
        let window = Int(StreamFrame.initialWindow)
        let written = try part.write([UInt8](repeating: 1, count: window + 10)[...], buffer: window * 2)
        #expect(written == window + 10)
        part.finish()
        let first = data(&part)
        let blocked = part.isReady
        #expect(first == window && !blocked)
        try part.receiveCredit(upTo: StreamFrame.initialWindow + 10)
        let second = data(&part)
        #expect(second == 10 && part.isReady && !part.isFinished)
        guard case .finish? = part.next(maximumData: 10, buffer: 10) else {
            Issue.record("the end was not sent")
            return
        }
        #expect(part.isFinished && !part.isReady)
    }

    @Test func `a full buffer takes no more, and tells when half of it is free`() throws {
        var part = SendingPart()
        let written = try part.write([UInt8](repeating: 1, count: 150)[...], buffer: 100)
        #expect(written == 100 && part.room(in: 100) == 0)
        var told: [Bool] = []
        while case .data(_, let isWritable)? = part.next(maximumData: 20, buffer: 100) { told.append(isWritable) }
        // After 60 bytes, and only once.
        #expect(told == [false, false, true, false, false])
    }

    @Test("R7: credit never shrinks, and nothing is written after the end")
    func violations() throws {
        var part = SendingPart()
        #expect(throws: MalformedInput.self) { try part.receiveCredit(upTo: StreamFrame.initialWindow - 1) }
        try part.receiveCredit(upTo: .max)
        part.finish()
        #expect(throws: StreamError.finished) { try part.write([1], buffer: 10) }
    }

    @Test func `received bytes are read in order, then the end, once`() throws {
        var part = ReceivingPart()
        let isReadable = [try part.receive([1, 2, 3]), try part.receive([4])]
        #expect(isReadable == [true, false])
        let ended = try part.receiveFinish()
        let reads = [part.read(upTo: 2), part.read(upTo: 9), part.read(upTo: 9)]
        #expect(!ended && reads == [.bytes([1, 2]), .bytes([3, 4]), .end])
        #expect(part.isFinished)
        #expect(throws: MalformedInput.self) { try part.receive([5]) }
        #expect(throws: MalformedInput.self) { try part.receiveFinish() }
    }

    @Test("R3: data beyond the window is a violation; credit follows half a window that was read")
    func window() throws {
        var part = ReceivingPart()
        let window = StreamFrame.initialWindow
        _ = try part.receive([UInt8](repeating: 1, count: Int(window))[...])
        var greedy = part
        #expect(throws: MalformedInput.self) { try greedy.receive([1]) }
        let early = part.nextCredit(window: window)
        _ = part.read(upTo: Int(window / 2))
        let credit = part.nextCredit(window: window)
        let again = part.nextCredit(window: window)
        #expect(early == nil && credit == window + window / 2 && again == nil)
        _ = try part.receive([UInt8](repeating: 1, count: Int(window / 2))[...])
    }
}

@Suite("the sending part of a message channel") struct SendQueueTests {
    private func message(_ byteCount: Int = 1) -> SessionMessage {
        SessionMessage(bytes: [UInt8](repeating: 1, count: byteCount))
    }

    @Test("messages keep their numbers until they are acknowledged", arguments: seeds(1...20))
    func numbers(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var queue = SendQueue()
        var first: UInt64 = 0
        var next: UInt64 = 0
        for _ in 0..<600 {
            if random.once(in: 3), next > first {
                first = UInt64.random(in: first...next, using: &random)
                try queue.acknowledge(below: first)
            } else {
                let number = queue.append(message(Int(next % 200)))
                #expect(number == next, "seed \(seed)")
                next += 1
            }
            #expect(queue.firstNumber == first && queue.nextNumber == next && queue.count == Int(next - first), "seed \(seed)")
            #expect(first == 0 || queue[first - 1] == nil, "seed \(seed)")
            #expect(queue[next] == nil, "seed \(seed)")
            if next > first { #expect(queue[next - 1]?.bytes.count == Int((next - 1) % 200), "seed \(seed)") }
        }
        // An older acknowledgement is no step back; one of the future is a violation (R7).
        try queue.acknowledge(below: 0)
        #expect(queue.firstNumber == first)
        #expect(throws: MalformedInput.self) { try queue.acknowledge(below: next + 1) }
    }

    @Test func `messages and bytes fill the window, and an acknowledgement frees it`() throws {
        var limits = MessageChannel.Limits()
        limits.unacknowledgedCount = 3
        var queue = SendQueue()
        for _ in 0..<3 {
            #expect(queue.hasRoom(limits))
            _ = queue.append(message())
        }
        #expect(!queue.hasRoom(limits))
        try queue.acknowledge(below: 1)
        #expect(queue.hasRoom(limits))
        limits.unacknowledgedCount = 100
        limits.unacknowledgedByteCount = 500
        _ = queue.append(message(500))
        #expect(!queue.hasRoom(limits))
        queue.restart()
        #expect(queue.hasRoom(limits) && queue.count == 0 && queue.nextNumber == 0)
    }
}

@Suite("the receiving part of a message channel") struct ReceiveWindowTests {
    private let limits = MessageChannel.Limits()

    @Test func `each number is accepted once, and none is skipped`() throws {
        var window = ReceiveWindow(stale: [])
        let accepted = [try window.receive(0, limits), try window.receive(0, limits), try window.receive(1, limits)]
        #expect(accepted == [true, false, true])
        #expect(throws: MalformedInput.self) { try window.receive(3, limits) }
        #expect(window.expected == 2)
    }

    @Test("R1: a program that takes nothing stops the sender, by number and by bytes")
    func full() throws {
        var window = ReceiveWindow(stale: [])
        for number in 0..<UInt64(limits.unacknowledgedCount) { _ = try window.receive(number, limits) }
        #expect(throws: MalformedInput.self) { try window.receive(UInt64(limits.unacknowledgedCount), limits) }
        let large = SessionMessage(bytes: [UInt8](repeating: 0, count: limits.unacknowledgedByteCount))
        var heavy = ReceiveWindow(stale: [])
        _ = try heavy.receive(0, limits)
        heavy.store(large)
        #expect(throws: MalformedInput.self) { try heavy.receive(1, limits) }
        heavy.recordDelivery(of: large)
        let isAccepted = try heavy.receive(1, limits)
        #expect(isAccepted && heavy.delivered == 1)
    }

    @Test func `what an earlier channel left is delivered first, and not acknowledged`() throws {
        let message = SessionMessage(bytes: [1])
        var window = ReceiveWindow(stale: [message, message])
        _ = try window.receive(0, limits)
        window.store(message)
        window.recordDelivery(of: message)
        window.recordDelivery(of: message)
        #expect(window.delivered == 0)
        window.recordDelivery(of: message)
        #expect(window.delivered == 1)
        // Nothing is left to deliver: another call changes nothing.
        window.recordDelivery(of: message)
        #expect(window.delivered == 1)
    }

    @Test("R7: starting again keeps what waits in the window")
    func restart() throws {
        var window = ReceiveWindow(stale: [])
        let message = SessionMessage(bytes: [1])
        for number in 0..<UInt64(limits.unacknowledgedCount) {
            _ = try window.receive(number, limits)
            window.store(message)
        }
        window.restart()
        #expect(window.expected == 0 && window.delivered == 0)
        #expect(throws: MalformedInput.self) { try window.receive(0, limits) }
        window.recordDelivery(of: message)
        let isAccepted = try window.receive(0, limits)
        #expect(isAccepted)
    }

    @Test func `an acknowledgement is due after 64 messages or a quarter of the bytes`() throws {
        var window = ReceiveWindow(stale: [])
        for number in 0..<64 as Range<UInt64> {
            #expect(!window.owesMuch(acknowledged: 0, limits))
            _ = try window.receive(number, limits)
            window.recordDelivery(of: SessionMessage(bytes: []))
        }
        #expect(window.owesMuch(acknowledged: 0, limits) && !window.owesMuch(acknowledged: 1, limits))
        window.recordAcknowledgement()
        _ = try window.receive(64, limits)
        window.recordDelivery(of: SessionMessage(bytes: [UInt8](repeating: 0, count: limits.unacknowledgedByteCount / 4)))
        #expect(window.owesMuch(acknowledged: 65, limits))
    }
}

@Suite("frames of a message channel") struct ChannelFrameTests {
    private static let frames: [ChannelFrame] = [
        .resume(ownEpoch: 1, peerEpoch: 0, expected: .max), .message(number: 7, acknowledged: 6, kind: 1, bytes: [1, 2, 3]),
        .message(number: 0, acknowledged: 0, kind: 200, bytes: []), .acknowledgement(.max),
    ]

    @Test func `frames return from their bytes, and truncated ones are refused`() throws {
        for frame in Self.frames {
            let bytes = frame.encoded
            #expect(try ChannelFrame(decoding: bytes) == frame)
            guard case .message = frame else {
                #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: bytes + [0]) }
                #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: bytes.dropLast()) }
                continue
            }
        }
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: []) }
        #expect(try ChannelFrame(decoding: [3, 1, 2]) == nil)
    }

    @Test("R1: a message over the limit is refused")
    func tooLong() throws {
        let bytes = [UInt8](repeating: 0, count: SessionMessage.maximumByteCount + 1)
        let frame = ChannelFrame.message(number: 0, acknowledged: 0, kind: 0, bytes: bytes[...]).encoded
        #expect(throws: MalformedInput.self) { try ChannelFrame(decoding: frame) }
        #expect(try ChannelFrame(decoding: Array(frame.dropLast())) != nil)
    }
}

@Suite("the links of a message channel") struct ChannelLinksTests {
    @Test func `the newest link on which the peer has resumed carries the messages`() {
        var links = ChannelLinks()
        let (first, second) = (links.attach(), links.attach())
        #expect(first != second && links.preferred == nil)
        links.update(second) { $0.next = 5 }
        #expect(links.preferred?.id == second)
        links.update(first) { $0.next = 1 }
        #expect(links.preferred?.id == second)
        links.detach(second)
        #expect(links.preferred?.id == first && links[second] == nil)
        // An id is used once, so that late news of an old link concern no new one.
        let third = links.attach()
        #expect(third != second && third != first)
        links.detachResumed()
        #expect(links[first] == nil && links[third] != nil && links.preferred == nil)
    }
}

@Suite("the entries of a roster") struct MemberTableTests {
    private static func member(
        _ byte: UInt8, incarnation: UInt32 = 0, presence: SessionMember.Presence = .present, revision: UInt32 = 0
    ) -> SessionMember {
        SessionMember(
            fingerprint: Fingerprint(bytes: [UInt8](repeating: byte, count: 32))!, name: DisplayName(truncating: "m\(byte)")!,
            incarnation: incarnation, presence: presence, revision: revision)
    }

    private func table(_ maximum: Int = 8) -> MemberTable { MemberTable(own: Self.member(0), maximumMembers: maximum) }

    @Test func `members join, leave, and are listed by id`() {
        var table = table()
        let changes = [table.store(Self.member(2)), table.store(Self.member(1)), table.store(Self.member(1))]
        #expect(changes == [.joined(Self.member(2)), .joined(Self.member(1)), nil])
        #expect(table.others.map(\.id) == [Self.member(1).id, Self.member(2).id])
        let left = table.store(Self.member(2, presence: .gone))
        #expect(left == .left(Self.member(2).id))
        #expect(table.member(Self.member(2).id) == nil && table.otherIDs == [Self.member(1).id])
        #expect(table.all.map(\.presence) == [.present, .present, .gone])
        #expect(table.nextIncarnation(of: Self.member(2)) == 1)
    }

    /// The changed entries for a neighbour that knows none of them.
    private func update(_ table: inout MemberTable) -> [SessionMember]? {
        table.drainUpdates(for: [Self.member(99).id]).first?.entries
    }

    @Test func `a change is sent once, and only the changed entry`() {
        var table = table()
        let unchanged = update(&table)
        _ = table.store(Self.member(1))
        let first = update(&table)
        let second = update(&table)
        #expect(unchanged == nil && first == [Self.member(1)] && second == nil)
        table.setOwnNeighbours([Self.member(1).id])
        table.setOwnNeighbours([Self.member(1).id])
        let third = update(&table)
        #expect(third?.count == 1 && third?.first?.id == table.own && third?.first?.revision == 1)
        let fourth = update(&table)
        #expect(fourth == nil)
    }

    @Test func `a change is not sent to members that know it, nor to those that its owner informs`() {
        var table = table()
        var linked = Self.member(1)
        linked.neighbours = [Self.member(2).id]
        _ = table.store(linked)
        table.recordKnowledge(of: linked.id, by: Self.member(3).id)
        // Not changed, so nobody needs it.
        table.recordKnowledge(of: Self.member(7).id, by: Self.member(3).id)
        let updates = table.drainUpdates(for: [2, 3, 4].map { Self.member($0).id })
        #expect(updates.map(\.member) == [Self.member(4).id])
        // A departure is told by all, as its owner does not.
        _ = table.store(Self.member(1, presence: .gone))
        let departures = table.drainUpdates(for: [2, 3, 4].map { Self.member($0).id })
        #expect(departures.count == 3)
    }

    /// Whether a newer entry replaces an older one.
    private func verdict(_ new: SessionMember, known: SessionMember) -> MemberTable.Verdict {
        var table = table()
        _ = table.store(known)
        return table.judge(new)
    }

    @Test("the rule for newer entries is a strict order, so that members converge", arguments: seeds(1...20))
    func strictOrder(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        func entry() -> SessionMember {
            Self.member(
                1, incarnation: UInt32.random(in: 0...2, using: &random), presence: random.once(in: 2) ? .gone : .present,
                revision: UInt32.random(in: 0...2, using: &random))
        }
        for _ in 0..<100 {
            let (one, other) = (entry(), entry())
            let forward = verdict(one, known: other) == .newer
            let backward = verdict(other, known: one) == .newer
            #expect(!(forward && backward), "seed \(seed): \(one) \(other)")
            let isSameRank =
                one.incarnation == other.incarnation && one.presence == other.presence && one.revision == other.revision
            #expect(forward || backward || isSameRank, "seed \(seed): \(one) \(other)")
        }
    }

    @Test("K4: an entry with another key for a known id is ignored")
    func otherKey() {
        var table = table()
        _ = table.store(Self.member(1))
        var forged = [UInt8](repeating: 1, count: 32)
        forged[31] = 9
        var entry = Self.member(1, incarnation: 5)
        entry.fingerprint = Fingerprint(bytes: forged)!
        #expect(entry.id == Self.member(1).id && table.judge(entry) == .ignored)
    }

    @Test("R7: an incarnation far ahead is ignored, about this member as well")
    func farAhead() {
        let table = table()
        #expect(table.judge(Self.member(1, incarnation: 1_024)) == .newer)
        #expect(table.judge(Self.member(1, incarnation: 1_025)) == .ignored)
        #expect(table.judge(Self.member(0, incarnation: 1_024)) == .aboutOwn)
        #expect(table.judge(Self.member(0, incarnation: .max)) == .ignored)
    }

    @Test("A4: a claim that this member is gone is refuted by a higher incarnation")
    func refutation() {
        var table = table()
        table.refute(Self.member(0, incarnation: 3, presence: .gone))
        #expect(table.all.first?.incarnation == 4)
        // An echo of what it has announced itself needs no answer.
        table.setOwnAddresses([SessionMember.Address(host: "10.0.0.1", port: 1)])
        _ = update(&table)
        table.refute(Self.member(0, incarnation: 4, revision: 0))
        table.refute(Self.member(0, incarnation: 2, presence: .gone))
        let update = update(&table)
        #expect(update == nil)
    }

    @Test("R6: the table is bounded, whoever joins and leaves")
    func bounds() {
        var table = table(4)
        for byte in 1...200 as ClosedRange<UInt8> {
            let entry = Self.member(byte, presence: byte % 2 == 0 ? .gone : .present)
            if table.judge(entry) == .newer { _ = table.store(entry) }
        }
        #expect(table.isFull && table.otherIDs.count == 3)
        #expect(table.all.count <= SessionFrame.maximumRosterCount)
        // Departures push out the oldest departures, never a present member.
        for member in table.others { _ = table.store(Self.member(member.fingerprint.bytes[0], presence: .gone)) }
        #expect(table.otherIDs.isEmpty && table.all.count <= SessionFrame.maximumRosterCount)
        #expect(table.all.first?.id == table.own)
    }
}

@Suite struct ReachabilityTests {
    private let ada = PeerID(hex: "0000000000000001")!
    private let bea = PeerID(hex: "0000000000000002")!

    @Test func `the state is that of the links, or of a relay without a link`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        var states: [MemberState] = []
        func record(_ body: (inout Reachability) -> Void) {
            body(&reachability)
            states.append(reachability.state(of: ada))
        }
        record { $0.recordAttempt(ada) }
        record { $0.setRelays([ada: bea], now: at(1)) }
        #expect(reachability.linkState(of: ada) == .connecting)
        record { $0.recordConnection(ada, via: nil) }
        record { $0.setRelays([ada: bea], now: at(1)) }
        record { $0.recordDisconnection(ada, now: at(2)) }
        #expect(
            states == [
                .connecting, .connected(via: bea), .connected(via: nil), .connected(via: nil), .notConnected,
            ])
        #expect(reachability.state(of: bea) == .notConnected && reachability.neighbours.isEmpty)
    }

    @Test func `a member is absent while it has neither a link nor a relay`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        reachability.setRelays([ada: bea], now: at(5))
        #expect(reachability.absentees(after: .seconds(10), now: at(100)).isEmpty)
        reachability.setRelays([:], now: at(100))
        #expect(reachability.absentees(after: .seconds(10), now: at(109)).isEmpty)
        #expect(reachability.absentees(after: .seconds(10), now: at(110)) == [ada])
    }

    @Test func `news ends the back-off, and an attempt that began before it counts as none`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        for _ in 0..<6 { reachability.recordFailure(ada, isMember: true, now: at(20)) }
        #expect(!reachability.mayAttempt(ada, now: at(28)))
        reachability.recordNews(ada, isOwn: true, now: at(28))
        #expect(reachability.mayAttempt(ada, now: at(28)))
        reachability.recordAttempt(ada)
        reachability.recordNews(ada, isOwn: true, now: at(29))
        reachability.recordFailure(ada, isMember: true, now: at(30))
        // The attempt that failed had begun before the latest news.
        #expect(reachability.mayAttempt(ada, now: at(30)))
        #expect(reachability.absentees(after: .seconds(30), now: at(31)).isEmpty)
        reachability.recordAttempt(ada)
        reachability.recordFailure(ada, isMember: true, now: at(36))
        #expect(reachability.absentees(after: .seconds(30), now: at(36)) == [ada])
    }

    @Test("S15: news of other members counts at intervals, and cannot keep a member for ever") func inventedNews() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        reachability.recordNews(ada, isOwn: false, now: at(1))
        reachability.recordAttempt(ada)
        reachability.recordFailure(ada, isMember: true, now: at(1.5))
        reachability.recordNews(ada, isOwn: false, now: at(1.6))
        #expect(!reachability.mayAttempt(ada, now: at(1.7)))
        for second in 3..<60 { reachability.recordNews(ada, isOwn: false, now: at(Double(second))) }
        #expect(reachability.absentees(after: .seconds(30), now: at(59)).isEmpty)
        #expect(reachability.absentees(after: .seconds(30), now: at(60)) == [ada])
    }

    @Test func `failures double the back-off up to 16 seconds`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        var delays: [Double] = []
        for _ in 0..<8 {
            reachability.recordAttempt(ada)
            #expect(!reachability.mayAttempt(ada, now: at(1_000)))
            reachability.recordFailure(ada, isMember: true, now: at(0))
            let deadline = reachability.deadlines(own: bea, timeout: .seconds(900), isWaitedFor: { _ in false }).min()
            delays.append(((deadline ?? at(0)) - at(0)).inSeconds)
            #expect(deadline.map { reachability.mayAttempt(ada, now: $0) } == true)
            #expect(deadline.map { reachability.mayAttempt(ada, now: $0 + .nanoseconds(-1)) } == false)
        }
        #expect(delays == [0.5, 1, 2, 4, 8, 16, 16, 16])
        reachability.recordConnection(ada, via: bea)
        #expect(reachability.failureCount(of: ada) == 8)
        reachability.recordConnection(ada, via: nil)
        #expect(reachability.failureCount(of: ada) == 0)
    }

    @Test func `a failure after the member has left, or beside a direct link, is ignored`() {
        var reachability = Reachability()
        reachability.recordFailure(ada, isMember: false, now: at(0))
        reachability.add(bea, now: at(0))
        reachability.recordConnection(bea, via: nil)
        reachability.recordFailure(bea, isMember: true, now: at(0))
        #expect(reachability.failureCount(of: ada) == 0 && reachability.failureCount(of: bea) == 0)
    }

    @Test func `members time out from the start of their absence`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        reachability.add(bea, now: at(0))
        reachability.recordConnection(bea, via: nil)
        #expect(reachability.absentees(after: .seconds(10), now: at(9.9)).isEmpty)
        #expect(reachability.absentees(after: .seconds(10), now: at(10)) == [ada])
        reachability.recordDisconnection(bea, now: at(20))
        // A second report of the same absence does not prolong it.
        reachability.recordDisconnection(bea, now: at(25))
        #expect(reachability.absentees(after: .seconds(10), now: at(30)) == [ada, bea])
        reachability.remove(ada)
        #expect(reachability.absentees(after: .seconds(10), now: at(30)) == [bea])
    }

    @Test func `the member with the higher id waits before it connects as well`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(5))
        #expect(reachability.secondAttemptTime(ada) == at(8))
        #expect(reachability.deadlines(own: bea, timeout: .seconds(60), isWaitedFor: { _ in false }).contains(at(8)))
        reachability.recordAttempt(ada)
        #expect(!reachability.deadlines(own: bea, timeout: .seconds(60), isWaitedFor: { _ in false }).contains(at(8)))
    }
}
