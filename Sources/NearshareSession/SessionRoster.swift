public import NearshareBase
public import NearshareWire

/// Where a member of a session is, seen from here.
public enum MemberState: Sendable, Hashable {
    case notConnected
    case connecting
    /// Over a link of our own, or through another member.
    case connected(via: PeerID?)

    public var isConnected: Bool { if case .connected = self { true } else { false } }
}

/// Something that changed about who is in a session.
public enum SessionChange: Sendable, Hashable {
    case joined(SessionMember)
    case state(PeerID, MemberState)
    /// Left, was gone for too long, or was shown out.
    case left(PeerID)
}

/// Who is in a session and how each is reached: a value that every member keeps, and that becomes the same everywhere, because
/// members tell each other all they know and of two entries for one member the later counts.
///
///     a member seen from here:   not connected ──► connecting ──► connected (directly or through another) ──► not connected
public struct SessionRoster: Sendable {
    public struct Limits: Sendable, Hashable {
        /// Members at once, ourselves included.
        public var members = 8
        /// How long a member may be out of reach before it counts as gone.
        public var patience = Duration.seconds(30)

        public init() {}
    }

    /// What to do about a member that is not connected.
    public enum Approach: Sendable, Hashable {
        /// Connect to it at its addresses.
        case connect(SessionMember)
        /// Reach it through a member to whom both have links.
        case relay(SessionMember, through: PeerID)
    }

    public let id: SessionID
    public let limits: Limits
    private let own: PeerID
    private var entries: [PeerID: SessionMember] = [:]
    private var states: [PeerID: MemberState] = [:]
    /// Since when a member is out of reach.
    private var missed: [PeerID: MonotonicInstant] = [:]
    /// When an approach to a member failed, and how often in a row.
    private var failures: [PeerID: (count: Int, until: MonotonicInstant)] = [:]
    /// To whom an approach is under way.
    private var approached: Set<PeerID> = []
    private var changes: [SessionChange] = []
    private var isDirty = false

    public init(id: SessionID, own: SessionMember, limits: Limits = Limits()) {
        self.id = id
        self.own = own.id
        self.limits = limits
        entries[own.id] = own
    }

    public mutating func takeChanges() -> [SessionChange] {
        defer { changes = [] }
        return changes
    }

    /// What is to be told to everybody who is connected, once after each change; nil when all know it.
    public mutating func takeNews() -> SessionFrame? {
        guard isDirty else { return nil }
        isDirty = false
        return .roster(id, Array(all))
    }

    public var roster: SessionFrame { .roster(id, all) }

    private var all: [SessionMember] {
        entries.values.sorted { $0.id.hex < $1.id.hex }.prefix(SessionFrame.maximumRosterCount).map { $0 }
    }

    /// Everybody else who is in it, by id.
    public var others: [SessionMember] {
        entries.values.filter { $0.presence == .present && $0.id != own }.sorted { $0.id.hex < $1.id.hex }
    }

    public func member(_ id: PeerID) -> SessionMember? { entries[id].flatMap { $0.presence == .present ? $0 : nil } }

    public func state(of id: PeerID) -> MemberState { states[id] ?? .notConnected }

    public var isFull: Bool { others.count + 1 >= limits.members }

    // MARK: Joining and leaving

    /// Somebody has accepted our invitation, or we theirs.
    public mutating func admit(_ member: SessionMember, now: MonotonicInstant) {
        var member = member
        let before = entries[member.id]
        member.incarnation = before.map { $0.presence == .gone ? $0.incarnation + 1 : $0.incarnation } ?? member.incarnation
        member.presence = .present
        set(member, now: now)
    }

    /// A member tells what it knows. Only what is later than what is known here counts, and nobody but we tells of us.
    public mutating func receive(_ members: [SessionMember], now: MonotonicInstant) {
        for member in members {
            guard member.id != own else {
                defendOurselves(member)
                continue
            }
            guard let known = entries[member.id] else {
                if member.presence == .gone || !isFull { set(member, now: now) }
                continue
            }
            if Self.isLater(member, than: known) { set(member, now: now) }
        }
    }

    /// Others believe that we are gone: we say again that we are here.
    private mutating func defendOurselves(_ claim: SessionMember) {
        guard var mine = entries[own], mine.presence == .present else { return }
        let isNews = claim.incarnation > mine.incarnation || (claim.incarnation == mine.incarnation && claim.presence == .gone)
        guard isNews else { return }
        mine.incarnation = claim.incarnation &+ 1
        entries[own] = mine
        isDirty = true
    }

    private static func isLater(_ new: SessionMember, than old: SessionMember) -> Bool {
        if new.incarnation != old.incarnation { return new.incarnation > old.incarnation }
        if new.presence != old.presence { return new.presence == .gone }
        return new.revision > old.revision
    }

    private mutating func set(_ member: SessionMember, now: MonotonicInstant) {
        let before = entries[member.id]
        guard before != member else { return }
        entries[member.id] = member
        isDirty = true
        switch (before?.presence ?? .gone, member.presence) {
        case (.gone, .present):
            states[member.id] = .notConnected
            missed[member.id] = now
            changes.append(.joined(member))
        case (.present, .gone): drop(member.id)
        default: break
        }
    }

    private mutating func drop(_ id: PeerID) {
        states[id] = nil
        missed[id] = nil
        failures[id] = nil
        approached.remove(id)
        changes.append(.left(id))
    }

    /// A member says that it leaves.
    public mutating func left(_ id: PeerID, now: MonotonicInstant) {
        guard id != own, var member = entries[id], member.presence == .present else { return }
        member.presence = .gone
        set(member, now: now)
    }

    // MARK: Links

    /// An approach begins.
    public mutating func connecting(_ id: PeerID) {
        guard member(id) != nil else { return }
        approached.insert(id)
        if !state(of: id).isConnected { setState(id, .connecting) }
    }

    /// - Parameter relay: nil for a link of our own.
    public mutating func connected(_ id: PeerID, via relay: PeerID?) {
        guard member(id) != nil else { return }
        missed[id] = nil
        approached.remove(id)
        // What failed before still tells when a link of our own is worth another try.
        if relay == nil { failures[id] = nil }
        setState(id, .connected(via: relay))
        tellNeighbours()
    }

    public mutating func disconnected(_ id: PeerID, now: MonotonicInstant) {
        guard member(id) != nil else { return }
        if missed[id] == nil { missed[id] = now }
        setState(id, .notConnected)
        tellNeighbours()
    }

    /// An approach came to nothing; the next one waits longer.
    public mutating func failed(_ id: PeerID, now: MonotonicInstant) {
        approached.remove(id)
        guard member(id) != nil, state(of: id) != .connected(via: nil) else { return }
        let count = (failures[id]?.count ?? 0) + 1
        failures[id] = (count, now + Self.firstPause * (1 << min(count - 1, 5)))
        if !state(of: id).isConnected { setState(id, .notConnected) }
    }

    /// Our own addresses, as far as they are known.
    public mutating func setAddresses(_ addresses: [SessionMember.Address]) {
        guard var mine = entries[own], mine.addresses != addresses else { return }
        mine.addresses = addresses
        mine.revision += 1
        entries[own] = mine
        isDirty = true
    }

    private mutating func setState(_ id: PeerID, _ state: MemberState) {
        guard states[id] != state else { return }
        states[id] = state
        changes.append(.state(id, state))
    }

    private mutating func tellNeighbours() {
        guard var mine = entries[own] else { return }
        let neighbours = states.filter { $0.value == .connected(via: nil) }.keys.sorted { $0.hex < $1.hex }
        guard mine.neighbours != neighbours else { return }
        mine.neighbours = neighbours
        mine.revision += 1
        entries[own] = mine
        isDirty = true
    }

    // MARK: What to do next

    /// Approaches that are due. The member with the lower id connects at once, the other one when that has come to nothing, so
    /// that they seldom meet half way. A relay is tried where no link of our own came about, and a link of our own again and
    /// again where there is only a relay.
    public func approaches(now: MonotonicInstant) -> [Approach] {
        others.compactMap { member in
            guard !approached.contains(member.id), failures[member.id].map({ now >= $0.until }) ?? true else { return nil }
            let mayConnect = !member.addresses.isEmpty
            switch state(of: member.id) {
            case .connected(via: nil): return nil
            case .connected: return mayConnect && own.hex < member.id.hex ? .connect(member) : nil
            case .connecting, .notConnected:
                guard own.hex < member.id.hex || now >= secondChance(of: member.id) else { return nil }
                let isRelaysTurn = !(failures[member.id]?.count ?? 0).isMultiple(of: 2)
                if isRelaysTurn || !mayConnect, let relay = relay(to: member) { return .relay(member, through: relay) }
                return mayConnect ? .connect(member) : nil
            }
        }
    }

    /// When the member with the higher id tries as well.
    private func secondChance(of id: PeerID) -> MonotonicInstant {
        (missed[id] ?? MonotonicInstant(nanoseconds: 0)) + Self.headStart
    }

    /// A member who has a link to it and whom we reach, best over a link of our own; else the one with the lowest id.
    private func relay(to member: SessionMember) -> PeerID? {
        let able = others.filter { $0.id != member.id && $0.neighbours.contains(member.id) && state(of: $0.id).isConnected }
        return (able.first { state(of: $0.id) == .connected(via: nil) } ?? able.first)?.id
    }

    /// Members who are out of reach for too long are gone.
    public mutating func advance(to now: MonotonicInstant) {
        for (id, since) in missed where now - since >= limits.patience { left(id, now: now) }
    }

    /// When ``advance(to:)`` or ``approaches(now:)`` have something new to say by time alone.
    public var deadline: MonotonicInstant? {
        let chances = missed.keys.filter { $0.hex < own.hex && !approached.contains($0) && failures[$0] == nil }
        return
            (missed.values.map { $0 + limits.patience } + chances.map { secondChance(of: $0) }
            + failures.filter { !approached.contains($0.key) }.values.map(\.until)).min()
    }

    private static let firstPause = Duration.milliseconds(500)
    private static let headStart = Duration.seconds(3)
}
