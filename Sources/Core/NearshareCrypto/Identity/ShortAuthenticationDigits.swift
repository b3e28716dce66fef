/// A short authentication string for users: eight digits, shown as "1234 5678".
public struct ShortAuthenticationDigits: Sendable, Hashable, CustomStringConvertible {
    /// Eight decimal digits.
    package let digits: String

    public var description: String { "\(digits.prefix(4)) \(digits.suffix(4))" }
}
