internal import NearshareBase

/// The frames that wait to be written to one link.
///
///     this node's urgent ► its normal ► relayed public packets with a valid signature ► fragments of this node, and the rest
///
/// Relayed frames are kept by the link on which they were received. The links take turns by bytes, and each has a share of the
/// memory of its own: what one neighbour sends delays or displaces nothing of this node, and nothing of other links (M10).
struct LinkOutbox: Sendable {
    enum Priority: Int, CaseIterable, Sendable {
        /// This node's handshakes, announcements and short sealed messages.
        case urgent
        /// Public packets, and this node's other short ones.
        case normal
        /// Fragments.
        case bulk

        /// - Parameter isRelayed: the packet is another node's. Then the public ones are ``normal``.
        init(of type: MeshPacketType, isRelayed: Bool) {
            switch type {
            case .fragment: self = .bulk
            case .announce, .leave: self = isRelayed ? .normal : .urgent
            case .noiseHandshake, .noiseEncrypted, .requestSync, .ping, .pong: self = .urgent
            case .bundle: self = isRelayed ? .urgent : .normal
            default: self = .normal
            }
        }
    }

    /// The origin of a frame.
    enum Origin: Sendable, Hashable {
        case own
        /// Another node's packet.
        /// - Parameter isAuthentic: this node has checked the signature of its sender.
        case relayed(from: MeshLinkID, isAuthentic: Bool)
    }

    private struct Queue: Sendable {
        private(set) var byteCount = 0
        private var frames: [[UInt8]] = []
        private var head = 0

        var isEmpty: Bool { byteCount == 0 }

        mutating func append(_ frame: [UInt8], limit: Int) -> Bool {
            let cost = frame.count + LinkOutbox.overhead
            guard byteCount + cost <= limit else { return false }
            byteCount += cost
            frames.append(frame)
            return true
        }

        mutating func removeFirst() -> [UInt8]? {
            guard head < frames.count else { return nil }
            let frame = frames[head]
            frames[head] = []
            head += 1
            byteCount -= frame.count + LinkOutbox.overhead
            // Compacting once in a while costs less than moving the rest each time.
            if head == frames.count || (head > 1024 && head * 2 > frames.count) {
                frames.removeFirst(head)
                head = 0
            }
            return frame
        }
    }

    /// The frames of one source that takes turns with others.
    private struct Flow: Sendable {
        /// Public packets with a valid signature, whose rate is limited on arrival.
        var announced = Queue()
        /// Packets for one peer with a valid signature.
        var authentic = Queue()
        /// Fragments, and packets whose sender is not known.
        var other = Queue()
        /// Bytes of ``authentic`` and ``other`` that were written, on the scale of all flows (start-time fair queueing).
        var served = 0

        var byteCount: Int { announced.byteCount + authentic.byteCount + other.byteCount }
        var hasShared: Bool { !authentic.isEmpty || !other.isEmpty }
    }

    /// The sources that take turns.
    private enum Source: Hashable {
        /// The fragments of this node.
        case own
        case link(MeshLinkID)
    }

    private var urgent = Queue()
    private var normal = Queue()
    private var flows: [Source: Flow] = [:]
    /// ``Flow/served`` of the flow that was served last.
    private var served = 0
    /// Memory of all waiting frames.
    private(set) var byteCount = 0

    var isEmpty: Bool { byteCount == 0 }

    /// Size of the waiting fragments of this node; while it is large, this node adds none.
    var bulkByteCount: Int { flows[.own]?.other.byteCount ?? 0 }

    /// - Returns: false when there was no room: the frame is lost, as on a radio link.
    @discardableResult
    mutating func append(_ frame: [UInt8], priority: Priority, origin: Origin = .own) -> Bool {
        let isAppended =
            switch (origin, priority) {
            case (.own, .urgent): urgent.append(frame, limit: Self.ownCapacity)
            case (.own, .normal): normal.append(frame, limit: Self.ownCapacity)
            case (.own, .bulk): append(frame, to: .own, \.other, limit: Self.ownCapacity)
            case (.relayed(let link, true), .normal): append(frame, to: .link(link), \.announced, limit: Self.relayedCapacity)
            case (.relayed(let link, true), .urgent): append(frame, to: .link(link), \.authentic, limit: Self.relayedCapacity)
            case (.relayed(let link, _), _): append(frame, to: .link(link), \.other, limit: Self.relayedCapacity)
            }
        if isAppended { byteCount += frame.count + Self.overhead }
        return isAppended
    }

    private mutating func append(
        _ frame: [UInt8], to source: Source, _ queue: WritableKeyPath<Flow, Queue>, limit: Int
    ) -> Bool {
        var flow = flows.removeValue(forKey: source) ?? Flow()
        // A flow that was idle has saved up nothing.
        if !flow.hasShared { flow.served = max(flow.served, served) }
        defer { flows[source] = flow }
        return flow[keyPath: queue].append(frame, limit: limit)
    }

    mutating func removeFirst() -> [UInt8]? {
        guard let frame = urgent.removeFirst() ?? normal.removeFirst() ?? removeAnnounced() ?? removeShared() else {
            return nil
        }
        byteCount -= frame.count + Self.overhead
        return frame
    }

    private mutating func removeAnnounced() -> [UInt8]? {
        // The smallest queue first: the link that sends most waits.
        let candidates = flows.filter { !$0.value.announced.isEmpty }
        guard let source = candidates.min(by: { $0.value.announced.byteCount < $1.value.announced.byteCount })?.key else {
            return nil
        }
        defer { removeIfEmpty(source) }
        return flows[source]?.announced.removeFirst()
    }

    private mutating func removeShared() -> [UInt8]? {
        let candidates = flows.filter { $0.value.hasShared }
        guard let source = candidates.min(by: { $0.value.served < $1.value.served })?.key,
            let frame = flows[source]?.authentic.removeFirst() ?? flows[source]?.other.removeFirst()
        else { return nil }
        served = flows[source]?.served ?? served
        flows[source]?.served = served &+ frame.count + Self.overhead
        defer { removeIfEmpty(source) }
        return frame
    }

    /// Forgets a flow without frames, unless it was served ahead of the others.
    private mutating func removeIfEmpty(_ source: Source) {
        guard let flow = flows[source], flow.byteCount == 0 else { return }
        if flow.served <= served || flows.count > Self.maximumFlowCount { flows[source] = nil }
    }

    /// Limit on the bytes of each priority of this node.
    private static let ownCapacity = 1 << 20
    /// Limit on the bytes of each class that came over one link.
    private static let relayedCapacity = 256 << 10
    /// Flows that are remembered while they are empty; more than there are links.
    private static let maximumFlowCount = 32
    /// Memory for a frame besides its bytes, so that many small ones are bounded too.
    fileprivate static let overhead = 64
}
