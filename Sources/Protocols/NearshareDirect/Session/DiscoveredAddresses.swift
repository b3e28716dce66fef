internal import NearshareBase

/// Addresses at which discovery or a link has found members, and peers that may become members, with the zones of this node.
struct DiscoveredAddresses: Sendable {
    private var addresses: [PeerID: [SessionMember.Address]] = [:]

    /// Limit on peers outside the session whose addresses are kept: names on the network are free.
    private static let maximumCount = 256

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

    /// A member with all addresses that may lead to it, the discovered ones first.
    func added(to member: SessionMember) -> SessionMember {
        guard let found = addresses[member.id] else { return member }
        var member = member
        member.addresses = found + member.addresses.filter { !found.contains($0) }
        return member
    }
}
