internal import Glibc
package import NearshareBase

/// Reproducible random numbers: the same seed gives the same numbers on every machine (SplitMix64).
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    package mutating func bytes(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var index = 0
        // A debug build needs fifteen times as long for `map`, and tests draw megabytes.
        while index < count {
            bytes[index] = UInt8(truncatingIfNeeded: next())
            index += 1
        }
        return bytes
    }

    /// True once in `n` times.
    package mutating func once(in n: Int) -> Bool { Int.random(in: 0..<n, using: &self) == 0 }

    /// A name of 1 to 12 letters.
    package mutating func fileName() -> ClaimedFileName {
        let letters = Array("abcdefghijklmnopqrstuvwxyz".utf8)
        let count = Int.random(in: 1...12, using: &self)
        return ClaimedFileName(bytes: (0..<count).map { _ in letters[Int.random(in: 0..<26, using: &self)] })!
    }
}

/// The seeds of a test's cases: `all`, or the first of them where the environment variable `NEARSHARE_SEED_COUNT` limits their
/// number, as `make quick` does.
package func seeds(_ all: some Sequence<UInt64>) -> [UInt64] {
    guard let text = getenv("NEARSHARE_SEED_COUNT").map({ String(cString: $0) }) else { return Array(all) }
    guard let limit = Int(text), limit > 0 else {
        preconditionFailure("NEARSHARE_SEED_COUNT is not a positive number: \(text)")
    }
    return Array(all.prefix(limit))
}

extension [UInt8] {
    /// One to four random changes: a bit flipped, a byte replaced, put in, or taken out.
    package func mutated(using random: inout SeededRandom) -> [UInt8] {
        var bytes = self
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let index = Int.random(in: 0...bytes.count, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0 where index < bytes.count: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1 where index < bytes.count: bytes[index] = [0, 1, 0x7f, 0x80, 0xff].randomElement(using: &random)!
            case 2 where index < bytes.count: bytes.remove(at: index)
            default: bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: index)
            }
        }
        return bytes
    }
}
