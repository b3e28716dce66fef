import NearshareBase
import NearshareDirect
import NearshareTesting

/// Members of one session on virtual time, made of the machines alone: rosters, message channels and byte streams, over links
/// that
/// are delayed, break, and lead through others where two are kept apart. One seed is one story.
struct SimulatedSession: Simulation {
    typealias LinkNumber = Int

    /// One end of a link.
    private struct End {
        var streams: ByteStreams
        var channelLink: MessageChannel.LinkID
        var stream: StreamID?
        var framing = MessageFraming()
        /// The data that the stream had no room for.
        var pending: ArraySlice<UInt8> = []
        /// When the last frame for this end arrives: links keep the order.
        var lastArrival = MonotonicInstant(nanoseconds: 0)
    }

    private struct Link {
        /// The initiator comes first.
        let members: [Int]
        let relay: Int?
        /// The links of the relay that this one uses.
        let legs: [LinkNumber]
        var ends: [End]

        func side(of member: Int) -> Int { members[0] == member ? 0 : 1 }
        func other(than member: Int) -> Int { members[0] == member ? members[1] : members[0] }
    }

    /// Distinguishes it from earlier instances with the same key.
    struct Instance: Hashable {
        let member: Int
        let number: Int
    }

    private struct Member {
        var instance = 0
        var roster: SessionRoster?
        var channels: [Int: MessageChannel] = [:]
        var wakesAt: MonotonicInstant?
        /// The peers that the member has discovered in its room; nil for one that was invited.
        var candidates: RoomCandidates?
        var invitingCount = 0
        var invitesAt: MonotonicInstant?
    }

    enum Event {
        case arrives(LinkNumber, side: Int, frame: [UInt8])
        case connects(Int, SessionRoster.ConnectionAttempt, instance: Int)
        case wakes(Int)
        /// An action of the simulation.
        case happens(@Sendable (inout SimulatedSession) -> Void)
    }

    var timeline: Timeline<Event>
    var random: SeededRandom {
        get { timeline.random }
        set { timeline.random = newValue }
    }
    private var members: [Member]
    private var links: [LinkNumber: Link] = [:]
    private var lastLink = 0
    private var apart: Set<Set<Int>> = []
    private var lastSent = 0
    /// The messages that an instance has sent to another, and received from it.
    private(set) var sent: [Instance: [Instance: [Int]]] = [:]
    private(set) var received: [Instance: [Instance: [Int]]] = [:]
    /// Messages that arrived while sender and receiver had no direct link.
    private(set) var relayedCount = 0
    private(set) var violations: [String] = []
    /// The bytes of all session frames that were sent.
    private(set) var sessionByteCount = 0
    /// The number of times that a member was declared gone.
    private(set) var departureCount = 0
    /// The links that were opened.
    var linkCount: Int { lastLink }
    private let settings: SessionRoster.Settings

    init(seed: UInt64, count: Int, settings: SessionRoster.Settings = SessionRoster.Settings()) {
        self.settings = settings
        timeline = Timeline(seed: seed)
        members = Array(repeating: Member(), count: count)
    }

    private static let id = SessionID(bytes: [UInt8](repeating: 5, count: 16))!

    private static let identities = (0..<64).map { member in
        SessionMember(
            fingerprint: Fingerprint(bytes: [UInt8](repeating: UInt8(member + 1), count: 32))!,
            name: DisplayName(truncating: "node \(member)")!)
    }

    private static func identity(_ member: Int) -> SessionMember { identities[member] }

    private func number(_ id: PeerID) -> Int { members.indices.first { Self.identity($0).id == id }! }

    // MARK: Actions

    var inside: [Int] { members.indices.filter { members[$0].roster != nil } }

    func instance(_ member: Int) -> Instance { Instance(member: member, number: members[member].instance) }

    func roster(_ member: Int) -> SessionRoster? { members[member].roster }

    mutating func after(_ time: Duration, _ body: @escaping @Sendable (inout SimulatedSession) -> Void) {
        timeline.schedule(.happens(body), at: now + time)
    }

    mutating func begin(_ member: Int) {
        // The links of an earlier instance, over which its last frames were still sent.
        for number in numbers({ $0.members.contains(member) }) { cut(number) }
        members[member].instance += 1
        members[member].roster = SessionRoster(id: Self.id, own: Self.identity(member), settings: settings)
    }

    /// The member joins a room, which it and the others in it discover after a while.
    mutating func join(_ member: Int) {
        begin(member)
        members[member].candidates = RoomCandidates(own: Self.identity(member).id)
        for other in members.indices where other != member && members[other].candidates != nil {
            for (one, seen) in [(member, other), (other, member)] {
                after(delay(1...2000)) { session in
                    let time = session.now
                    session.members[one].candidates?.recordSighting(of: Self.identity(seen).id, now: time)
                    session.inviteCandidates(one)
                }
            }
        }
    }

    /// Up to three invitations at a time, some of which fail.
    private mutating func inviteCandidates(_ member: Int) {
        guard let roster = members[member].roster, var candidates = members[member].candidates else { return }
        while members[member].invitingCount < 3, let id = candidates.next(now: now, isMember: { roster.member($0) != nil }) {
            members[member].invitingCount += 1
            let fails = Int.random(in: 0..<5, using: &random) == 0
            after(delay(20...800)) { session in
                let (other, time) = (session.number(id), session.now)
                var isPossible = !fails && session.members[other].roster != nil && !session.apart.contains([member, other])
                if session.members[member].roster?.isIncomplete(now: time) == true { isPossible = false }
                if isPossible, session.isFull(member, for: other) { isPossible = false }
                if isPossible, session.isFull(other, for: member) { isPossible = false }
                let count = session.members[member].roster.map { $0.memberIDs.count + 1 } ?? 0
                if isPossible,
                    let decision = session.members[other].roster?.mergeDecision(
                        about: Self.identity(member).id, inGroupOf: count, now: time)
                {
                    if decision == .stepBackAndMerge { session.stepBack(other) }
                    isPossible = decision != .refuse
                }
                if isPossible { session.connect(member, other, relay: nil, legs: []) }
                session.members[member].invitingCount -= 1
                session.members[member].candidates?.recordOutcome(isPossible ? .member : .failed, of: id, now: time)
                session.inviteCandidates(member)
            }
        }
        members[member].candidates = candidates
        guard let deadline = candidates.deadline(isMember: { roster.member($0) != nil }), deadline > now else { return }
        guard members[member].invitesAt.map({ deadline < $0 || $0 <= now }) ?? true else { return }
        members[member].invitesAt = deadline
        after(deadline - now) { session in
            guard session.members[member].invitesAt == session.now else { return }
            session.members[member].invitesAt = nil
            session.inviteCandidates(member)
        }
    }

    /// An accepted invitation.
    mutating func invite(_ guest: Int, by host: Int) {
        guard members[host].roster != nil, members[guest].roster == nil, !apart.contains([host, guest]) else { return }
        begin(guest)
        connect(host, guest, relay: nil, legs: [])
    }

    /// Two members discover each other, as in a room: one admits the other where it believes it gone.
    mutating func meet(_ one: Int, _ other: Int) {
        guard members[one].roster != nil, members[other].roster != nil, !apart.contains([one, other]) else { return }
        connect(one, other, relay: nil, legs: [])
    }

    mutating func leave(_ member: Int) {
        for number in numbers({ $0.members.contains(member) }) { send(.leave(Self.id), on: number, from: member) }
        // The last frames still arrive.
        stop(member, breaksLinks: false)
    }

    mutating func crash(_ member: Int) {
        stop(member, breaksLinks: true)
    }

    private mutating func stop(_ member: Int, breaksLinks: Bool) {
        members[member].roster = nil
        members[member].channels = [:]
        for number in numbers({ $0.members.contains(member) || $0.relay == member }) {
            if breaksLinks {
                cut(number)
            } else {
                after(.milliseconds(400)) { $0.cut(number) }
            }
        }
    }

    mutating func partition(_ one: Int, _ other: Int) {
        apart.insert([one, other])
        for number in numbers({ $0.relay == nil && Set($0.members) == [one, other] }) { cut(number) }
    }

    func identifier(_ member: Int) -> PeerID { Self.identity(member).id }

    /// News of the member's network arrives, as from the kernel.
    mutating func changeNetwork(of member: Int) {
        let time = now
        members[member].roster?.recordNetworkChange(now: time)
        pump(member)
    }

    mutating func heal(_ one: Int, _ other: Int) { apart.remove([one, other]) }
    mutating func letAllMeet() { apart = [] }

    mutating func breakSomeLink() {
        if let number = links.keys.sorted().randomElement(using: &random) { cut(number) }
    }

    /// A numbered message, when the window has room.
    mutating func say(from member: Int, to other: Int) {
        guard members[other].roster != nil, members[member].roster?.member(Self.identity(other).id) != nil else { return }
        makeChannel(member, other)
        guard members[member].channels[other]!.hasRoom else { return }
        lastSent += 1
        let bytes = withUnsafeBytes(of: UInt64(lastSent).bigEndian) { Array($0) }
        members[member].roster!.demandLink(to: Self.identity(other).id)
        members[member].channels[other]!.append(
            SessionMessage(bytes: bytes + [UInt8](repeating: 1, count: Int.random(in: 0...3000, using: &random))))
        sent[instance(member), default: [:]][instance(other), default: []].append(lastSent)
        pump(member)
    }

    // MARK: Simulation

    /// Members are woken by events.
    var deadline: MonotonicInstant? { nil }

    mutating func advanceMachines() {}

    private mutating func delay(_ range: ClosedRange<Int> = 1...80) -> Duration {
        .milliseconds(Int.random(in: range, using: &random))
    }

    mutating func handle(_ event: Event) {
        switch event {
        case .happens(let body): body(&self)
        case .wakes(let member):
            guard members[member].wakesAt == now else { return }
            members[member].wakesAt = nil
            members[member].roster?.advance(to: timeline.now)
            pump(member)
        case .connects(let member, let approach, let instance):
            guard members[member].roster != nil, members[member].instance == instance else { return }
            if !connects(member, approach) {
                members[member].roster!.recordFailure(of: approach.member.id, through: approach.relay, now: now)
            } else if let relay = approach.relay {
                members[member].roster?.recordAttemptEnd(to: approach.member.id, through: relay)
            }
            pump(member)
        case .arrives(let number, let side, let frame):
            guard let link = links[number], members[link.members[side]].roster != nil else { return }
            do throws(MalformedInput) {
                if let frame = try SessionFrame(decoding: frame[...]) {
                    take(frame, on: number, side)
                } else if let frame = try StreamFrame(decoding: frame[...]) {
                    try links[number]!.ends[side].streams.receive(frame)
                    try read(number, side)
                }
            } catch {
                violations.append("\(link.members[side]) of \(link.other(than: link.members[side])): \(error)")
                cut(number)
            }
            pump(link.members[side])
        }
    }

    private mutating func connects(_ member: Int, _ approach: SessionRoster.ConnectionAttempt) -> Bool {
        switch approach {
        case .connect(let target):
            let other = number(target.id)
            guard !apart.contains([member, other]) else { return false }
            if isFull(other, for: member) { members[member].roster?.recordRefusal(of: target.id, now: timeline.now) }
            guard isMember(member, seenBy: other) else { return false }
            connect(member, other, relay: nil, legs: [])
        case .relay(let target, let through):
            let (other, relay) = (number(target.id), number(through))
            guard let first = directLink(member, relay) ?? anyLink(member, relay), let second = directLink(relay, other),
                isMember(other, seenBy: relay),
                isMember(member, seenBy: relay), isMember(member, seenBy: other)
            else { return false }
            connect(member, other, relay: relay, legs: [first, second])
        }
        return true
    }

    /// In order, so that a seed reproduces the run.
    private func numbers(_ isWanted: (Link) -> Bool) -> [LinkNumber] {
        links.filter { isWanted($0.value) }.keys.sorted()
    }

    private func isMember(_ member: Int, seenBy other: Int) -> Bool {
        members[other].roster?.member(Self.identity(member).id) != nil
    }

    /// Whether a member has no room for another one.
    private func isFull(_ member: Int, for other: Int) -> Bool {
        members[member].roster?.isFull == true && !isMember(other, seenBy: member)
    }

    /// Leaves the others, which learn it after a while.
    private mutating func stepBack(_ member: Int) {
        for number in numbers({ $0.members.contains(member) }) {
            guard let link = links[number] else { continue }
            let other = link.other(than: member)
            cut(number)
            after(delay()) { session in
                let time = session.now
                session.members[other].roster?.recordDeparture(of: Self.identity(member).id, now: time)
                session.pump(other)
            }
        }
        members[member].channels = [:]
        members[member].roster?.stepBack()
        if members[member].candidates != nil { inviteCandidates(member) }
    }

    private func directLink(_ one: Int, _ other: Int) -> LinkNumber? {
        links.filter { $0.value.relay == nil && Set($0.value.members) == [one, other] }.keys.min()
    }

    /// The relay may itself be reached through another relay.
    private func anyLink(_ one: Int, _ other: Int) -> LinkNumber? {
        links.filter { Set($0.value.members) == [one, other] }.keys.max()
    }

    private mutating func connect(_ member: Int, _ other: Int, relay: Int?, legs: [LinkNumber]) {
        lastLink += 1
        var ends: [End] = []
        for (side, pair) in [(member, other), (other, member)].enumerated() {
            if !isMember(pair.1, seenBy: pair.0) {
                members[pair.0].roster!.admit(
                    SessionMember(fingerprint: Self.identity(pair.1).fingerprint, name: Self.identity(pair.1).name), now: now)
            }
            makeChannel(pair.0, pair.1)
            ends.append(
                End(
                    streams: ByteStreams(role: side == 0 ? .initiator : .responder),
                    channelLink: members[pair.0].channels[pair.1]!.attach()))
        }
        ends[0].stream = try! ends[0].streams.open(.messages, StreamName("")!)
        links[lastLink] = Link(members: [member, other], relay: relay, legs: legs, ends: ends)
        ready(lastLink, 0)
        pump(other)
    }

    private mutating func makeChannel(_ member: Int, _ other: Int) {
        if members[member].channels[other] == nil { members[member].channels[other] = MessageChannel(epoch: random.next() | 1) }
    }

    /// Both ends use the link from now on.
    private mutating func ready(_ number: LinkNumber, _ side: Int) {
        let (member, other) = (links[number]!.members[side], links[number]!.members[1 - side])
        noteLinks(member, other)
        members[member].roster!.setAddresses([.init(host: "10.0.0.\(member)", port: 2)])
        let roster = members[member].roster!
        // A relayed link beside a direct one is closed at once.
        if let link = links[number] {
            send(link.relay == nil ? roster.rosterFrame : roster.ownEntryFrame, on: number, from: member)
        }
        pump(member)
    }

    private mutating func noteLinks(_ member: Int, _ other: Int) {
        guard members[member].roster != nil else { return }
        let between = numbers { link in
            Set(link.members) == [member, other] && link.ends[link.side(of: member)].stream != nil
        }.map { links[$0]! }
        let id = Self.identity(other).id
        if between.contains(where: { $0.relay == nil }) {
            members[member].roster!.recordConnection(to: id, via: nil, now: now)
            if member < other {
                for number in numbers({ $0.relay != nil && Set($0.members) == [member, other] }) { cut(number) }
            }
        } else if let relay = between.first?.relay {
            members[member].roster!.recordConnection(to: id, via: Self.identity(relay).id, now: now)
        } else {
            members[member].roster!.recordDisconnection(of: id, now: now)
            if members[member].channels[other]?.isEmpty == false { members[member].roster!.demandLink(to: id) }
        }
    }

    private mutating func cut(_ number: LinkNumber) {
        guard let link = links.removeValue(forKey: number) else { return }
        for side in 0..<2 {
            members[link.members[side]].channels[link.members[1 - side]]?.detach(link.ends[side].channelLink)
            noteLinks(link.members[side], link.members[1 - side])
        }
        for dependent in numbers({ $0.legs.contains(number) }) { cut(dependent) }
        for member in link.members { pump(member) }
    }

    // MARK: Links

    private mutating func take(_ frame: SessionFrame, on number: LinkNumber, _ side: Int) {
        let link = links[number]!
        switch frame {
        case .roster(_, let told):
            guard isMember(link.members[1 - side], seenBy: link.members[side]) else { return }
            members[link.members[side]].roster!.receive(told, from: Self.identity(link.members[1 - side]).id, now: now)
        case .leave: members[link.members[side]].roster!.recordDeparture(of: Self.identity(link.members[1 - side]).id, now: now)
        default: break
        }
    }

    private mutating func read(_ number: LinkNumber, _ side: Int) throws(MalformedInput) {
        let (member, other) = (links[number]!.members[side], links[number]!.members[1 - side])
        for event in links[number]!.ends[side].streams.drainEvents() {
            if case .opened(let id, .messages, _) = event {
                links[number]!.ends[side].stream = id
                ready(number, side)
            }
        }
        guard let id = links[number]?.ends[side].stream else { return }
        while case .bytes(let bytes) = try? links[number]!.ends[side].streams.read(id, upTo: .max) {
            for frame in try links[number]!.ends[side].framing.receive(bytes) {
                let event = try members[member].channels[other]?.receive(frame, on: links[number]!.ends[side].channelLink)
                guard case .message(let message)? = event else { continue }
                let value = message.bytes.prefix(8).reduce(0) { $0 << 8 | Int($1) }
                received[instance(member), default: [:]][instance(other), default: []].append(value)
                if links[number]!.relay != nil { relayedCount += 1 }
                members[member].channels[other]!.recordDelivery(of: message)
            }
        }
    }

    private mutating func send(_ frame: SessionFrame, on number: LinkNumber, from member: Int) {
        guard let link = links[number] else { return }
        sessionByteCount += frame.encoded.count
        put(frame.encoded, on: number, to: 1 - link.side(of: member))
    }

    private mutating func put(_ frame: [UInt8], on number: LinkNumber, to side: Int) {
        let time = max(now + delay(), links[number]!.ends[side].lastArrival)
        links[number]!.ends[side].lastArrival = time
        timeline.schedule(.arrives(number, side: side, frame: frame), at: time)
    }

    /// Executes the outputs of a member's state machines.
    private mutating func pump(_ member: Int) {
        guard members[member].roster != nil else { return }
        if members[member].roster?.isSurplus(now: now) == true { stepBack(member) }
        for case .left(let id) in members[member].roster!.drainChanges() {
            let other = number(id)
            departureCount += 1
            members[member].channels[other] = nil
            for number in numbers({ Set($0.members) == [member, other] }) { cut(number) }
        }
        guard members[member].roster != nil else { return }
        if members[member].roster!.areUpdatesDue(now: now) {
            var direct: [PeerID: LinkNumber] = [:]
            for number in numbers({ $0.relay == nil && $0.members.contains(member) }) {
                direct[Self.identity(links[number]!.other(than: member)).id] = number
            }
            for (id, frame) in members[member].roster!.drainUpdates(for: direct.keys.sorted(), now: now) {
                send(frame, on: direct[id]!, from: member)
            }
        }
        for approach in members[member].roster!.dueAttempts(now: now) {
            members[member].roster!.recordAttempt(to: approach.member.id, through: approach.relay)
            let time = now + delay(50...500)
            timeline.schedule(.connects(member, approach, instance: members[member].instance), at: time)
        }
        for number in numbers({ $0.members.contains(member) }) { write(number, member) }
        guard let deadline = members[member].roster?.deadline(after: now) else { return }
        guard members[member].wakesAt.map({ deadline < $0 }) ?? true else { return }
        members[member].wakesAt = deadline
        timeline.schedule(.wakes(member), at: deadline)
    }

    private mutating func write(_ number: LinkNumber, _ member: Int) {
        guard let link = links[number] else { return }
        let side = link.side(of: member)
        members[member].channels[link.other(than: member)]?.acknowledgeNow()
        if let stream = link.ends[side].stream {
            while true {
                if links[number]!.ends[side].pending.isEmpty {
                    guard
                        let frame = members[member].channels[link.other(than: member)]?.nextFrame(
                            for: link.ends[side].channelLink)
                    else { break }
                    var bytes: [UInt8] = []
                    MessageFraming.append(frame, to: &bytes)
                    links[number]!.ends[side].pending = bytes[...]
                }
                let pending = links[number]!.ends[side].pending
                guard let count = try? links[number]!.ends[side].streams.write(pending, on: stream) else { break }
                links[number]!.ends[side].pending = pending.dropFirst(count)
                if count < pending.count { break }
            }
        }
        while let frame = links[number]!.ends[side].streams.nextFrame() { put(frame.encoded, on: number, to: 1 - side) }
    }
}
