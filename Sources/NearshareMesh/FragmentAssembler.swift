public import NearshareBase
public import NearshareWire

/// Puts packets together from their fragments, within bounds of count, bytes and age, for each sender and in all
/// (bitchat specification, section 6.3; M4).
public struct FragmentAssembler: Sendable {
    public struct Limits: Sendable, Hashable {
        public var sets = 128
        public var setsPerSender = 8
        public var bytes = 24 << 20
        public var bytesPerSender = 12 << 20
        /// For packets that can't hold a file.
        public var bytesPerSet = 1_048_576
        /// For files and what is sealed.
        public var bytesPerFileSet = MeshPacket.maximumPayloadByteCount
        /// A set to which nothing came for so long is dropped.
        public var idle = Duration.seconds(30)
        /// A set older than this is dropped, however busy.
        public var lifetime = Duration.seconds(900)

        public init() {}

        func byteLimit(for type: MeshPacketType) -> Int {
            type == .fileTransfer || type == .noiseEncrypted ? bytesPerFileSet : bytesPerSet
        }
    }

    public enum Outcome: Sendable, Hashable {
        /// The first of its set.
        case started
        case stored
        /// The frame, as it was cut up.
        case complete([UInt8])
        /// The set would be larger than any packet may be, and was dropped.
        case oversized
    }

    /// How far a set is.
    public struct Progress: Sendable, Hashable {
        public var sender: PeerID
        public var id: MeshFragment.ID
        public var received: Int
        public var total: Int
        /// When the last piece came.
        public var changed: MonotonicInstant
    }

    private struct Key: Hashable {
        var sender: PeerID
        var id: MeshFragment.ID
    }

    private struct Assembly {
        var pieces: [Int: [UInt8]] = [:]
        var byteCount = 0
        var total: Int
        var type: MeshPacketType
        let started: MonotonicInstant
        var changed: MonotonicInstant

        /// With what the table of pieces takes.
        var cost: Int { byteCount + pieces.count * 48 }
    }

    private var assemblies: [Key: Assembly] = [:]
    private let limits: Limits

    public init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Bytes held in all, with what the bookkeeping takes.
    public var byteCount: Int { assemblies.values.reduce(0) { $0 + $1.cost } }
    public var count: Int { assemblies.count }

    /// - Parameter sender: as the fragment's packet claims; sets of several senders are never mixed.
    public mutating func add(_ fragment: MeshFragment, from sender: PeerID, now: MonotonicInstant) -> Outcome {
        expire(now: now)
        let key = Key(sender: sender, id: fragment.id)
        let isNew = assemblies[key] == nil
        // Taken out while it is changed, so that its table is not copied.
        var assembly =
            assemblies.removeValue(forKey: key)
            ?? Assembly(total: fragment.total, type: fragment.originalType, started: now, changed: now)
        // The latest header counts, as on iOS.
        assembly.total = fragment.total
        assembly.changed = now
        assembly.byteCount += fragment.slice.count - (assembly.pieces[fragment.index]?.count ?? 0)
        assembly.pieces[fragment.index] = Array(fragment.slice)
        guard assembly.byteCount <= limits.byteLimit(for: assembly.type) else { return .oversized }
        if assembly.pieces.count >= assembly.total, (0..<assembly.total).allSatisfy({ assembly.pieces[$0] != nil }) {
            var frame: [UInt8] = []
            frame.reserveCapacity(assembly.byteCount)
            for index in 0..<assembly.total { frame += assembly.pieces.removeValue(forKey: index)! }
            return .complete(frame)
        }
        makeRoom(for: assembly, key)
        assemblies[key] = assembly
        return isNew ? .started : .stored
    }

    public func progress(of id: MeshFragment.ID, from sender: PeerID) -> Progress? {
        assemblies[Key(sender: sender, id: id)].map {
            Progress(sender: sender, id: id, received: $0.pieces.count, total: $0.total, changed: $0.changed)
        }
    }

    /// The first of the pieces that are not there, at most `limit`; nil for a set that is not known.
    public func missing(of id: MeshFragment.ID, from sender: PeerID, limit: Int) -> [Int]? {
        assemblies[Key(sender: sender, id: id)].map { assembly in
            Array((0..<assembly.total).lazy.filter { assembly.pieces[$0] == nil }.prefix(limit))
        }
    }

    public mutating func drop(_ id: MeshFragment.ID, from sender: PeerID) {
        assemblies[Key(sender: sender, id: id)] = nil
    }

    private mutating func expire(now: MonotonicInstant) {
        guard assemblies.values.contains(where: { isExpired($0, now) }) else { return }
        assemblies = assemblies.filter { !isExpired($0.value, now) }
    }

    private func isExpired(_ assembly: Assembly, _ now: MonotonicInstant) -> Bool {
        now - assembly.changed >= limits.idle || now - assembly.started >= limits.lifetime
    }

    /// Drops what has waited longest for its next piece: first of the sender's own, then of all. Whoever starts many sets
    /// loses their own, and sets that are coming in stay.
    private mutating func makeRoom(for assembly: Assembly, _ key: Key) {
        var own = assemblies.filter { $0.key.sender == key.sender }
        while !own.isEmpty,
            own.count >= limits.setsPerSender
                || own.values.reduce(assembly.cost, { $0 + $1.cost }) > limits.bytesPerSender
        {
            let oldest = Self.oldest(own)
            own[oldest] = nil
            assemblies[oldest] = nil
        }
        while !assemblies.isEmpty, assemblies.count >= limits.sets || byteCount + assembly.cost > limits.bytes {
            assemblies[Self.oldest(assemblies)] = nil
        }
    }

    private static func oldest(_ assemblies: [Key: Assembly]) -> Key {
        assemblies.min { $0.value.changed < $1.value.changed }!.key
    }
}

extension MeshFrame {
    /// Decodes a frame that was put together, also where an Android sender has lost its tail: it takes bytes at the end for
    /// padding that are none, 1 to 16 of them, all with the value of their number (section 6.4). The signature decides.
    public init(decodingAssembled frame: [UInt8]) throws(MalformedInput) {
        do {
            self = try MeshFrame(decoding: frame[...])
        } catch {
            for count in 1...16 {
                let mended = frame + [UInt8](repeating: UInt8(count), count: count)
                if let whole = try? MeshFrame(decoding: mended[...]), whole.bytes.count == mended.count {
                    self = whole
                    return
                }
            }
            throw error
        }
    }
}
