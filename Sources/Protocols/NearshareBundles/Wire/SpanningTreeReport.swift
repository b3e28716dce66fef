package import NearshareBase

/// A node's position in the spanning tree.
package struct TreePosition: Sendable, Hashable {
    /// The lowest endpoint ID that is known.
    package var root: EndpointID
    /// Sequence number that the root increments, so that other nodes notice when it is gone. Wraps around.
    package var epoch: UInt32
    /// Hops to the root; ``detachedDistance`` while no path to it is known.
    package var distance: UInt16

    package static let detachedDistance = UInt16.max

    package init(root: EndpointID, epoch: UInt32, distance: UInt16) {
        self.root = root
        self.epoch = epoch
        self.distance = distance
    }

    var isDetached: Bool { distance == Self.detachedDistance }
}

/// A node's report about itself to a neighbour.
///
///     flags u8 · root 8 · epoch u32 · distance u16 · [token u64] · [salt u32 · share u8 · share count u8 · parameter u8 ·
///     range u32 · length u16 · filter] · [length u16 · reachability filter]
package struct SpanningTreeReport: Sendable, Hashable {
    package var position: TreePosition
    /// Whether the receiver is the sender's parent.
    package var isToParent: Bool
    /// Whether it answers a summary vector, and is not answered in turn.
    package var isAnswer: Bool
    /// Number that the receiver confirms with a receipt.
    package var token: UInt64?
    /// Nil when unchanged since the last report.
    package var summary: SummaryVector?
    /// Nil when unchanged since the last report.
    package var reachability: ReachabilityFilter?

    package init(
        position: TreePosition, isToParent: Bool, isAnswer: Bool = false, token: UInt64? = nil,
        summary: SummaryVector? = nil, reachability: ReachabilityFilter? = nil
    ) {
        self.position = position
        self.isToParent = isToParent
        self.isAnswer = isAnswer
        self.token = token
        self.summary = summary
        self.reachability = reachability
    }

    /// - Throws: for anything but one whole report within its bounds (section 13, Reports).
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "spanning tree report")
        let flags: UInt8 = try reader.readInteger()
        position = TreePosition(
            root: EndpointID(rawValue: try reader.readInteger()), epoch: try reader.readInteger(),
            distance: try reader.readInteger())
        isToParent = flags & Flag.toParent != 0
        isAnswer = flags & Flag.answer != 0
        token = flags & Flag.token == 0 ? nil : try reader.readInteger()
        summary = flags & Flag.summary == 0 ? nil : try SummaryVector(reading: &reader)
        reachability =
            flags & Flag.reachability == 0
            ? nil
            : try ReachabilityFilter(
                decoding: reader.readCounted(
                    by: UInt16.self, upTo: ReachabilityFilter.maximumByteCount, field: "the reachability filter"))
        // Later versions may append fields, which are skipped.
        _ = reader.readRemaining()
    }

    /// The bytes that are sent over a link.
    package var encoded: [UInt8] {
        var flags: UInt8 = isToParent ? Flag.toParent : 0
        if isAnswer { flags |= Flag.answer }
        if token != nil { flags |= Flag.token }
        if summary != nil { flags |= Flag.summary }
        if reachability != nil { flags |= Flag.reachability }
        var writer = ByteWriter(
            reserving: 32 + (summary?.filter.bytes.count ?? 0) + (reachability?.bytes.count ?? 0))
        writer.write(flags)
        writer.write(position.root.rawValue)
        writer.write(position.epoch)
        writer.write(position.distance)
        if let token { writer.write(token) }
        summary?.encode(to: &writer)
        if let reachability { writer.writeCounted(reachability.bytes, by: UInt16.self) }
        return writer.bytes
    }

    private enum Flag {
        static let toParent: UInt8 = 0x01
        static let summary: UInt8 = 0x02
        static let reachability: UInt8 = 0x04
        static let answer: UInt8 = 0x08
        static let token: UInt8 = 0x10
    }
}
