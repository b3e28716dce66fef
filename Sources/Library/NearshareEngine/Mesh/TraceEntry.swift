package import NearshareBase

/// One decision of a node about a packet or a bundle.
package struct TraceEntry: Sendable, Hashable, Codable {
    /// The thing that a node decides about.
    package enum Subject: Sendable, Hashable {
        /// - Parameter type: of the packet, also one that this node does not know.
        case packet(type: UInt8)
        case bundle
    }

    /// A sentence about a decision, worded by the node that made it. For display only: a node of another version may decide what
    /// this one does not know.
    package struct Decision: RawRepresentable, Sendable, Hashable, Codable {
        package let rawValue: String

        package init(rawValue: String) {
            self.rawValue = rawValue
        }
    }

    package var time: WallTime
    /// The id in hexadecimal digits.
    package var id: String
    package var subject: Subject
    /// The sender of a packet; nil for a bundle, whose previous node is named in the decision.
    package var sender: PeerID?
    package var decision: Decision

    /// The transmitted keys.
    private enum CodingKeys: String, CodingKey {
        case time, id, sender, decision
        case subject = "kind"
    }

    package init(time: WallTime, id: String, subject: Subject, sender: PeerID?, decision: Decision) {
        self.time = time
        self.id = id
        self.subject = subject
        self.sender = sender
        self.decision = decision
    }
}

/// Transmitted as its text.
extension TraceEntry.Subject: RawRepresentable, Codable {
    private static let bundleText = "bundle"

    /// The transmitted form: the type of the packet in two hexadecimal digits, or "bundle".
    package var rawValue: String {
        switch self {
        case .packet(let type): Hex.encode([type])
        case .bundle: Self.bundleText
        }
    }

    package init?(rawValue text: String) {
        if text == Self.bundleText {
            self = .bundle
        } else if let bytes = Hex.decode(text), bytes.count == 1 {
            self = .packet(type: bytes[0])
        } else {
            return nil
        }
    }
}
