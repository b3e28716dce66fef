/// A set of hashes in few bytes, which may take others for members, but never misses one: Golomb-Rice coded differences
/// (bitchat specification, section 10).
package struct GolombFilter: Sendable, Hashable {
    /// A larger one is refused before it is read.
    package static let maximumByteCount = 1024
    /// With fewer bits the filling of the last byte can decode as members that nobody put in.
    package static let safeParameter = 7
    /// What requests send at the most.
    package static let requestByteCount = 400

    /// The Rice parameter P, 1 to 32: one false member in 2^P.
    package let parameter: Int
    /// M: hashes are taken modulo this.
    package let range: UInt32
    /// At most ``maximumByteCount`` bytes.
    package let bytes: [UInt8]

    /// Reads a filter that came.
    package init(parameter: Int, range: UInt32, bytes: [UInt8]) throws(MalformedInput) {
        guard (1...32).contains(parameter), range > 0, bytes.count <= Self.maximumByteCount else {
            throw MalformedInput("filter: a parameter out of bounds")
        }
        self.parameter = parameter
        self.range = range
        self.bytes = bytes
    }

    /// The smallest P with at most this share of false members: ⌈log2(1/rate)⌉, and as with the phone apps 2 to 20.
    package static func parameter(forFalsePositiveRate rate: Double) -> Int {
        var parameter = 2
        var share = 0.25
        while share > rate, parameter < 20 {
            share /= 2
            parameter += 1
        }
        return parameter
    }

    /// How many hashes a filter of `byteCount` bytes is laid out for.
    package static func capacity(parameter: Int, byteCount: Int) -> Int { 8 * byteCount / (parameter + 2) }

    /// - Parameters:
    ///   - hashes: newest first; the oldest are left out where they don't fit.
    ///   - parameter: 1 to 23, so that ``range`` holds M for the longest filter.
    ///   - byteCount: at most ``maximumByteCount``.
    package init(
        hashes: [UInt64], parameter: Int = GolombFilter.safeParameter, byteCount: Int = GolombFilter.requestByteCount
    ) {
        precondition((1...23).contains(parameter) && byteCount <= Self.maximumByteCount)
        self.parameter = parameter
        var kept = min(hashes.count, Self.capacity(parameter: parameter, byteCount: byteCount))
        guard kept > 0 else {
            range = 1
            bytes = []
            return
        }
        let range = UInt32(kept) << UInt32(parameter)
        self.range = range
        while true {
            let encoded = Self.encode(hashes.prefix(kept).map { Self.value(of: $0, range: range) }, parameter: parameter)
            if encoded.count <= byteCount || kept == 0 {
                bytes = encoded
                return
            }
            // A tenth at a time, while M stays, as the phone apps do; at least one, as it is rounded down.
            kept = kept * 9 / 10
        }
    }

    /// The hash is in it, or one of the same value.
    package func contains(_ hash: UInt64) -> Bool { values.contains(Self.value(of: hash, range: range)) }

    /// The members as values below ``range``; for asking more than once. Malformed bytes end it, and bound it.
    package var values: Set<UInt32> { Set(ascendingValues) }

    /// ``values``, as they stand in the filter: each once, the lowest first.
    package var ascendingValues: [UInt32] {
        var members: [UInt32] = []
        members.reserveCapacity(bytes.count)
        var bits = BitReader(bytes: bytes)
        var sum: UInt64 = 0
        while let quotient = bits.readUnary(), let rest = bits.read(parameter) {
            sum += quotient << UInt64(parameter) + rest + 1
            guard sum < UInt64(range) else { break }
            members.append(UInt32(sum))
        }
        return members
    }

    /// The place of a hash in the filter's range.
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
