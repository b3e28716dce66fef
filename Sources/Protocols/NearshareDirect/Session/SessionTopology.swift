/// The choice of members between which a session keeps direct links. Every member reaches every other one in each topology.
public enum SessionTopology: Sendable, Hashable {
    /// Links between all members while there are at most 8. Beyond that, links to three of them, through which the others are
    /// reached, encrypted from end to end: the members with the most links.
    case automatic
    /// Links between all members. The number of links grows with the square of the number of members.
    case mesh

    /// Limit on the members that are all linked in ``automatic``.
    package static let maximumMeshCount = 8
    /// The number of members to which all others keep links, beyond ``maximumMeshCount``. One is lost without harm.
    static let hubCount = 3
}
