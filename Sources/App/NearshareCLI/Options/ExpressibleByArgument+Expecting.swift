internal import ArgumentParser

extension ExpressibleByArgument {
    /// A transform that says what is expected; the parser by itself says only that a value is invalid.
    static func expecting(_ expected: String) -> @Sendable (String) throws -> Self {
        { argument in
            guard let value = Self(argument: argument) else { throw ValidationError("expected \(expected)") }
            return value
        }
    }
}
