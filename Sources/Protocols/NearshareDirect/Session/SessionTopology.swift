/// The choice of members between which a session keeps direct links. Every member reaches every other one in each topology.
public enum SessionTopology: Sendable, Hashable {
    /// Links between all members while there are at most 8. Beyond that, links to the three members with the most links,
    /// which relay for the others, encrypted from end to end.
    case automatic
    /// Links between all members: a full mesh of the session, not the mesh of phones. The number of links grows with the square of
    /// the number of members.
    case mesh

    /// Limit on the members that are all linked in ``automatic``.
    package static let maximumMeshCount = 8
    /// The number of members to which all others keep links, beyond ``maximumMeshCount``. The session survives the loss of one.
    static let hubCount = 3
}
