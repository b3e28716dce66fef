extension UInt64 {
    /// The sum of numbers of which at least one is a claim of a peer or of a file.
    /// - Throws: when it cannot be represented; `name` is that of the sum, for the error.
    package func adding(_ other: UInt64, named name: StaticString) throws(MalformedInput) -> UInt64 {
        let (sum, overflow) = addingReportingOverflow(other)
        guard !overflow else { throw MalformedInput("\(name): the sum is out of range") }
        return sum
    }

    /// The sum; the largest number where it cannot be represented, so that a comparison with a limit fails.
    package func addingClamped(_ other: UInt64) -> UInt64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }

    /// The difference; 0 where it would be negative.
    package func subtractingClamped(_ other: UInt64) -> UInt64 { self > other ? self &- other : 0 }

    /// The product; the largest number where it cannot be represented.
    package func multipliedClamped(by other: UInt64) -> UInt64 {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? .max : product
    }
}
