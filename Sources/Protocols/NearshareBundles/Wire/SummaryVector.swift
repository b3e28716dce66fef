package import NearshareBase

/// The bundles under epidemic forwarding that a node holds or has held, as a Golomb-coded set. When they are too many for one
/// filter, each vector covers a share of all IDs, in turn.
package struct SummaryVector: Sendable, Hashable {
    /// Drawn for each vector, so that a false positive of one vector is none in the next, and IDs cannot be crafted to collide.
    package var salt: UInt32
    /// The IDs that are covered: those whose first 8 bytes, as a number, leave this remainder when divided by ``shareCount``.
    package var share: UInt8
    /// At least 1.
    package var shareCount: UInt8
    package var filter: GolombFilter

    /// Golomb parameter: one false positive in 2^10.
    package static let parameter = 10
    /// IDs in one share, which fit into a filter with room to spare.
    package static let idsInShare = 512

    package init(salt: UInt32, share: UInt8, shareCount: UInt8, filter: GolombFilter) {
        self.salt = salt
        self.share = share
        self.shareCount = shareCount
        self.filter = filter
    }

    /// Lists bundles.
    /// - Parameters:
    ///   - ids: all of them, the newest last; the oldest are omitted when a share does not fit.
    ///   - turn: the number of this vector, which selects the share.
    package init(of ids: [BundleID], turn: Int, salt: UInt32) {
        self.salt = salt
        shareCount = UInt8(clamping: (ids.count + Self.idsInShare - 1) / Self.idsInShare + (ids.isEmpty ? 1 : 0))
        share = UInt8(clamping: turn % Int(shareCount))
        let (share, shareCount) = (share, shareCount)
        let covered = ids.reversed().lazy.filter { Self.covers($0, share: share, of: shareCount) }
        filter = GolombFilter(
            hashes: covered.map { Self.hash($0, salt: salt) }, parameter: Self.parameter,
            byteCount: GolombFilter.maximumByteCount)
    }

    init(reading reader: inout ByteReader) throws(MalformedInput) {
        salt = try reader.readInteger()
        share = try reader.readInteger()
        shareCount = try reader.readInteger()
        guard share < shareCount else { throw MalformedInput("summary vector: a share out of bounds") }
        let parameter = Int(try reader.readInteger(UInt8.self))
        let range: UInt32 = try reader.readInteger()
        let bytes = try reader.readCounted(by: UInt16.self, upTo: GolombFilter.maximumByteCount, field: "the filter")
        filter = try GolombFilter(parameter: parameter, range: range, bytes: Array(bytes))
    }

    func encode(to writer: inout ByteWriter) {
        writer.write(salt)
        writer.write(share)
        writer.write(shareCount)
        writer.write(UInt8(clamping: filter.parameter))
        writer.write(filter.range)
        writer.writeCounted(filter.bytes, by: UInt16.self)
    }

    private static func covers(_ id: BundleID, share: UInt8, of shareCount: UInt8) -> Bool {
        shareCount == 1 || id.short % UInt64(shareCount) == UInt64(share)
    }

    /// The members, decoded once for any number of queries.
    package var members: Members {
        Members(salt: salt, share: share, shareCount: shareCount, range: filter.range, values: filter.ascendingValues)
    }

    package struct Members: Sendable {
        fileprivate let salt: UInt32
        fileprivate let share: UInt8
        fileprivate let shareCount: UInt8
        fileprivate let range: UInt32
        /// The hash values in the filter, in ascending order.
        package let values: [UInt32]

        /// The hash value of an ID in this filter; nil for an ID that the vector does not cover.
        package func value(of id: BundleID) -> UInt32? {
            guard SummaryVector.covers(id, share: share, of: shareCount) else { return nil }
            return GolombFilter.value(of: SummaryVector.hash(id, salt: salt), range: range)
        }

        /// Binary search in ``values``; nil when the value is no member.
        package func position(of value: UInt32) -> Int? {
            var (low, high) = (0, values.count)
            while low < high {
                let middle = (low + high) / 2
                if values[middle] < value { low = middle + 1 } else { high = middle }
            }
            return low < values.count && values[low] == value ? low : nil
        }
    }

    /// Mixes the salt into an ID, which is a hash already (the finalizer of MurmurHash3).
    private static func hash(_ id: BundleID, salt: UInt32) -> UInt64 {
        var mixed = id.short ^ (UInt64(salt) &* 0x9e37_79b9_7f4a_7c15)
        mixed = (mixed ^ mixed >> 33) &* 0xff51_afd7_ed55_8ccd
        mixed = (mixed ^ mixed >> 33) &* 0xc4ce_b9fe_1a85_ec53
        return mixed ^ mixed >> 33
    }
}
