package import NearshareBase

/// The time for which the lines of a conversation stay on this machine, after they were written or received: whole minutes.
package struct MessageLifetime: RawRepresentable, Sendable, Hashable, Codable {
    /// Seconds: a multiple of 60 within ``secondsRange``.
    package let rawValue: Int

    /// A minute to a year.
    package static let secondsRange = 60...365 * 86_400

    package var seconds: Int { rawValue }

    private enum Unit: Character, CaseIterable {
        case day = "d"
        case hour = "h"
        case minute = "m"

        var seconds: Int {
            switch self {
            case .day: 86_400
            case .hour: 3_600
            case .minute: 60
            }
        }
    }

    /// - Returns: nil outside of ``secondsRange``, and for a part of a minute.
    package init?(rawValue seconds: Int) {
        guard Self.secondsRange.contains(seconds), seconds % Unit.minute.seconds == 0 else { return nil }
        rawValue = seconds
    }

    /// - Parameter text: a whole number with a unit, such as "10m", "1h" or "7d".
    /// - Returns: nil for another text, and outside of ``secondsRange``.
    package init?(_ text: String) {
        let digits = text.dropLast()
        guard let letter = text.last, let unit = Unit(rawValue: letter), let count = Int(digits),
            digits.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 })
        else { return nil }
        let (seconds, overflow) = count.multipliedReportingOverflow(by: unit.seconds)
        guard !overflow else { return nil }
        self.init(rawValue: seconds)
    }

    /// The form that ``init(_:)`` takes, in the largest unit of which it is a whole number.
    package var text: String { "\(seconds / largestUnit.seconds)\(largestUnit.rawValue)" }

    /// The form for sentences, such as "1 hour" or "7 days".
    package var words: String {
        let count = seconds / largestUnit.seconds
        return "\(count) \(largestUnit)\(count == 1 ? "" : "s")"
    }

    private var largestUnit: Unit { Unit.allCases.first { seconds % $0.seconds == 0 } ?? .minute }

    private var milliseconds: Int64 { Int64(seconds) * 1_000 }

    /// The end of the lifetime of a line of a time; clamped to 64 bits of milliseconds.
    package func end(from time: WallTime) -> WallTime {
        let (end, overflow) = time.milliseconds.addingReportingOverflow(milliseconds)
        return WallTime(milliseconds: overflow ? .max : end)
    }

    /// The latest time of lines whose lifetime is over.
    package func latestExpired(at now: WallTime) -> WallTime {
        let (latest, overflow) = now.milliseconds.subtractingReportingOverflow(milliseconds)
        return WallTime(milliseconds: overflow ? .min : latest)
    }
}
