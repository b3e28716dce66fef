internal import ArgumentParser

/// A length of time, at most a day: seconds, `minutes:seconds` or `hours:minutes:seconds`.
struct ClockArgument: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        guard (1...3).contains(parts.count), let last = Double(parts[parts.count - 1]), last >= 0 else { return nil }
        var seconds = last
        var unit = 60.0
        // Only the first part may exceed 59.
        var before = last
        for part in parts.dropLast().reversed() {
            guard let number = UInt16(part), before < 60 else { return nil }
            seconds += Double(number) * unit
            before = Double(number)
            unit *= 60
        }
        guard (0.1...86_400).contains(seconds) else { return nil }
        duration = .milliseconds(Int64((seconds * 1000).rounded()))
    }
}
