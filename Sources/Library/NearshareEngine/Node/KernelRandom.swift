internal import NearshareBase

/// The kernel's randomness as a generator.
struct KernelRandom: RandomNumberGenerator, Sendable {
    /// Returns the given number of random bytes.
    let draw: @Sendable (Int) -> [UInt8]

    mutating func next() -> UInt64 { UInt64(truncatingBigEndian: draw(8)) }
}
