package import NearshareBase

/// The degree to which the neighbour at the other end of a link is known.
package enum LinkAuthentication: Sendable {
    /// A neighbour without an announcement.
    case silent
    /// A neighbour with an unproven announcement.
    case claimed
    /// A neighbour that has proven its key on the link.
    case proven(PeerID, isContact: Bool)

    package var isProven: Bool { if case .proven = self { true } else { false } }
}
