/// The links that this node has opened for a session, and its invitations without an answer.
struct OutgoingSessionLinks {
    typealias Link = (driver: LinkDriver, outgoingLink: OutgoingSessionLink)

    private var pendingInvitationCount = 0
    private var links: [ObjectIdentifier: Link] = [:]

    /// Reserves a slot for an invited peer.
    /// - Parameter memberCount: members besides this node.
    /// - Returns: false when the members and the invitations reach the limit.
    mutating func reserveInvitation(memberCount: Int, limit: Int) -> Bool {
        guard memberCount + pendingInvitationCount + 1 < limit else { return false }
        pendingInvitationCount += 1
        return true
    }

    /// Releases the slot of an invitation that was answered or has failed.
    mutating func releaseInvitation() { pendingInvitationCount -= 1 }

    mutating func insert(_ driver: LinkDriver, _ outgoingLink: OutgoingSessionLink) {
        links[ObjectIdentifier(driver)] = (driver, outgoingLink)
    }

    mutating func remove(_ driver: LinkDriver) { links[ObjectIdentifier(driver)] = nil }

    mutating func removeAll() -> [Link] {
        defer { links = [:] }
        return Array(links.values)
    }
}
