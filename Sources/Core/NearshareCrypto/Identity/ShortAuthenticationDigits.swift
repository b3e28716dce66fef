/// A short authentication string for users: eight digits, shown as "1234 5678".
package struct ShortAuthenticationDigits: Sendable, Hashable, CustomStringConvertible {
    /// Eight decimal digits.
    package let digits: String

    /// The last eight decimal digits of a number, which is derived from what both ends know.
    package init(number: UInt64) {
        let digits = String(number % 100_000_000)
        self.digits = String(repeating: "0", count: 8 - digits.count) + digits
    }

    package var description: String { "\(digits.prefix(4)) \(digits.suffix(4))" }
}
