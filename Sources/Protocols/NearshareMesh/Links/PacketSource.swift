/// The host towards which a packet, or an event that it causes, counts where hosts compete for room.
package enum PacketSource: Sendable, Hashable {
    /// Contacts of the user, and this node.
    case known
    case host(MeshLinkSource)
    /// Hosts that no open link tells apart, which count as one: a host that reconnects gets no second part.
    case gone
}
