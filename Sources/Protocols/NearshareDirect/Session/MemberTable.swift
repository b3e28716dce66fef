internal import NearshareBase

/// The entries of a roster, this member's own included, with the rules by which entries of other members are merged. The rules
/// are commutative, so that all members converge to the same table.
struct MemberTable: Sendable {
    /// The decision about another member's entry.
    enum MergeDecision {
        /// The entry is older than the known one, or not acceptable.
        case ignored
        /// The entry is newer.
        case newer
        /// The entry claims something about this member that is not true any more.
        case aboutOwn
    }

    /// This member's own entry.
    private(set) var ownEntry: SessionMember
    private let maximumMemberCount: Int
    /// The entries of other members.
    private var entries: [PeerID: SessionMember] = [:]
    /// The ids of the other members, in ascending order.
    private(set) var otherIDs: [PeerID] = []
    /// Present peers for which there was no room, with the time of their arrival. They are passed on like members: others may have
    /// added them in place of the latest members here.
    private(set) var waiting: [PeerID: MonotonicInstant] = [:]
    /// Members that are gone, in the order of departure. They are remembered so that late entries do not bring them back.
    private var gone: [PeerID] = []
    /// The entries that have changed since ``drainUpdates(for:)``, each with the members that know it already.
    private var changed: [PeerID: Set<PeerID>] = [:]
    private var urgent: Set<PeerID> = []

    init(own: SessionMember, maximumMemberCount: Int) {
        ownEntry = own
        self.maximumMemberCount = maximumMemberCount
    }

    // MARK: Reading

    /// The id of this member.
    var own: PeerID { ownEntry.id }

    private func entry(_ id: PeerID) -> SessionMember? { id == own ? ownEntry : entries[id] }

    /// All entries, present members first, each group by id.
    var all: [SessionMember] {
        (entries.values + [ownEntry]).sorted { ($0.presence.rawValue, $0.id) < ($1.presence.rawValue, $1.id) }
            .prefix(SessionFrame.maximumRosterCount).map { $0 }
    }

    /// The other members, by id.
    var others: [SessionMember] { otherIDs.compactMap { entries[$0] } }

    /// A present member; nil for one that is gone or unknown, and for one that waits for room.
    func member(_ id: PeerID) -> SessionMember? {
        waiting[id] == nil ? presentEntry(id) : nil
    }

    /// A present member, or a peer that waits for room.
    func presentEntry(_ id: PeerID) -> SessionMember? { entry(id).flatMap { $0.presence == .present ? $0 : nil } }

    /// The ids of all present peers besides this one.
    var presentIDs: [PeerID] { otherIDs + waiting.keys }

    /// The incarnation of a new entry for a peer that is admitted.
    func nextIncarnation(of member: SessionMember) -> UInt32 {
        entry(member.id).map { $0.presence == .gone ? $0.incarnation &+ 1 : $0.incarnation } ?? member.incarnation
    }

    var isFull: Bool { otherIDs.count + 1 >= maximumMemberCount }

    // MARK: Updates of other members

    /// Whether entries have changed that must not wait.
    var hasUrgentUpdates: Bool { !urgent.isEmpty }

    /// Records that a changed entry must not wait: the member connects to others, who have to know it.
    mutating func markUrgent(_ id: PeerID) { if changed[id] != nil { urgent.insert(id) } }

    /// Whether entries have changed since ``drainUpdates(for:)``.
    var hasUpdates: Bool { !changed.isEmpty }

    /// Returns the entries that have changed since the last call, for each member that needs to be sent some. A member needs no
    /// entry that it has sent itself, and none whose owner it has a direct link to: the owner sends that one.
    /// - Parameter isUrgent: only the entries that must not wait; the others stay changed.
    mutating func drainUpdates(
        for neighbours: [PeerID], isUrgent: Bool = false
    ) -> [(member: PeerID, entries: [SessionMember])] {
        let ids = changed.keys.filter { !isUrgent || urgent.contains($0) }
        defer {
            for id in ids { changed[id] = nil }
            urgent = []
        }
        let changedEntries = ids.sorted().compactMap { entry($0) }
        return neighbours.compactMap { neighbour in
            let needed = changedEntries.filter { entry in
                if changed[entry.id]?.contains(neighbour) == true { return false }
                return entry.id == own || entry.presence == .gone || !entry.neighbours.contains(neighbour)
            }
            return needed.isEmpty ? nil : (neighbour, needed)
        }
    }

    /// Marks all entries as changed: some member may have rejected an entry that it would store now.
    mutating func markAllChanged() { for id in entries.keys + [own] { changed[id] = [] } }

    /// Records that a member knows the current state of an entry.
    mutating func recordKnowledge(of id: PeerID, by member: PeerID) {
        guard changed[id] != nil else { return }
        changed[id]?.insert(member)
    }

    /// Whether a member's claim equals the known entry.
    func isKnown(_ member: SessionMember) -> Bool { entry(member.id) == member }

    // MARK: Merging

    /// Compares another member's entry with the known one.
    func classify(_ member: SessionMember) -> MergeDecision {
        let known = entry(member.id)
        // An incarnation far ahead is rejected: counted up to its end, it could never be refuted.
        let latest = known?.incarnation ?? 0
        guard UInt64(member.incarnation) <= UInt64(latest).addingClamped(UInt64(Self.maximumIncarnationStep)) else {
            return .ignored
        }
        guard member.id != own else { return .aboutOwn }
        guard let known else {
            let isAcceptable = member.presence == .gone ? gone.count < maximumGoneCount : hasRoomToWait
            return isAcceptable ? .newer : .ignored
        }
        // The fingerprint is authenticated on a link; the id is only its prefix.
        guard member.fingerprint == known.fingerprint, Self.isNewer(member, than: known) else { return .ignored }
        let returns = known.presence == .gone && member.presence == .present
        return returns && !hasRoomToWait ? .ignored : .newer
    }

    /// Whether there is room for another present peer, as a member or to wait.
    private var hasRoomToWait: Bool { !isFull || waiting.count < Self.maximumWaitingCount }

    private static func isNewer(_ new: SessionMember, than old: SessionMember) -> Bool {
        if new.incarnation != old.incarnation { return new.incarnation > old.incarnation }
        if new.presence != old.presence { return new.presence == .gone }
        return new.revision > old.revision
    }

    private var maximumGoneCount: Int { max(8, SessionFrame.maximumRosterCount - maximumMemberCount) }

    /// Stores another member's entry.
    /// - Returns: the changes of presence: that of the member, and that of a peer for which there is room now.
    mutating func store(_ member: SessionMember, now: MonotonicInstant) -> [SessionChange] {
        let before = entries[member.id]
        guard member.id != own, before != member else { return [] }
        entries[member.id] = member
        changed[member.id] = []
        switch (before?.presence ?? .gone, member.presence) {
        case (.gone, .present):
            gone.removeAll { $0 == member.id }
            guard !isFull else {
                waiting[member.id] = now
                return []
            }
            insert(member.id)
            return [.joined(member)]
        case (.present, .gone):
            recordDeparture(member.id)
            if waiting.removeValue(forKey: member.id) != nil { return [] }
            otherIDs.removeAll { $0 == member.id }
            let first = waiting.min { ($0.value, $0.key) < ($1.value, $1.key) }
            guard let next = first.flatMap({ entries[$0.key] }) else { return [.left(member.id)] }
            waiting[next.id] = nil
            insert(next.id)
            return [.left(member.id), .joined(next)]
        case (.gone, .gone) where before == nil: recordDeparture(member.id)
        default: break
        }
        return []
    }

    /// Forgets the peers that have waited for a while, and to which no member has a link: they have stepped back, or are in another
    /// group.
    mutating func forgetWaiting(now: MonotonicInstant) {
        let neighbours = Set(others.flatMap(\.neighbours))
        for (id, arrival) in waiting where now - arrival >= Self.waitingTimeout && !neighbours.contains(id) {
            waiting[id] = nil
            entries[id] = nil
            changed[id] = nil
        }
    }

    /// The next time at which ``forgetWaiting(now:)`` has an effect.
    var waitingDeadline: MonotonicInstant? { waiting.values.min().map { $0 + Self.waitingTimeout } }

    private mutating func insert(_ id: PeerID) {
        otherIDs.insert(id, at: otherIDs.firstIndex { id < $0 } ?? otherIDs.count)
    }

    private mutating func recordDeparture(_ id: PeerID) {
        gone.append(id)
        guard gone.count > maximumGoneCount else { return }
        let forgotten = gone.removeFirst()
        entries[forgotten] = nil
        changed[forgotten] = nil
    }

    // MARK: The own entry

    /// Refutes a claim about this member by a higher incarnation, unless the claim is its own earlier announcement.
    mutating func refute(_ claim: SessionMember) {
        guard claim.incarnation >= ownEntry.incarnation, claim != ownEntry else { return }
        let isEarlierAnnouncement =
            claim.incarnation == ownEntry.incarnation && claim.presence == .present && claim.revision < ownEntry.revision
        guard !isEarlierAnnouncement else { return }
        ownEntry.incarnation = claim.incarnation &+ 1
        changed[own] = []
    }

    /// Announces this member's addresses, when they have changed.
    mutating func setOwnAddresses(_ addresses: [SessionMember.Address]) { setOwn(\.addresses, to: addresses) }

    /// Announces this member's neighbours, when they have changed.
    mutating func setOwnNeighbours(_ neighbours: [PeerID]) { setOwn(\.neighbours, to: neighbours) }

    private mutating func setOwn<Value: Equatable>(_ property: WritableKeyPath<SessionMember, Value>, to value: Value) {
        guard ownEntry[keyPath: property] != value else { return }
        ownEntry[keyPath: property] = value
        // Wraps: after 2^32 changes other members no longer believe them.
        ownEntry.revision &+= 1
        changed[own] = []
    }

    /// Limit on peers that wait for room: a session of the default size may have twice its members for a moment.
    private static let maximumWaitingCount = 8
    private static let waitingTimeout = Duration.seconds(10)
    /// Limit on the step from the known incarnation to a claimed one.
    private static let maximumIncarnationStep: UInt32 = 1024
}
