package import NearshareBase

/// One decision of a node about a packet or a bundle.
package struct TraceEntry: Sendable, Hashable, Codable {
    package var time: WallTime
    /// The id in hexadecimal digits.
    package var id: String
    /// The type of the packet in hexadecimal digits, or "bundle".
    package var kind: String
    /// The sender of a packet; nil for a bundle, whose previous node is named in the decision.
    package var sender: PeerID?
    package var decision: String

    package init(time: WallTime, id: String, kind: String, sender: PeerID?, decision: String) {
        self.time = time
        self.id = id
        self.kind = kind
        self.sender = sender
        self.decision = decision
    }
}
