extension UInt64 {
    /// The nearest integer to a computed number, such as a rate: 0 for negative numbers and NaN, the maximum for larger ones.
    package init(saturating number: Double) {
        self = number > 0 ? UInt64(exactly: number.rounded()) ?? .max : 0
    }
}
