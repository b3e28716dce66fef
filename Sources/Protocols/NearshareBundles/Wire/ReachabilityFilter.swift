package import NearshareBase

/// The endpoints that a node reaches below itself in the spanning tree: a 26-bit address tag of each, as Golomb-Rice coded
/// differences in ascending order. Unlike a Bloom filter it can be merged without growing more than the sum.
///
///     parameter u8 · for each: the quotient of the difference by 2^parameter in unary (ones and a zero), and the remainder;
///     padded with ones
package struct ReachabilityFilter: Sendable, Hashable {
    /// Limit of the encoded filter: about 11,000 endpoints.
    package static let maximumByteCount = 24_576
    private static let tagBitCount = 26

    /// The encoded filter.
    package let bytes: [UInt8]

    /// Reaches no endpoint; withdraws an earlier filter.
    package static let empty = ReachabilityFilter(bytes: [])

    private init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// - Throws: for more than ``maximumByteCount`` bytes, or an impossible parameter.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        guard bytes.count <= Self.maximumByteCount,
            bytes.first.map({ (0...UInt8(Self.tagBitCount)).contains($0) }) ?? true
        else { throw MalformedInput("reachability filter: out of bounds") }
        self.bytes = Array(bytes)
    }

    /// - Parameter tags: in any order (``tag(of:)``).
    /// - Returns: nil when the filter would be too long.
    package init?(tags: [UInt32]) {
        let bytes = Self.encode(tags)
        guard bytes.count <= Self.maximumByteCount else { return nil }
        self.bytes = bytes
    }

    /// Reaches one endpoint.
    package init(tag: UInt32) {
        bytes = Self.encode([tag])
    }

    private static func encode(_ tags: [UInt32]) -> [UInt8] {
        let count = max(1, tags.count)
        // About the logarithm of the mean difference, which makes the code of random differences shortest.
        let parameter = max(0, tagBitCount - (Int.bitWidth - count.leadingZeroBitCount))
        var bits = BitWriter()
        bits.write(UInt64(parameter), count: 8)
        var last: UInt32 = 0
        for tag in tags.sorted() where tag != last {
            let difference = UInt64(tag - last - 1)
            last = tag
            for _ in 0..<(difference >> UInt64(parameter)) { bits.write(1, count: 1) }
            bits.write(0, count: 1)
            bits.write(difference, count: parameter)
        }
        bits.fill()
        return bits.bytes
    }

    /// The address tag of an endpoint: its first 26 bits plus 1, so that every difference is at least 1.
    package static func tag(of endpoint: EndpointID) -> UInt32 {
        UInt32(clamping: endpoint.rawValue >> UInt64(64 - tagBitCount)) + 1
    }

    /// The tags of all endpoints, in ascending order.
    package var tags: [UInt32] {
        var tags: [UInt32] = []
        tags.reserveCapacity(bytes.count / 2)
        forEach {
            tags.append($0)
            return true
        }
        return tags
    }

    /// Whether the filter reaches an endpoint with this tag. Several endpoints may share one.
    package func contains(_ tag: UInt32) -> Bool {
        var isFound = false
        forEach { member in
            isFound = member == tag
            return member < tag
        }
        return isFound
    }

    /// Visits the tags up to the padding, or to a value that is no tag.
    /// - Parameter body: returns whether to continue.
    private func forEach(_ body: (UInt32) -> Bool) {
        var bits = BitReader(bytes: bytes)
        guard let parameter = bits.read(8), parameter <= UInt64(Self.tagBitCount) else { return }
        var last: UInt64 = 0
        while let quotient = bits.readUnary(), let rest = bits.read(Int(parameter)) {
            last += quotient << parameter + rest + 1
            guard last <= 1 << UInt64(Self.tagBitCount), body(UInt32(clamping: last)) else { return }
        }
    }
}
