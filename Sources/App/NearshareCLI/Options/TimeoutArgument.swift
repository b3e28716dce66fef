internal import ArgumentParser

/// A timeout in seconds, 0.1 to 600.
struct TimeoutArgument: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        guard let seconds = Double(argument), (0.1...600).contains(seconds) else { return nil }
        duration = .milliseconds(Int64(seconds * 1000))
    }
}
