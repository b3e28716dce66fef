internal import NearshareBase

/// Addresses at which discovery or a link has found members, and peers that may become members, with this machine's zones
/// (RFC 4007) in link-local ones.
struct DiscoveredAddresses: Sendable {
    private var addresses: [PeerID: [SessionMember.Address]] = [:]

    /// Limit on peers whose addresses are kept, beyond which only those of members are added: a machine can announce any number
    /// of peers.
    static let maximumCount = 256

    /// The number of peers whose addresses are kept.
    var count: Int { addresses.count }

    func contains(_ id: PeerID) -> Bool { addresses[id] != nil }

    /// Sets the addresses of a peer; empty for one that is not seen any more.
    /// - Parameter isMember: members are kept beyond the limit.
    /// - Returns: whether they differ from those before, and were kept.
    mutating func set(_ new: [SessionMember.Address], of id: PeerID, isMember: Bool) -> Bool {
        let new = Array(new.prefix(SessionMember.maximumAddressCount))
        guard addresses[id] ?? [] != new else { return false }
        guard isMember || addresses[id] != nil || addresses.count < Self.maximumCount else { return false }
        addresses[id] = new.isEmpty ? nil : new
        return true
    }

    /// Drops the addresses of a peer that was a member, where they were kept beyond the limit.
    mutating func removeExcess(ofFormerMember id: PeerID) {
        if addresses.count > Self.maximumCount { addresses[id] = nil }
    }

    /// A member with all addresses that may lead to it, the discovered ones first.
    func merged(into member: SessionMember) -> SessionMember {
        guard let found = addresses[member.id] else { return member }
        var member = member
        member.addresses = found + member.addresses.filter { !found.contains($0) }
        return member
    }
}
