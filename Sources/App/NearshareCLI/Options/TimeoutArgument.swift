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
