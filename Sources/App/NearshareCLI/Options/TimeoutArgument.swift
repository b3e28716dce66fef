internal import ArgumentParser

/// A timeout in seconds, 0.1 to 600.
struct TimeoutArgument: Sendable {
    let duration: Duration

    init(parsing argument: String) throws {
        guard let seconds = Double(argument), (0.1...600).contains(seconds) else {
            throw ValidationError("expected 0.1 to 600 seconds")
        }
        duration = .milliseconds(Int64(seconds * 1000))
    }
}

/// The time for a new connection after a link broke, in seconds: 0, for no second try, to 86,400.
struct RetryArgument: Sendable {
    let duration: Duration

    init(parsing argument: String) throws {
        guard let seconds = Double(argument), (0...86_400).contains(seconds) else {
            throw ValidationError("expected 0 to 86400 seconds")
        }
        duration = .milliseconds(Int64(seconds * 1000))
    }
}
