public import NearshareBase

/// Where a member of a session is, seen from here.
public enum MemberState: Sendable, Hashable {
    /// Out of reach; looked for until ``SessionRoster/Limits/timeout`` ends.
    case notConnected
    /// A way is being tried.
    case connecting
    /// Over a link of our own, or through another member.
    case connected(via: PeerID?)

    /// Over a link of our own or through another member.
    public var isConnected: Bool { if case .connected = self { true } else { false } }
}

/// Something that changed about who is in a session.
package enum SessionChange: Sendable, Hashable {
    /// Somebody has come.
    case joined(SessionMember)
    /// A member is reached otherwise than before.
    case state(PeerID, MemberState)
    /// Its program has begun anew and knows nothing of before: so many reliable messages are lost, of which it had not said yet
    /// that it has passed them on.
    case restarted(PeerID, lost: Int)
    /// Left, was gone for too long, or was shown out. Messages to it that it had not passed on are lost.
    case left(PeerID)
}

/// Who is in a session and how each is reached: a value that every member keeps, and that becomes the same everywhere, because
/// members tell each other all they know and of two entries for one member the later counts.
///
///     a member seen from here:   not connected ──► connecting ──► connected (directly or through another) ──► not connected
package struct SessionRoster: Sendable {
    /// How many there may be, and how long they are waited for.
    package struct Limits: Sendable, Hashable {
        /// Members at once, ourselves included.
        package var members = 8
        /// Time out of reach after which a member is removed.
        package var timeout = Duration.seconds(30)

        /// As most sessions have them.
        package init() {}
    }

    /// What to do about a member that is not connected.
    package enum Approach: Sendable, Hashable {
        /// Connect to it at its addresses.
        case connect(SessionMember)
        /// Reach it through a member to whom both have links.
        case relay(SessionMember, through: PeerID)
    }

    /// Of the session.
    package let id: SessionID
    /// As the program wants them.
    package let limits: Limits
    private let own: PeerID
    private var entries: [PeerID: SessionMember] = [:]
    private var states: [PeerID: MemberState] = [:]
    /// Since when a member is out of reach.
    private var missed: [PeerID: MonotonicInstant] = [:]
    /// When an approach to a member failed, and how often in a row.
    private var failures: [PeerID: (count: Int, until: MonotonicInstant)] = [:]
    /// To whom an approach is under way.
    private var approached: Set<PeerID> = []
    /// Who is gone, in that order. Remembered so that nobody who has heard late of it brings them back.
    private var gone: [PeerID] = []
    /// Members to whom we have links and of whom somebody says that they are gone, in which incarnation and since when.
    private var doubts: [PeerID: (incarnation: UInt32, since: MonotonicInstant)] = [:]
    private var changes: [SessionChange] = []
    private var isDirty = false

    /// Of a session in which nobody else is yet.
    package init(id: SessionID, own: SessionMember, limits: Limits = Limits()) {
        self.id = id
        self.own = own.id
        self.limits = limits
        entries[own.id] = own
    }

    /// What has changed since it was asked last.
    package mutating func takeChanges() -> [SessionChange] {
        defer { changes = [] }
        return changes
    }

    /// What is to be told to everybody who is connected, once after each change; nil when all know it.
    package mutating func takeNews() -> SessionFrame? {
        guard isDirty else { return nil }
        isDirty = false
        return .roster(id, Array(all))
    }

    /// All that is known, for somebody who has just been connected.
    package var roster: SessionFrame { .roster(id, all) }

    private var all: [SessionMember] {
        entries.values.sorted { ($0.presence.rawValue, $0.id) < ($1.presence.rawValue, $1.id) }
            .prefix(SessionFrame.maximumRosterCount).map { $0 }
    }

    /// Everybody else who is in it, in no order.
    package var memberIDs: [PeerID] {
        entries.compactMap { $0.value.presence == .present && $0.key != own ? $0.key : nil }
    }

    /// The other members, in the order of their identifiers.
    package var others: [SessionMember] {
        entries.values.filter { $0.presence == .present && $0.id != own }.sorted { $0.id < $1.id }
    }

    /// Somebody else, or ourselves; nil for who is not in it.
    package func member(_ id: PeerID) -> SessionMember? { entries[id].flatMap { $0.presence == .present ? $0 : nil } }

    /// How a member is reached.
    package func state(of id: PeerID) -> MemberState { states[id] ?? .notConnected }

    /// Nobody else may come in.
    package var isFull: Bool { others.count + 1 >= limits.members }

    // MARK: Joining and leaving

    /// Somebody has accepted our invitation, or we theirs.
    package mutating func admit(_ member: SessionMember, now: MonotonicInstant) {
        var member = member
        let before = entries[member.id]
        member.incarnation = before.map { $0.presence == .gone ? $0.incarnation &+ 1 : $0.incarnation } ?? member.incarnation
        member.presence = .present
        set(member, now: now)
    }

    /// A member tells what it knows. Only what is later than what is known here counts, and nobody but we tells of us.
    package mutating func receive(_ members: [SessionMember], now: MonotonicInstant) {
        for member in members {
            let known = entries[member.id]
            // Nobody comes and goes so often; counted up to its end, it could not go on.
            let latest = known?.incarnation ?? 0
            guard member.incarnation <= latest || member.incarnation - latest <= Self.incarnationLeap else { continue }
            guard member.id != own else {
                defendOurselves(member)
                continue
            }
            guard let known else {
                let isTaken = member.presence == .gone ? gone.count < maximumGoneCount : !isFull
                if isTaken { set(member, now: now) }
                continue
            }
            // The fingerprint was proven on a link, or will be; an id is only its beginning.
            guard member.fingerprint == known.fingerprint, Self.isLater(member, than: known) else { continue }
            if member.presence == .gone, known.presence == .present, state(of: member.id).isConnected {
                doubts[member.id] = doubts[member.id] ?? (member.incarnation, now)
            } else if member.presence == .gone || known.presence == .present || !isFull {
                set(member, now: now)
            }
        }
    }

    private var maximumGoneCount: Int { max(8, SessionFrame.maximumRosterCount - limits.members) }

    /// Whoever left has said so to us as well by now, or its link has broken: who is connected still is in the session, and one
    /// member can't talk others out of it.
    private mutating func settleDoubt(of id: PeerID, now: MonotonicInstant) {
        guard let doubt = doubts.removeValue(forKey: id), var member = member(id) else { return }
        if state(of: id).isConnected {
            member.incarnation = max(member.incarnation, doubt.incarnation &+ 1)
        } else {
            member.incarnation = max(member.incarnation, doubt.incarnation)
            member.presence = .gone
        }
        set(member, now: now)
    }

    /// Others believe that we are gone, or know an earlier life of ours that said other things: we say again that we are here.
    private mutating func defendOurselves(_ claim: SessionMember) {
        guard var mine = entries[own], mine.presence == .present else { return }
        guard claim.incarnation >= mine.incarnation, claim != mine else { return }
        // Told late, what we said before in this life is known to us.
        let isOld = claim.incarnation == mine.incarnation && claim.presence == .present && claim.revision < mine.revision
        guard !isOld else { return }
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
            gone.removeAll { $0 == member.id }
            states[member.id] = .notConnected
            missed[member.id] = now
            changes.append(.joined(member))
        case (.present, .gone):
            drop(member.id)
            remember(member.id)
        case (.gone, .gone) where before == nil: remember(member.id)
        default: break
        }
    }

    private mutating func remember(_ id: PeerID) {
        gone.append(id)
        guard gone.count > maximumGoneCount else { return }
        entries[gone.removeFirst()] = nil
    }

    private mutating func drop(_ id: PeerID) {
        states[id] = nil
        missed[id] = nil
        failures[id] = nil
        doubts[id] = nil
        approached.remove(id)
        changes.append(.left(id))
    }

    /// A member says that it leaves.
    package mutating func left(_ id: PeerID, now: MonotonicInstant) {
        guard id != own, var member = entries[id], member.presence == .present else { return }
        member.presence = .gone
        set(member, now: now)
    }

    // MARK: Links

    /// An approach begins.
    package mutating func connecting(_ id: PeerID) {
        guard member(id) != nil else { return }
        approached.insert(id)
        if !state(of: id).isConnected { setState(id, .connecting) }
    }

    /// - Parameter relay: nil for a link of our own.
    package mutating func connected(_ id: PeerID, via relay: PeerID?) {
        guard member(id) != nil else { return }
        missed[id] = nil
        approached.remove(id)
        // What failed before still tells when a link of our own is worth another try.
        if relay == nil { failures[id] = nil }
        setState(id, .connected(via: relay))
        tellNeighbours()
    }

    /// The last link to a member is gone.
    package mutating func disconnected(_ id: PeerID, now: MonotonicInstant) {
        guard member(id) != nil else { return }
        if missed[id] == nil { missed[id] = now }
        setState(id, .notConnected)
        settleDoubt(of: id, now: now)
        tellNeighbours()
    }

    /// An approach came to nothing; the next one waits longer.
    package mutating func failed(_ id: PeerID, now: MonotonicInstant) {
        approached.remove(id)
        guard member(id) != nil, state(of: id) != .connected(via: nil) else { return }
        let count = (failures[id]?.count ?? 0) + 1
        failures[id] = (count, now + Self.firstPause * (1 << min(count - 1, 5)))
        if !state(of: id).isConnected { setState(id, .notConnected) }
    }

    /// Our own addresses, as far as they are known.
    package mutating func setAddresses(_ addresses: [SessionMember.Address]) {
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
        let neighbours = states.filter { $0.value == .connected(via: nil) }.keys.sorted()
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
    package func approaches(now: MonotonicInstant) -> [Approach] {
        others.compactMap { member in
            guard !approached.contains(member.id), failures[member.id].map({ now >= $0.until }) ?? true else { return nil }
            let mayConnect = !member.addresses.isEmpty
            switch state(of: member.id) {
            case .connected(via: nil): return nil
            case .connected: return mayConnect && own < member.id ? .connect(member) : nil
            case .connecting, .notConnected:
                guard own < member.id || now >= secondChance(of: member.id) else { return nil }
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

    /// A member who says that they have a link to it and whom we reach, best over a link of our own. After each failure it is
    /// another one's turn, as who says so may lie, or carry nothing.
    private func relay(to member: SessionMember) -> PeerID? {
        let able = others.filter { $0.id != member.id && $0.neighbours.contains(member.id) && state(of: $0.id).isConnected }
        let direct = able.filter { state(of: $0.id) == .connected(via: nil) }
        let turn = (failures[member.id]?.count ?? 0) / 2
        let candidates = direct.isEmpty ? able : direct
        return candidates.isEmpty ? nil : candidates[turn % candidates.count].id
    }

    /// Members who are out of reach for too long are gone.
    package mutating func advance(to now: MonotonicInstant) {
        // In order, so that the same happens everywhere and again.
        let settled = doubts.filter { now - $0.value.since >= Self.doubtTime }.keys
        for id in settled.sorted() { settleDoubt(of: id, now: now) }
        let missing = missed.filter { now - $0.value >= limits.timeout }.keys
        for id in missing.sorted() { left(id, now: now) }
    }

    /// When ``advance(to:)`` or ``approaches(now:)`` have something new to say by time alone, after they were asked at `now`.
    package func deadline(after now: MonotonicInstant) -> MonotonicInstant? {
        let chances = missed.keys.filter { $0 < own && !approached.contains($0) && failures[$0] == nil }
        let times =
            missed.values.map { $0 + limits.timeout } + doubts.values.map { $0.since + Self.doubtTime }
            + chances.map { secondChance(of: $0) } + failures.filter { !approached.contains($0.key) }.values.map(\.until)
        // What was due already led to nothing; waiting for it would never end.
        return times.filter { $0 > now }.min()
    }

    private static let firstPause = Duration.milliseconds(500)
    private static let headStart = Duration.seconds(3)
    private static let doubtTime = Duration.seconds(2)
    /// By so much an incarnation may be ahead of the last that was heard of.
    private static let incarnationLeap: UInt32 = 1024
}
