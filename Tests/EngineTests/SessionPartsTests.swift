import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareCrypto
@testable import NearshareEngine

@Suite("the parts of a session", .leavesNothing) struct SessionPartsTests {
    private let now = MonotonicInstant(nanoseconds: 0)

    private func peer(_ number: UInt8) -> AuthenticatedPeer {
        AuthenticatedPeer(key: LocalIdentity(seed: [UInt8](repeating: number, count: 64)).agreementKey.publicKey)
    }

    private func name(_ text: String) -> DisplayName { DisplayName(truncating: text)! }

    private func members(limit: Int) -> SessionMembers {
        var settings = SessionRoster.Settings()
        settings.maximumMemberCount = limit
        let id = SessionID(bytes: [UInt8](repeating: 1, count: SessionID.byteCount))!
        return SessionMembers(
            SessionRoster(id: id, own: SessionMember(fingerprint: peer(1).fingerprint, name: name("own")), settings: settings))
    }

    private func received(_ count: Int, from member: PeerID, _ mode: Session.DeliveryMode = .reliable)
        -> Session.ReceivedMessage
    {
        Session.ReceivedMessage(
            sender: member, message: SessionMessage(bytes: [UInt8](repeating: 7, count: count)), mode: mode)
    }

    @Test("a full session admits its members again, and no other peer") func admission() {
        var members = members(limit: 2)
        #expect(members.isMemberKey(of: peer(2)) == false)
        #expect(members.admit(peer(2), name: name("two"), now: now) == true)
        #expect(members.isMemberKey(of: peer(2)))
        #expect(members.admit(peer(3), name: name("three"), now: now) == false)
        #expect(members.isMemberKey(of: peer(3)) == false)
        #expect(members.admit(peer(2), name: name("two"), now: now) == true)
    }

    @Test func `a queue holds no element that was dequeued or dropped`() async {
        final class Element: Sendable {}
        for isDropped in [false, true] {
            let queue = AsyncQueue<Element>(limit: .droppingOldest(beyond: 2))
            weak var first: Element?
            do {
                let element = Element()
                first = element
                queue.enqueue(element)
            }
            queue.enqueue(Element())
            if isDropped { queue.enqueue(Element()) } else { _ = await queue.dequeue() }
            let isReleased = first == nil
            #expect(isReleased)
        }
    }

    @Test("an invitation that crosses another member's succeeds once the peer is a member") func crossingInvitations()
        async throws
    {
        try await TestNetwork.withSession(of: 2, .memory) { _, sessions in
            let member = AuthenticatedPeer(key: TestNetwork.identity(1).agreementKey.publicKey)
            #expect(await sessions[0].waitUntilMember(member))
            await sessions[0].leave()
            #expect(await sessions[0].waitUntilMember(member) == false)
        }
    }

    @Test("a crossing invitation waits for the peer while other members change") func otherChanges() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { _, sessions in
            let newcomer = AuthenticatedPeer(key: TestNetwork.identity(2).agreementKey.publicKey)
            let waiting = Task { await sessions[0].waitUntilMember(newcomer) }
            for _ in 0..<100 {
                sessions[0].memberChange.notifyAll()
                await Task.yield()
            }
            let isAdmitted = sessions[0].update { state in
                state.members.admit(newcomer, name: DisplayName(truncating: "two")!, now: SystemClock.monotonic())
            }
            #expect(isAdmitted)
            #expect(await waiting.value)
        }
    }

    @Test("a member that leaves is decided about anew, and its channel is gone") func departure() {
        var members = members(limit: 8)
        #expect(members.admit(peer(2), name: name("two"), now: now) == true)
        members.addChannel(MessageChannel(epoch: 1, limits: MessageChannel.Limits(), stale: []), to: peer(2).id)
        _ = members.drainChanges()
        members.roster.recordDeparture(of: peer(2).id, now: now)
        let changes = members.drainChanges().changes
        #expect(changes.contains { if case .left(peer(2).id, lost: 0) = $0 { true } else { false } })
        #expect(members.hasChannel(to: peer(2).id) == false)
        #expect(members.isMemberKey(of: peer(2)) == false)
    }

    /// Passes all frames between two channels over a new link, whose ends read what arrives.
    private func exchange(_ channels: inout [MessageChannel]) throws {
        let links = [channels[0].attach(), channels[1].attach()]
        var isMoving = true
        while isMoving {
            isMoving = false
            for end in 0..<2 {
                channels[end].acknowledgeNow()
                while let frame = channels[end].nextFrame(for: links[end]) {
                    isMoving = true
                    if case .message(let message)? = try channels[1 - end].receive(frame, on: links[1 - end]) {
                        channels[1 - end].recordDelivery(of: message)
                    }
                }
            }
        }
    }

    @Test("the receipt of a message that was read outlives its reader, however many members come and go") func receipts() throws
    {
        var members = members(limit: 8)
        func join(_ number: UInt8, _ channel: MessageChannel) -> Bool {
            let isAdmitted = members.admit(peer(number), name: name("peer \(number)"), now: now)
            members.addChannel(channel, to: peer(number).id)
            _ = members.drainChanges()
            return isAdmitted
        }
        func leave(_ number: UInt8) {
            members.roster.recordDeparture(of: peer(number).id, now: now)
            _ = members.drainChanges()
        }
        var channels = [MessageChannel(epoch: 1), MessageChannel(epoch: 2)]
        let read = channels[0].append(SessionMessage(bytes: [1]))
        try exchange(&channels)
        #expect(channels[0].isEmpty)
        #expect(join(2, channels[0]) == true)
        let appended = members.append(SessionMessage(bytes: [2]), isUrgent: false, for: peer(2).id)
        let unread = try #require(appended?.receipt)
        let receipt = SentMessage.Receipt(
            member: peer(2).id, generation: unread.generation, ticket: read, settlement: unread.settlement)
        #expect(members.delivery(of: receipt) == .delivered && members.delivery(of: unread) == .pending)
        leave(2)
        for number in 3..<73 as Range<UInt8> {
            #expect(join(number, MessageChannel(epoch: UInt64(number))) == true)
            leave(number)
        }
        #expect(members.delivery(of: receipt) == .delivered && members.delivery(of: unread) == .lost)
        // A later channel to the same member does not answer for the earlier one.
        #expect(join(2, MessageChannel(epoch: 99)) == true)
        #expect(members.delivery(of: receipt) == .delivered && members.delivery(of: unread) == .lost)
    }

    @Test("a receipt is settled when its reader restarts, and further restarts change nothing") func restarts() throws {
        var channels = [MessageChannel(epoch: 1), MessageChannel(epoch: 2)]
        let read = channels[0].append(SessionMessage(bytes: [1]))
        try exchange(&channels)
        var membership = SessionMembership(channel: channels[0])
        let appended = membership.append(SessionMessage(bytes: [2]), isUrgent: false, for: peer(2).id)
        let unread = try #require(appended?.receipt)
        membership.settleReceipts()
        membership.settleReceipts()
        let settled = try #require(unread.settlement.current)
        #expect(settled.isAcknowledged(read, of: 0) == true && settled.isAcknowledged(unread.ticket, of: 0) == false)
        #expect(settled.isEmpty && membership.channel.unacknowledgedCount == 1)
    }

    @Test("S20: a no holds when another member has vouched for the key in between, until the user agrees to it")
    func declined() {
        var members = members(limit: 8)
        let key = peer(2).fingerprint
        members.recordDecline(of: key)
        #expect(members.admit(peer(2), name: name("two"), now: now) == true)
        #expect(members.isMemberKey(of: peer(2)))
        _ = members.drainChanges()
        members.roster.recordDeparture(of: peer(2).id, now: now)
        _ = members.drainChanges()
        #expect(!members.isMemberKey(of: peer(2)) && members.hasDeclined(key))
        members.recordAgreement(to: key)
        #expect(!members.hasDeclined(key))
        members.recordDecline(of: key)
        members.withdrawDecline(of: key)
        #expect(!members.hasDeclined(key))
    }

    @Test("S20: a yes is remembered until the user says no, or the peer has forgotten this node") func accepted() {
        var members = members(limit: 8)
        let key = peer(2).fingerprint
        #expect(!members.remembers(key))
        members.recordAgreement(to: key)
        #expect(members.remembers(key) && !members.isMemberKey(of: peer(2)))
        members.recordDecline(of: key)
        #expect(!members.remembers(key))
        members.recordAgreement(to: key)
        #expect(members.remembers(key))
        members.forget(key, now: now)
        #expect(!members.remembers(key))
    }

    @Test func `a member that reads none of its messages for two seconds is slow, until it reads again`() {
        func after(_ seconds: Double) -> MonotonicInstant { now + .milliseconds(Int(seconds * 1000)) }
        var slow = SlowMembers()
        let (reader, sleeper, absent) = (peer(2).id, peer(3).id, peer(4).id)
        #expect(slow.deadline == nil)
        #expect(slow.recordMessage(to: sleeper, now: now) == true)
        #expect(slow.deadline == after(2))
        // One wake of the timer is enough for all.
        #expect(slow.recordMessage(to: reader, now: after(1)) == false)
        #expect(slow.recordMessage(to: absent, now: after(1)) == false)
        #expect(slow.recordMessage(to: sleeper, now: after(1.9)) == false)
        #expect(slow.recordDelivery(to: reader, hasUndelivered: true, now: after(1.5)) == false)
        #expect(slow.drain(now: after(1.9), isConnected: { $0 != absent }).isEmpty)
        #expect(slow.drain(now: after(2), isConnected: { $0 != absent }) == [sleeper])
        #expect(slow.isSlow(sleeper) && !slow.isSlow(reader) && !slow.isSlow(absent))
        #expect(slow.deadline == after(3.5))
        #expect(slow.recordDelivery(to: reader, hasUndelivered: false, now: after(3)) == false)
        // It was out of reach until then, and cannot have read.
        #expect(slow.drain(now: after(3.5), isConnected: { $0 != absent }).isEmpty)
        slow.recordLink(to: absent, now: after(4))
        #expect(slow.drain(now: after(5.5), isConnected: { _ in true }).isEmpty)
        #expect(slow.drain(now: after(6), isConnected: { _ in true }) == [absent])
        // Both are reported once.
        #expect(slow.deadline == nil)
        #expect(slow.drain(now: after(60), isConnected: { _ in true }).isEmpty)
        #expect(slow.recordDelivery(to: sleeper, hasUndelivered: true, now: after(61)) == true)
        #expect(!slow.isSlow(sleeper) && slow.deadline == after(63))
        slow.remove(absent)
        #expect(!slow.isSlow(absent))
    }

    @Test("a member without a channel takes all, one with a full window none") func window() {
        var members = members(limit: 8)
        #expect(members.hasRoom(for: peer(2).id, isUrgent: false))
        #expect(members.append(SessionMessage(bytes: [1]), isUrgent: false, for: peer(2).id) == nil)
        members.addChannel(MessageChannel(epoch: 1, limits: MessageChannel.Limits(), stale: []), to: peer(2).id)
        var count = 0
        while members.append(SessionMessage(bytes: [1]), isUrgent: false, for: peer(2).id) != nil { count += 1 }
        #expect(count > 0)
        #expect(members.queuedByteCount(of: peer(2).id) == count * 65)
        #expect(members.hasRoom(for: peer(2).id, isUrgent: false) == false)
        #expect(members.areAllMessagesDelivered == false)
        let removed = members.removeLinks()
        #expect(removed.isEmpty)
        #expect(members.areAllMessagesDelivered)
    }

    @Test("members and pending invitations together stay below the limit") func invitations() {
        var outgoing = OutgoingSessionLinks()
        #expect(outgoing.reserveInvitation(memberCount: 1, limit: 4) == true)
        #expect(outgoing.reserveInvitation(memberCount: 1, limit: 4) == true)
        #expect(outgoing.reserveInvitation(memberCount: 1, limit: 4) == false)
        outgoing.releaseInvitation()
        #expect(outgoing.reserveInvitation(memberCount: 1, limit: 4) == true)
        #expect(outgoing.reserveInvitation(memberCount: 0, limit: 4) == true)
    }

    @Test("deliveries are reported in batches: by number, by size, and once by time") func deliveries() {
        let inbox = SessionInbox()
        let member = peer(2).id
        #expect(inbox.recordDelivery(of: received(1, from: member)) == .init(isReportDue: false, needsSchedule: true))
        for _ in 0..<30 {
            #expect(inbox.recordDelivery(of: received(1, from: member)) == .init(isReportDue: false, needsSchedule: false))
        }
        #expect(inbox.recordDelivery(of: received(1, from: member)) == .init(isReportDue: true, needsSchedule: false))
        #expect(inbox.drainDelivered().count == 32)
        #expect(inbox.drainDelivered().isEmpty)
        inbox.endSchedule()
        #expect(inbox.recordDelivery(of: received(64 << 10, from: member)) == .init(isReportDue: true, needsSchedule: true))
    }

    @Test("only reliable messages wait for a member's window; unreliable ones beyond the limit are dropped") func waiting()
        async
    {
        let inbox = SessionInbox()
        let (one, other) = (peer(2).id, peer(3).id)
        inbox.append(contentsOf: [received(1, from: one), received(2, from: other)])
        for _ in 0..<2000 { inbox.append(unreliable: received(3, from: one, .unreliable)) }
        #expect(inbox.waitingMessages(of: one).map(\.bytes.count) == [1])
        inbox.finish()
        var count = 0
        while await inbox.dequeue() != nil { count += 1 }
        #expect(count == 1024)
    }

    @Test("a change of the deadlines ends one wait, a stop all of them", .timeLimit(.minutes(1))) func timer() {
        let timer = SessionTimer()
        timer.wake()
        #expect(timer.wait(until: nil) == .due)
        timer.reset()
        #expect(timer.wait(until: now) == .due, "the deadline is over")
        timer.stop()
        #expect(timer.wait(until: nil) == .stopped)
        timer.reset()
        #expect(timer.wait(until: nil) == .stopped)
    }

    @Test("all addresses are announced: those that were used first, without zones, and none that the node has lost")
    func addresses() {
        var members = members(limit: 8)
        func announced() -> [String] { members.roster.member(peer(1).id)?.addresses.map(\.host) ?? [] }
        members.addAddress(SessionMember.Address(host: "192.0.2.1", port: 7))
        #expect(announced() == ["192.0.2.1"])
        func change(_ hosts: String...) { members.setInterfaceAddresses(hosts.map { .init(announcing: $0, port: 7) }) }
        change("fe80::1%eth0", "192.0.2.1", "2001:db8::1")
        #expect(announced() == ["192.0.2.1", "fe80::1", "2001:db8::1"])
        change("198.51.100.2", "fe80::1%eth0")
        #expect(announced() == ["198.51.100.2", "fe80::1"])
        change((1...20).map { "10.0.0.\($0)" }[0], "10.0.0.2")
        members.setInterfaceAddresses((1...20).map { .init(host: "10.0.0.\($0)", port: 7) })
        #expect(announced().count == SessionMember.maximumAddressCount)
    }

    @Test("a peer that has blocked this machine does not trust it; one whose user cannot be asked is not available")
    func refusals() {
        let blocked = SessionError(LinkEnd.closure(.closed(by: .remote, .blocked)))
        if case .untrusted = blocked {} else { Issue.record("\(blocked)") }
        let unattended = SessionError(LinkEnd.closure(.closed(by: .remote, .unattended)))
        if case .unavailable(let text) = unattended {
            #expect(text.contains("cannot be asked"))
        } else {
            Issue.record("\(unattended)")
        }
        #expect(SessionError(LinkEnd.closure(.closed(by: .local, .blocked))) == SessionError(NodeError.blocked("the peer")))
    }

    @Test("a link-local address is tried on each interface of this node") func linkLocal() {
        let address = SessionMember.Address(announcing: "fe80::1%wlan0", port: 7)
        #expect(
            address.destinations(zones: ["eth0", "eth1"])
                == [LinkAddress(host: "fe80::1%eth0", port: 7), LinkAddress(host: "fe80::1%eth1", port: 7)])
        #expect(address.destinations(zones: []).isEmpty)
        // All of fe80::/10 is link-local; IPv4 addresses need no interface.
        let last = SessionMember.Address(host: "FEBF::1", port: 7)
        #expect(last.destinations(zones: ["eth0"]) == [LinkAddress(host: "FEBF::1%eth0", port: 7)])
        let short = SessionMember.Address(host: "169.254.0.1", port: 7)
        #expect(short.destinations(zones: ["eth0"]) == [LinkAddress(host: "169.254.0.1", port: 7)])
        let routed = SessionMember.Address(host: "2001:db8::1", port: 7)
        #expect(routed.destinations(zones: ["eth0"]) == [LinkAddress(host: "2001:db8::1", port: 7)])
    }

    @Test("R3: links of members take no slot of their address, up to a few of each member") func memberLinks() throws {
        var registry = LinkRegistry()
        var limits = NodeLimits()
        limits.linksPerAddress = 2
        let source = LinkSource(LinkAddress(host: "192.0.2.1", port: 1))
        func admit() -> LinkRegistry.Slot? {
            guard case .admitted(let slot, _) = registry.admit(from: source, limits: limits, now: now, end: {}) else {
                return nil
            }
            registry.attach(slot, unusedSince: { _ in nil }, end: {})
            return slot
        }
        for number in 2..<12 as Range<UInt8> {
            registry.recordMember(peer(number).id, try #require(admit()), limits: limits, now: now)
        }
        #expect(registry.incomingCount == 10)
        // Further links of one member count again.
        for _ in 0..<5 {
            if let slot = admit() { registry.recordMember(peer(2).id, slot, limits: limits, now: now) }
        }
        #expect(admit() == nil)
    }
}
