internal import ArgumentParser

/// A timeout in seconds, 0.1 to 600.
struct TimeoutArgument: Sendable {
    let duration: Duration

    init(parsing argument: String) throws {
        duration = try Duration(parsing: argument, within: 0.1...600, shownAs: "0.1 to 600")
    }
}

/// The time to reconnect after a link was lost, in seconds: 0, for no second try, to 86,400.
struct RetryArgument: Sendable {
    let duration: Duration

    init(parsing argument: String) throws {
        duration = try Duration(parsing: argument, within: 0...86_400, shownAs: "0 to 86400")
    }
}

extension Duration {
    /// Reads a number of seconds, in whole milliseconds.
    /// - Parameter rangeText: the range, as it is shown to the user.
    fileprivate init(parsing argument: String, within range: ClosedRange<Double>, shownAs rangeText: String) throws {
        guard let seconds = Double(argument), range.contains(seconds) else {
            throw ValidationError("expected \(rangeText) seconds")
        }
        self = .milliseconds(Int64(seconds * 1000))
    }
}
