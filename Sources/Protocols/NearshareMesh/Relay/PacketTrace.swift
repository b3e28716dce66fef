package import NearshareBase

/// The latest decisions of a node about packets, for diagnosis. The oldest give way.
package struct PacketTrace: Sendable {
    package struct Entry: Sendable, Hashable {
        package var time: WallTime
        package var id: MeshPacketID
        package var type: MeshPacketType
        package var sender: PeerID
        package var decision: Decision
    }

    package enum Decision: Sendable, Hashable {
        case duplicate(on: MeshLinkID)
        /// A packet whose timestamp is too far from this node's clock.
        case outsideTimeWindow(on: MeshLinkID)
        /// A packet that is not authentic, malformed, or beyond a limit.
        case rejected(on: MeshLinkID)
        /// A packet that this node has processed.
        case handled(on: MeshLinkID, ttl: UInt8)
        /// A packet for another node, or of a kind or a sender that this one does not know.
        case unverified(on: MeshLinkID, ttl: UInt8)
        case relayed(linkCount: Int, ttl: UInt8)
        case notRelayed(Reason)
        /// A packet of this node.
        case sent(linkCount: Int)
        /// A packet sent to a neighbour that has asked for what it lacks.
        case sentOnRequest(on: MeshLinkID)
    }

    /// The reason why a packet is not relayed.
    package enum Reason: String, Sendable, Hashable {
        case turnedOff = "this node relays nothing"
        case spent = "its ttl is spent, or it is of a kind that is not relayed"
        case noOtherLink = "there is no other link"
        case full = "the queue is full"
        case overRate = "its link sends too much that cannot be checked"
    }

    private var entries: [Entry] = []
    /// The position of the oldest entry, once there are ``capacity``.
    private var oldest = 0

    package static let capacity = 2_048

    mutating func record(_ decision: Decision, _ packet: MeshPacket, id: MeshPacketID? = nil, at time: WallTime) {
        let entry = Entry(
            time: time, id: id ?? MeshPacketID(of: packet), type: packet.type, sender: packet.sender, decision: decision)
        if entries.count < Self.capacity {
            entries.append(entry)
        } else {
            entries[oldest] = entry
            oldest = (oldest + 1) % Self.capacity
        }
    }

    /// The oldest first.
    package var ordered: [Entry] { Array(entries[oldest...] + entries[..<oldest]) }
}

extension PacketTrace.Decision: CustomStringConvertible {
    package var description: String {
        switch self {
        case .duplicate(let link): "a copy came on link \(link.rawValue)"
        case .outsideTimeWindow(let link): "dropped, came on link \(link.rawValue): its time is too far from this clock"
        case .rejected(let link): "dropped, came on link \(link.rawValue): not authentic, malformed, or over a limit"
        case .handled(let link, let ttl): "received on link \(link.rawValue), ttl \(ttl)"
        case .unverified(let link, let ttl): "received for others on link \(link.rawValue), ttl \(ttl)"
        case .relayed(let count, let ttl): "relayed on \(count) \(count == 1 ? "link" : "links"), ttl \(ttl)"
        case .notRelayed(let reason): "not relayed: \(reason.rawValue)"
        case .sent(let count): "sent on \(count) \(count == 1 ? "link" : "links")"
        case .sentOnRequest(let link): "sent again on link \(link.rawValue), whose neighbour asked"
        }
    }
}
