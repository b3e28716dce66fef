package import NearshareBase

/// The payload of a packet of type ``MeshPacketType/carry``: kind u8 · body.
package enum BundlePacket: Sendable, Hashable {
    /// A message that is handed on.
    case copy(BundleCopy)
    /// What a node has, and whom it reaches.
    case report(SpanningTreeReport)
    /// These have come and are kept: the first 8 bytes of the ids of messages, and tokens of reports. At most ``maximumReceiptCount``.
    case receipt([UInt64])

    /// Ids in one receipt.
    package static let maximumReceiptCount = 64
    /// A report with the longest filter and the longest reach.
    package static let maximumByteCount = 64 + GolombFilter.maximumByteCount + ReachabilityFilter.maximumByteCount

    /// - Throws: for anything but one whole packet of a known kind (section 13).
    package init(decoding payload: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(payload, of: "carry packet")
        let kind: UInt8 = try reader.readInteger()
        switch kind {
        case Kind.copy: self = .copy(try BundleCopy(decoding: reader.readRemaining()))
        case Kind.report: self = .report(try SpanningTreeReport(decoding: reader.readRemaining()))
        case Kind.receipt:
            let count = Int(try reader.readInteger(UInt8.self))
            guard (1...Self.maximumReceiptCount).contains(count) else {
                throw MalformedInput("carry packet: a receipt for \(count) messages")
            }
            var ids: [UInt64] = []
            for _ in 0..<count { ids.append(try reader.readInteger()) }
            try reader.finish()
            self = .receipt(ids)
        default: throw MalformedInput("carry packet: an unknown kind")
        }
    }

    /// As it goes over a link.
    package var encoded: [UInt8] {
        switch self {
        case .copy(let copy): return [Kind.copy] + copy.encoded
        case .report(let report): return [Kind.report] + report.encoded
        case .receipt(let ids):
            precondition((1...Self.maximumReceiptCount).contains(ids.count))
            var writer = ByteWriter(reserving: 2 + 8 * ids.count)
            writer.write(Kind.receipt)
            writer.write(UInt8(ids.count))
            for id in ids { writer.write(id) }
            return writer.bytes
        }
    }

    private enum Kind {
        static let copy: UInt8 = 1
        static let report: UInt8 = 2
        static let receipt: UInt8 = 3
    }
}

/// What a carrier tells a neighbour of itself: its place in the tree, whom it reaches below it, and what it has.
///
///     flags u8 · root 8 · round u32 · distance u16 · [token u64] · [salt u32 · share u8 · share count u8 · parameter u8 ·
///     range u32 · length u16 · filter] · [length u16 · reach]
package struct SpanningTreeReport: Sendable, Hashable {
    /// A place in the tree that neighbours agree on.
    package struct Place: Sendable, Hashable {
        /// Who stands at the top: the lowest address that is heard of.
        package var root: EndpointID
        /// Counted up by the root, so that others notice when it is gone.
        package var round: UInt32
        /// Hops from the root. ``detached``: the way to it is lost for now.
        package var distance: UInt16

        /// The distance of who has lost the way to the root.
        package static let detached = UInt16.max

        /// Where a node stands in its tree.
        package init(root: EndpointID, round: UInt32, distance: UInt16) {
            self.root = root
            self.round = round
            self.distance = distance
        }
    }

    /// Where its sender stands.
    package var place: Place
    /// The neighbour who reads this is the sender's parent.
    package var isToParent: Bool
    /// Said because a summary had what the sender lacks; it is not answered in turn.
    package var isAnswer: Bool
    /// To be confirmed by a receipt for it, as a message is.
    package var token: UInt64?
    /// nil: as it was told last.
    package var summary: SummaryVector?
    /// nil: as it was told last.
    package var reach: ReachabilityFilter?

    /// What one node tells another about itself.
    package init(
        place: Place, isToParent: Bool, isAnswer: Bool = false, token: UInt64? = nil, summary: SummaryVector? = nil,
        reach: ReachabilityFilter? = nil
    ) {
        self.place = place
        self.isToParent = isToParent
        self.isAnswer = isAnswer
        self.token = token
        self.summary = summary
        self.reach = reach
    }

    /// - Throws: for anything but one whole report, within its bounds (section 13, Reports).
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "carry report")
        let flags: UInt8 = try reader.readInteger()
        place = Place(
            root: EndpointID(rawValue: try reader.readInteger()), round: try reader.readInteger(),
            distance: try reader.readInteger())
        isToParent = flags & Flag.toParent != 0
        isAnswer = flags & Flag.answer != 0
        token = flags & Flag.token == 0 ? nil : try reader.readInteger()
        summary = nil
        reach = nil
        if flags & Flag.summary != 0 {
            let salt: UInt32 = try reader.readInteger()
            let share: UInt8 = try reader.readInteger()
            let shareCount: UInt8 = try reader.readInteger()
            guard share < shareCount else { throw MalformedInput("carry report: a share out of bounds") }
            let parameter = Int(try reader.readInteger(UInt8.self))
            let range: UInt32 = try reader.readInteger()
            let filter = try reader.readCounted(by: UInt16.self, upTo: GolombFilter.maximumByteCount, field: "the filter")
            summary = SummaryVector(
                salt: salt, share: share, shareCount: shareCount,
                filter: try GolombFilter(parameter: parameter, range: range, bytes: Array(filter)))
        }
        if flags & Flag.reach != 0 {
            reach = try ReachabilityFilter(
                decoding: try reader.readCounted(by: UInt16.self, upTo: ReachabilityFilter.maximumByteCount, field: "the reach")
            )
        }
        // What later versions add is skipped.
        _ = reader.readRemaining()
    }

    /// As it goes over a link.
    package var encoded: [UInt8] {
        var flags: UInt8 = isToParent ? Flag.toParent : 0
        if isAnswer { flags |= Flag.answer }
        if token != nil { flags |= Flag.token }
        if summary != nil { flags |= Flag.summary }
        if reach != nil { flags |= Flag.reach }
        var writer = ByteWriter(reserving: 32 + (summary?.filter.bytes.count ?? 0) + (reach?.bytes.count ?? 0))
        writer.write(flags)
        writer.write(place.root.rawValue)
        writer.write(place.round)
        writer.write(place.distance)
        if let token { writer.write(token) }
        if let summary {
            writer.write(summary.salt)
            writer.write(summary.share)
            writer.write(summary.shareCount)
            writer.write(UInt8(summary.filter.parameter))
            writer.write(summary.filter.range)
            writer.writeCounted(summary.filter.bytes, by: UInt16.self)
        }
        if let reach { writer.writeCounted(reach.bytes, by: UInt16.self) }
        return writer.bytes
    }

    private enum Flag {
        static let toParent: UInt8 = 0x01
        static let summary: UInt8 = 0x02
        static let reach: UInt8 = 0x04
        static let answer: UInt8 = 0x08
        static let token: UInt8 = 0x10
    }
}

/// The messages that a carrier has, or knows to be done with, as a filter. When they are too many for one, each summary is of a share
/// of all ids, in turn.
package struct SummaryVector: Sendable, Hashable {
    /// Drawn anew with each summary, so that a message that is taken for a member once isn't the next time, and nobody can make
    /// ids that stand for others'.
    package var salt: UInt32
    /// Which ids it is about: those whose first 8 bytes, as a number, leave this remainder when divided by ``shareCount``.
    package var share: UInt8
    /// How many shares all ids are told in; at least 1.
    package var shareCount: UInt8
    /// The ids of this share; it takes one in 2^10 others for members.
    package var filter: GolombFilter

    /// One false member in 2^10.
    package static let parameter = 10
    /// Ids of one share, so that they fit with room to spare.
    package static let idsInShare = 512

    init(salt: UInt32, share: UInt8, shareCount: UInt8, filter: GolombFilter) {
        self.salt = salt
        self.share = share
        self.shareCount = shareCount
        self.filter = filter
    }

    /// - Parameters:
    ///   - ids: all of them, the newest last; the oldest are left out where a share does not fit.
    ///   - turn: which summary this is; its share follows from it.
    package init(of ids: [BundleID], turn: Int, salt: UInt32) {
        self.salt = salt
        shareCount = UInt8(clamping: (ids.count + Self.idsInShare - 1) / Self.idsInShare + (ids.isEmpty ? 1 : 0))
        share = UInt8(turn % Int(shareCount))
        let (share, shareCount) = (share, shareCount)
        let shared = ids.reversed().lazy.filter { Self.isAbout($0, share, shareCount) }
        filter = GolombFilter(
            hashes: shared.map { Self.hash($0, salt) }, parameter: Self.parameter,
            byteCount: GolombFilter.maximumByteCount)
    }

    private static func isAbout(_ id: BundleID, _ share: UInt8, _ shareCount: UInt8) -> Bool {
        shareCount == 1 || id.short % UInt64(shareCount) == UInt64(share)
    }

    /// The members, to be asked more than once.
    package var members: Members {
        Members(salt: salt, share: share, shareCount: shareCount, range: filter.range, values: filter.ascendingValues)
    }

    /// A filter, decoded once.
    package struct Members: Sendable {
        fileprivate let salt: UInt32
        fileprivate let share: UInt8
        fileprivate let shareCount: UInt8
        fileprivate let range: UInt32
        /// What the filter holds, each standing for an id; in ascending order.
        package let values: [UInt32]

        /// What stands for an id in the filter; nil for one that the summary says nothing about.
        package func value(of id: BundleID) -> UInt32? {
            guard SummaryVector.isAbout(id, share, shareCount) else { return nil }
            return GolombFilter.value(of: SummaryVector.hash(id, salt), range: range)
        }

        /// Where something that stands for an id is among ``values``; nil when it is no member.
        package func place(of value: UInt32) -> Int? {
            var (low, high) = (0, values.count)
            while low < high {
                let middle = (low + high) / 2
                if values[middle] < value { low = middle + 1 } else { high = middle }
            }
            return low < values.count && values[low] == value ? low : nil
        }
    }

    /// Ids are hashes already; this only makes them others for each salt (the finalizer of MurmurHash3).
    private static func hash(_ id: BundleID, _ salt: UInt32) -> UInt64 {
        var mixed = id.short ^ (UInt64(salt) &* 0x9e37_79b9_7f4a_7c15)
        mixed = (mixed ^ mixed >> 33) &* 0xff51_afd7_ed55_8ccd
        mixed = (mixed ^ mixed >> 33) &* 0xc4ce_b9fe_1a85_ec53
        return mixed ^ mixed >> 33
    }
}

/// Whom a carrier reaches below itself in the tree: 26 bits of each address, in ascending order, as Golomb-Rice coded differences.
/// Unlike a filter it can be merged.
///
///     parameter u8 · for each: the quotient of the difference by 2^parameter as so many ones and a zero, and the rest; filled up
///     with ones
package struct ReachabilityFilter: Sendable, Hashable {
    /// Some 11,000 addresses.
    package static let maximumByteCount = 24_576
    private static let bitCount = 26

    /// As they go over a link: at most ``maximumByteCount``.
    package let bytes: [UInt8]

    /// Who reaches nobody but itself.
    package static let nobody = ReachabilityFilter(bytes: [])

    private init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// - Throws: for more bytes than there may be, or an impossible parameter.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        guard bytes.count <= Self.maximumByteCount, bytes.first.map({ (0...UInt8(Self.bitCount)).contains($0) }) ?? true else {
            throw MalformedInput("carry report: a reach out of bounds")
        }
        self.bytes = Array(bytes)
    }

    /// - Parameter marks: as ``mark(of:)`` makes them, in any order.
    /// - Returns: nil when they are too many.
    package init?(marks: [UInt32]) {
        let count = max(1, marks.count)
        // What makes the code shortest for differences by chance: about their mean.
        let parameter = max(0, Self.bitCount - (Int.bitWidth - count.leadingZeroBitCount))
        var bits = BitWriter()
        bits.write(UInt64(parameter), count: 8)
        var last: UInt32 = 0
        for mark in marks.sorted() where mark != last {
            let difference = UInt64(mark - last - 1)
            last = mark
            for _ in 0..<(difference >> UInt64(parameter)) { bits.write(1, count: 1) }
            bits.write(0, count: 1)
            bits.write(difference, count: parameter)
        }
        bits.fill()
        guard bits.bytes.count <= Self.maximumByteCount else { return nil }
        bytes = bits.bytes
    }

    /// Never 0, so that differences aren't either.
    package static func mark(of address: EndpointID) -> UInt32 {
        UInt32(address.rawValue >> UInt64(64 - bitCount)) + 1
    }

    /// Of all who are reached, in ascending order.
    package var marks: [UInt32] {
        var marks: [UInt32] = []
        marks.reserveCapacity(bytes.count / 2)
        forEach {
            marks.append($0)
            return true
        }
        return marks
    }

    /// Two addresses may have the same mark: then a yes means either.
    package func contains(_ mark: UInt32) -> Bool {
        var isFound = false
        forEach { member in
            isFound = member == mark
            return member < mark
        }
        return isFound
    }

    /// What does not fit into 26 bits ends it, as the filling does.
    /// - Parameter body: returns whether to go on.
    private func forEach(_ body: (UInt32) -> Bool) {
        var bits = BitReader(bytes: bytes)
        guard let parameter = bits.read(8), parameter <= UInt64(Self.bitCount) else { return }
        var last: UInt64 = 0
        while let quotient = bits.readUnary(), let rest = bits.read(Int(parameter)) {
            last += quotient << parameter + rest + 1
            guard last <= 1 << UInt64(Self.bitCount), body(UInt32(last)) else { return }
        }
    }
}
