internal import ArgumentParser

/// A length of time, from 0.1 seconds to a day: seconds, `minutes:seconds` or `hours:minutes:seconds`.
struct DurationArgument: ExpressibleByArgument {
    let duration: Duration

    /// Bounds of the argument, in seconds.
    private static let secondsRange = 0.1...86_400

    init?(argument: String) {
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        guard (1...3).contains(parts.count), let last = Self.number(parts[parts.count - 1], isWhole: false) else { return nil }
        var seconds = last
        var unit = 60.0
        // Only the first part may exceed 59.
        var before = last
        for part in parts.dropLast().reversed() {
            guard let number = Self.number(part, isWhole: true), before < 60 else { return nil }
            seconds += number * unit
            before = number
            unit *= 60
        }
        guard Self.secondsRange.contains(seconds) else { return nil }
        duration = .milliseconds(Int64((seconds * 1000).rounded()))
    }

    /// - Returns: nil for signs, exponents and all else that is no plain decimal number.
    private static func number(_ text: Substring, isWhole: Bool) -> Double? {
        guard text.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || !isWhole && $0 == UInt8(ascii: ".") })
        else { return nil }
        return Double(text)
    }
}
