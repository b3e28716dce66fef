import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import NearshareMesh
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("mesh machine") struct MeshMachineTests {
    private func machine() -> MeshMachine {
        MeshMachine(
            MeshRouter(
                identity: LocalIdentity(seed: [UInt8](repeating: 1, count: LocalIdentity.seedByteCount)),
                name: DisplayName(truncating: "Ada")!, random: SeededRandom(seed: 1)))
    }

    private func moment(_ milliseconds: Int64) -> Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: milliseconds * 1_000_000),
            wall: WallTime(milliseconds: 1_800_000_000_000 + milliseconds))
    }

    @Test("R3: there is room for a limited number of links, and for none once the node leaves")
    func room() throws {
        var machine = machine()
        let links = (0..<MeshMachine.maximumLinkCount).compactMap { _ in machine.linkUp(.stream, now: moment(0)) }
        #expect(links.count == MeshMachine.maximumLinkCount && Set(links).count == links.count)
        let extra = machine.linkUp(.stream, now: moment(0))
        #expect(extra == nil && !machine.hasRoomForLinks)
        machine.linkDown(try #require(links.first), now: moment(1))
        #expect(machine.hasRoomForLinks)
        machine.leave(now: moment(2))
        let late = machine.linkUp(.stream, now: moment(2))
        #expect(!machine.hasRoomForLinks && late == nil)
    }

    @Test("R3: links from one address are evicted for those from others, and leave room for outgoing ones")
    func oneMachine() throws {
        var machine = machine()
        let taken = (0..<16).compactMap { machine.linkUp(.stream, from: "attacker", now: moment(Int64($0))) }
        #expect(taken.count { machine.isOpen($0) } == MeshMachine.maximumIncomingLinkCount)
        _ = machine.drainReplaced()
        let first = machine.linkUp(.stream, from: "anna", now: moment(20))
        var replaced = machine.drainReplaced()
        #expect(first != nil && replaced.count == 1)
        for number in 0..<6 {
            let other = machine.linkUp(.stream, from: "other \(number)", now: moment(30))
            #expect(other != nil, "\(number)")
        }
        replaced = machine.drainReplaced()
        #expect(replaced.allSatisfy { taken.contains($0) })
        let outgoing = (0..<4).compactMap { _ in machine.linkUp(.stream, now: moment(40)) }
        replaced = machine.drainReplaced()
        #expect(outgoing.count == 4 && replaced.isEmpty)
        // The attacker reconnects 50 times.
        for number in 0..<50 as Range<Int64> { _ = machine.linkUp(.stream, from: "attacker", now: moment(50 + number)) }
        #expect(machine.isOpen(try #require(first)) && outgoing.allSatisfy { machine.isOpen($0) })
    }

    /// Opens a link from a node with a key of its own, which announces itself and proves that key.
    private func join(
        _ machine: inout MeshMachine, from address: String, key: UInt16, at milliseconds: Int64, isProven: Bool = true
    ) -> MeshLinkID? {
        let friends: Set = [identity(4).peerID, identity(5).peerID]
        guard let link = machine.linkUp(.stream, from: address, friends: friends, now: moment(milliseconds)) else { return nil }
        var peer = MeshRouter(
            identity: identity(key), name: DisplayName(truncating: "peer \(key)")!, random: SeededRandom(seed: UInt64(key)))
        let remoteLink = MeshLinkID(rawValue: 1)
        peer.linkUp(remoteLink, .stream, now: moment(milliseconds))
        while let frame = peer.dequeueFrame(for: remoteLink) {
            machine.router.receive(frame[...], from: link, now: moment(milliseconds))
            while isProven, let answer = machine.router.dequeueFrame(for: link) {
                peer.receive(answer[...], from: remoteLink, now: moment(milliseconds))
            }
        }
        return link
    }

    private func identity(_ key: UInt16) -> LocalIdentity {
        let bytes = [UInt8(truncatingIfNeeded: key), UInt8(truncatingIfNeeded: key >> 8)]
        return LocalIdentity(seed: (0..<LocalIdentity.seedByteCount).map { bytes[$0 % 2] })
    }

    @Test("R3: silent links give way at once, from whatever addresses they come and however often they are renewed")
    func silentNeighbours() throws {
        var machine = machine()
        for number in 0..<12 { _ = machine.linkUp(.stream, from: "\(number)", now: moment(0)) }
        // 200 connections a second; the newcomer needs 50 ms for its announcement.
        var anna: MeshLinkID?
        for number in 0..<200 as Range<Int64> {
            let renewed = machine.linkUp(.stream, from: "\(number % 12)", now: moment(1 + 5 * number))
            #expect(renewed != nil, "\(number)")
            if number == 100 { anna = machine.linkUp(.stream, from: "anna", now: moment(1 + 5 * number)) }
            if number == 110 { #expect(machine.isOpen(try #require(anna))) }
        }
        let joined = join(&machine, from: "ben", key: 2, at: 1_100)
        for number in 0..<50 as Range<Int64> { _ = machine.linkUp(.stream, from: "\(number)", now: moment(1_200 + number)) }
        #expect(machine.isOpen(try #require(joined)))
    }

    @Test("R3: a neighbour that announces itself and proves nothing gives way after a quarter of a second")
    func unprovenNeighbours() {
        var machine = machine()
        let taken = (0..<12).compactMap { join(&machine, from: "\($0)", key: UInt16(10 + $0), at: 0, isProven: false) }
        #expect(taken.count == 12)
        let early = machine.linkUp(.stream, from: "anna", now: moment(240))
        #expect(early == nil)
        var proven = machine
        proven.linkDown(taken[11], now: moment(250))
        let kept = join(&proven, from: "anna", key: 3, at: 250)
        let late = proven.linkUp(.stream, from: "ben", now: moment(260))
        #expect(late != nil && proven.drainReplaced() == [taken[0]] && kept.map { proven.isOpen($0) } == true)
    }

    @Test("R3: newly made keys that answer pings cannot exclude newcomers or friends, and are evicted after a minute")
    func strangers() throws {
        var machine = machine()
        let (anna, friend) = (identity(3), identity(4))
        let keys = [friend, identity(5), identity(6)].map { ($0.peerID, $0.signingKey.publicKey) }
        machine.router.setContacts(Dictionary(keys) { first, _ in first })
        let taken = (0..<12).compactMap { join(&machine, from: "\($0)", key: UInt16(10 + $0), at: Int64($0)) }
        #expect(taken.count == 12)
        let early = machine.linkUp(.stream, from: "anna", now: moment(1_000))
        #expect(early == nil)
        let joined = join(&machine, from: "anna", key: 3, at: 2_100)
        #expect(joined.map { machine.isOpen($0) } == true && machine.router.isNeighbour(anna.peerID))
        let kept = try #require(join(&machine, from: "friend", key: 4, at: 4_500))
        let contact = try #require(join(&machine, from: "a contact by a session", key: 6, at: 4_500))
        // The attacker reconnects 400 times, with 200 keys.
        for number in 0..<400 as Range<Int64> {
            _ = join(&machine, from: "\(number)", key: UInt16(40 + number % 200), at: 5_000 + 200 * number)
        }
        #expect(machine.isOpen(kept) && machine.router.isNeighbour(friend.peerID) && !machine.isOpen(contact))
        #expect(taken.allSatisfy { !machine.isOpen($0) })
        // An address with several links gives them up first.
        let outgoing = (0..<4).compactMap { _ in machine.linkUp(.stream, now: moment(90_000)) }
        #expect(outgoing.count == 4)
    }

    /// Sends pings over a neighbour's link, far more than are answered.
    /// - Parameter isRelayed: whether the neighbour relays the pings of a peer behind it.
    private func flood(
        _ machine: inout MeshMachine, over link: MeshLinkID, key: UInt16, at milliseconds: Int64, isRelayed: Bool = false
    ) {
        var peer = MeshRouter(
            identity: identity(key), name: DisplayName(truncating: "peer \(key)")!, random: SeededRandom(seed: 9))
        let remoteLink = MeshLinkID(rawValue: 1)
        peer.linkUp(remoteLink, .stream, now: moment(milliseconds))
        for number in 0..<400 as Range<UInt64> {
            peer.ping(machine.router.id, nonce: number.bigEndianBytes, now: moment(milliseconds))
            while var frame = peer.dequeueFrame(for: remoteLink) {
                // The ttl.
                if isRelayed { frame[2] -= 1 }
                machine.router.receive(frame[...], from: link, now: moment(milliseconds))
            }
        }
    }

    @Test("R3: neighbours that ask for more than their limits give way to newcomers of their address at once, and no others do")
    func excessiveNeighbours() throws {
        var machine = machine()
        let taken = (0..<12).compactMap { join(&machine, from: "lo", key: UInt16(10 + $0), at: 0) }
        try #require(taken.count == 12)
        let early = machine.linkUp(.stream, from: "lo", now: moment(1_000))
        #expect(early == nil)
        for number in [4, 7] { flood(&machine, over: taken[number], key: UInt16(10 + number), at: 1_100) }
        let anna = try #require(join(&machine, from: "lo", key: 3, at: 1_200))
        let ben = try #require(join(&machine, from: "lo", key: 2, at: 1_250))
        let replaced = machine.drainReplaced()
        #expect(Set(replaced) == [taken[4], taken[7]])
        let late = machine.linkUp(.stream, from: "lo", now: moment(1_300))
        #expect(late == nil && machine.isOpen(anna) && machine.isOpen(ben))
    }

    @Test("R3: an excessive neighbour that gave way and returns displaces no other at once, and is the next to give way")
    func excessiveReturn() throws {
        var machine = machine()
        let taken = (0..<12).compactMap { join(&machine, from: "lo", key: UInt16(10 + $0), at: 0) }
        try #require(taken.count == 12)
        flood(&machine, over: taken[4], key: 14, at: 20_000)
        let anna = try #require(join(&machine, from: "lo", key: 3, at: 20_100))
        var replaced = machine.drainReplaced()
        #expect(replaced == [taken[4]])
        for time in stride(from: 20_200 as Int64, to: 22_000, by: 100) {
            let early = join(&machine, from: "lo", key: 14, at: time)
            try #require(early == nil, "\(time) ms")
        }
        // A slot is free for a moment.
        machine.linkDown(taken[11], now: moment(22_000))
        let returned = try #require(join(&machine, from: "lo", key: 14, at: 22_010))
        let ben = try #require(join(&machine, from: "lo", key: 2, at: 22_020))
        replaced = machine.drainReplaced()
        #expect(replaced == [returned] && machine.isOpen(anna) && machine.isOpen(ben))
    }

    @Test("R3: while a slot is free no neighbour gives way, whatever it relays or brings, and however often it returns")
    func freeSlots() throws {
        var machine = machine()
        let excessive = try #require(join(&machine, from: "lo", key: 10, at: 0))
        flood(&machine, over: excessive, key: 10, at: 10)
        let returned = try #require(join(&machine, from: "lo", key: 11, at: 20))
        machine.linkDown(returned, now: moment(30))
        let others = (1..<11).compactMap { join(&machine, from: "lo", key: UInt16(10 + $0), at: 40) }
        let link = machine.linkUp(.stream, from: "lo", now: moment(50))
        let last = try #require(link)
        let replaced = machine.drainReplaced()
        #expect(others.count == 10 && replaced.isEmpty)
        #expect(machine.isOpen(excessive) && others.allSatisfy { machine.isOpen($0) } && machine.isOpen(last))
    }

    @Test("R3: a relay behind which a flood stands gives way no sooner than others of its address") func relays() throws {
        var machine = machine()
        let taken = (0..<12).compactMap { join(&machine, from: "lo", key: UInt16(10 + $0), at: 0) }
        try #require(taken.count == 12)
        flood(&machine, over: taken[4], key: 500, at: 1_000, isRelayed: true)
        let early = machine.linkUp(.stream, from: "lo", now: moment(1_100))
        #expect(early == nil && machine.isOpen(taken[4]))
        flood(&machine, over: taken[7], key: 17, at: 1_200)
        let anna = join(&machine, from: "lo", key: 3, at: 1_300)
        let replaced = machine.drainReplaced()
        #expect(anna != nil && replaced == [taken[7]])
    }

    @Test(
        "R3: addresses that reconnect whenever they were evicted cannot displace a newcomer with a proven key",
        arguments: [1, 16])
    func returning(addressCount: Int) throws {
        var machine = machine()
        var taken = [MeshLinkID?](repeating: nil, count: 16)
        var anna: MeshLinkID?
        for time in stride(from: 0 as Int64, to: 60_000, by: 250) {
            for number in taken.indices where taken[number].map({ !machine.isOpen($0) }) ?? true {
                let address = "attacker \(number % addressCount)"
                taken[number] = join(&machine, from: address, key: UInt16(10 + number), at: time)
            }
            if time == 5_000 { anna = join(&machine, from: "anna", key: 3, at: time) }
            if let anna { try #require(machine.isOpen(anna), "\(time) ms") }
        }
        #expect(anna != nil && taken.contains { $0.map { machine.isOpen($0) } == true })
    }

    @Test("R3: made-up keys that hold all links of the newcomer's own address, and return at once, keep nobody out")
    func oneAddress() throws {
        var machine = machine()
        let ben = try #require(join(&machine, from: "lo", key: 2, at: 0))
        var taken = [MeshLinkID?](repeating: nil, count: 16)
        var anna: MeshLinkID?
        var attempts = 0
        for time in stride(from: 100 as Int64, to: 70_000, by: 100) {
            for number in taken.indices where taken[number].map({ !machine.isOpen($0) }) ?? true {
                taken[number] = join(&machine, from: "lo", key: UInt16(10 + number), at: time)
            }
            if time >= 10_000, time % 500 == 0, anna == nil {
                attempts += 1
                anna = join(&machine, from: "lo", key: 3, at: time)
            }
            let areKept = machine.isOpen(ben) && anna.map { machine.isOpen($0) } != false
            try #require(areKept, "\(time) ms")
        }
        let heldCount = taken.count { $0.map { machine.isOpen($0) } == true }
        // Within 5 s.
        #expect(anna != nil && attempts <= 10 && heldCount == MeshMachine.maximumIncomingLinkCount - 2)
    }

    @Test(
        "R3: a new key for each link from the newcomer's own address: she finds a slot, and keeps it for 12 seconds",
        arguments: seeds(0..<6))
    func newKeys(seed: UInt64) throws {
        var machine = machine()
        var taken = [MeshLinkID?](repeating: nil, count: 16)
        var (anna, joined): (MeshLinkID?, Int64) = (nil, 0)
        var key: UInt16 = 100
        for time in stride(from: 0 as Int64, to: 40_000, by: 50) {
            // Each of the attacker's sixteen programs connects once a second, if it is not connected.
            let number = Int(time / 50 + Int64(seed)) % 20
            if number < 16, taken[number].map({ !machine.isOpen($0) }) ?? true {
                key += 1
                taken[number] = join(&machine, from: "lo", key: key, at: time)
            }
            if time >= 10_000, time % 500 == Int64(seed) % 10 * 50, anna == nil {
                anna = join(&machine, from: "lo", key: 3, at: time + 25)
                joined = time
            }
            if let anna, time < joined + 12_000 { try #require(machine.isOpen(anna), "\(time - joined) ms") }
        }
        #expect(anna != nil && joined < 20_000, "\(joined) ms")
        // Another address has its share.
        let ben = try #require(join(&machine, from: "ben", key: 2, at: 40_000))
        for each in 0..<40 as Range<UInt16> {
            _ = join(&machine, from: "lo", key: 5_000 + each, at: 40_050 + 500 * Int64(each))
        }
        #expect(machine.isOpen(ben))
    }

    @Test("R3: addresses of one /64 count as one source, and so do unusual loopback addresses") func networks() {
        func source(_ host: String) -> String { LinkAddress(host: host, port: 1).sourceName }
        #expect(source("2001:db8:1:2::5") == source("2001:db8:1:2:ffff::1"))
        #expect(source("2001:db8:1:3::5") != source("2001:db8:1:2::5"))
        #expect(source("127.0.3.4") == source("127.66.1.1") && source("127.0.0.1") == source("::1"))
        #expect(source("127.0.0.2") != source("127.0.0.1") && source("10.0.0.1") == "10.0.0.1")
    }

    @Test("a node without links has left at once")
    func leavesAlone() {
        var machine = machine()
        machine.leave(now: moment(0))
        #expect(machine.isLeaving && machine.isFinished && machine.deadline == nil)
    }

    @Test("a node that leaves waits for its links, until the farewell timeout")
    func farewell() throws {
        var machine = machine()
        let opened = [machine.linkUp(.stream, now: moment(0)), machine.linkUp(.stream, now: moment(0))]
        let (first, second) = (try #require(opened[0]), try #require(opened[1]))
        while machine.router.dequeueFrame(for: first) != nil {}
        machine.leave(now: moment(10))
        #expect(machine.router.hasFrame(for: first) && !machine.isFinished)
        let end = moment(10).monotonic + MeshMachine.farewellTimeout
        #expect(try #require(machine.deadline) <= end)

        var drained = machine
        drained.linkDown(first, now: moment(20))
        #expect(!drained.isFinished && !drained.isOpen(first) && drained.isOpen(second))
        drained.stopWriting(to: second)
        #expect(drained.isFinished)

        let milliseconds = 10 + MeshMachine.farewellTimeout.components.attoseconds / 1_000_000_000_000_000
        machine.advance(to: moment(milliseconds - 1))
        #expect(!machine.isFinished && machine.deadline == end)
        machine.advance(to: moment(milliseconds))
        #expect(machine.isFinished)
    }
}
