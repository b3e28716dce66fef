/// A Golomb-coded set: an approximate set of hashes with false positives but no false negatives
/// (bitchat specification, section 10).
package struct GolombFilter: Sendable, Hashable {
    /// Limit on the size of a filter; a larger one is rejected before it is read.
    package static let maximumByteCount = 1024
    /// The smallest parameter with which the padding of the last byte never decodes as members.
    package static let safeParameter = 7
    /// The largest parameter that the phone apps choose: a false-positive rate of 2^-20.
    package static let maximumAppParameter = 20
    /// Limit on the size of a filter in a sync request.
    package static let requestByteCount = 400

    /// The Golomb-Rice parameter P, 1 to 32: the false-positive rate is 2^-P.
    package let parameter: Int
    /// The modulus M that is applied to hashes.
    package let range: UInt32
    /// The encoded set, at most ``maximumByteCount`` bytes.
    package let bytes: [UInt8]

    /// Validates a filter that a peer has sent.
    package init(parameter: Int, range: UInt32, bytes: [UInt8]) throws(MalformedInput) {
        guard (1...32).contains(parameter), range > 0, bytes.count <= Self.maximumByteCount else {
            throw MalformedInput("filter: its parameter, range or size is out of bounds")
        }
        self.parameter = parameter
        self.range = range
        self.bytes = bytes
    }

    /// The smallest P for a false-positive rate: ⌈log2(1/rate)⌉, clamped to 2…``maximumAppParameter`` as in the phone apps.
    package static func parameter(forFalsePositiveRate rate: Double) -> Int {
        var parameter = 2
        var achievedRate = 0.25
        while achievedRate > rate, parameter < maximumAppParameter {
            achievedRate /= 2
            parameter += 1
        }
        return parameter
    }

    /// The number of hashes that a filter of `byteCount` bytes is designed for.
    package static func capacity(parameter: Int, byteCount: Int) -> Int { 8 * byteCount / (parameter + 2) }

    /// Encodes the values of hashes.
    /// - Parameters:
    ///   - hashes: the newest first; the oldest are left out when they do not fit.
    ///   - parameter: 1 to 23, so that ``range`` can represent M for the largest filter.
    ///   - byteCount: the size limit, at most ``maximumByteCount``.
    package init(
        hashes: [UInt64], parameter: Int = GolombFilter.safeParameter, byteCount: Int = GolombFilter.requestByteCount
    ) {
        // Safe: the program chooses both; those of a peer's filter are checked where it is read.
        precondition((1...23).contains(parameter) && byteCount <= Self.maximumByteCount)
        self.parameter = parameter
        var count = min(hashes.count, Self.capacity(parameter: parameter, byteCount: byteCount))
        guard count > 0 else {
            range = 1
            bytes = []
            return
        }
        let range = UInt32(count) << UInt32(parameter)
        self.range = range
        while true {
            let encoded = Self.encode(hashes.prefix(count).map { Self.value(of: $0, range: range) }, parameter: parameter)
            if encoded.count <= byteCount || count == 0 {
                bytes = encoded
                return
            }
            // Drops a tenth of the hashes, at least one because of the rounding, and keeps M, as the phone apps do.
            count = count * 9 / 10
        }
    }

    /// Whether the filter contains the hash, or another hash with the same value.
    package func contains(_ hash: UInt64) -> Bool { values.contains(Self.value(of: hash, range: range)) }

    /// The decoded values, all below ``range``, for repeated look-ups. Decoding stops at the first malformed code.
    package var values: Set<UInt32> { Set(ascendingValues) }

    /// ``values`` in ascending order.
    package var ascendingValues: [UInt32] {
        var values: [UInt32] = []
        values.reserveCapacity(bytes.count)
        var bits = BitReader(bytes: bytes)
        var sum: UInt64 = 0
        while let quotient = bits.readUnary(), let remainder = bits.read(parameter) {
            sum += quotient << UInt64(parameter) + remainder + 1
            guard sum < UInt64(range) else { break }
            values.append(UInt32(sum))
        }
        return values
    }

    /// The value by which a filter represents a hash: its lower 63 bits modulo `range`. 0 becomes 1, because the code consists of
    /// differences of at least 1.
    package static func value(of hash: UInt64, range: UInt32) -> UInt32 {
        max(1, UInt32((hash & UInt64(Int64.max)) % UInt64(range)))
    }

    private static func encode(_ values: [UInt32], parameter: Int) -> [UInt8] {
        var bits = BitWriter()
        var previous: UInt32 = 0
        for value in values.sorted() where value != previous {
            let difference = UInt64(value - previous - 1)
            for _ in 0..<(difference >> UInt64(parameter)) { bits.write(1, count: 1) }
            bits.write(0, count: 1)
            bits.write(difference, count: parameter)
            previous = value
        }
        return bits.bytes
    }
}
