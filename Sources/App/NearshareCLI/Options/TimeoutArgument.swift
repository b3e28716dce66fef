internal import ArgumentParser

/// A timeout in seconds, 0.1 to 600.
struct TimeoutArgument: Sendable {
    let duration: Duration

    init(parsing argument: String) throws {
        duration = try Duration(parsing: argument, within: 0.1...600, shownAs: "0.1 to 600")
    }
}

/// The time for a new connection after a link broke, in seconds: 0, for no second try, to 86,400.
struct RetryArgument: Sendable {
    let duration: Duration

    init(parsing argument: String) throws {
        duration = try Duration(parsing: argument, within: 0...86_400, shownAs: "0 to 86400")
    }
}

extension Duration {
    /// Reads a number of seconds, in whole milliseconds.
    /// - Parameter range: the permitted range, as it is named to the user.
    fileprivate init(parsing argument: String, within limits: ClosedRange<Double>, shownAs range: String) throws {
        guard let seconds = Double(argument), limits.contains(seconds) else {
            throw ValidationError("expected \(range) seconds")
        }
        self = .milliseconds(Int64(seconds * 1000))
    }
}
