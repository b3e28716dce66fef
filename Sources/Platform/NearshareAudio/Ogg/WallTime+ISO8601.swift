internal import Glibc
internal import NearshareBase

extension WallTime {
    private static let dateFormat = "%Y-%m-%d"
    private static let timeFormat = "%Y-%m-%dT%H:%M:%SZ"

    /// The time in UTC, without fractions of a second: `2026-11-21T10:12:13Z`. Empty beyond the years that the C library
    /// supports.
    var iso8601: String { Self.text(seconds: flooredSeconds, Self.timeFormat) ?? "" }

    private var flooredSeconds: time_t {
        let (quotient, remainder) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        return time_t(remainder < 0 ? quotient - 1 : quotient)
    }

    private static func text(seconds: time_t, _ format: String) -> String? {
        var (seconds, fields) = (seconds, tm())
        guard gmtime_r(&seconds, &fields) != nil else { return nil }
        var buffer = [CChar](repeating: 0, count: 64)
        let count = strftime(&buffer, buffer.count, format, &fields)
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Parses the form of ``iso8601``, or a date alone.
    /// - Returns: nil for any other text, and for a date that does not exist.
    init?(iso8601 text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count == 10 || bytes.count == 20 else { return nil }
        func number(_ range: Range<Int>) -> Int32 {
            guard range.upperBound <= bytes.count else { return 0 }
            return bytes[range].reduce(0) { $0 * 10 + Int32($1) - Int32(UInt8(ascii: "0")) }
        }
        var fields = tm()
        (fields.tm_year, fields.tm_mon, fields.tm_mday) = (number(0..<4) - 1900, number(5..<7) - 1, number(8..<10))
        (fields.tm_hour, fields.tm_min, fields.tm_sec) = (number(11..<13), number(14..<16), number(17..<19))
        // timegm(3) normalises any numbers; only text that is its own canonical form is accepted.
        let format = bytes.count == 10 ? Self.dateFormat : Self.timeFormat
        let seconds = timegm(&fields)
        guard Self.text(seconds: seconds, format) == text else { return nil }
        let (milliseconds, overflow) = Int64(seconds).multipliedReportingOverflow(by: 1000)
        guard !overflow else { return nil }
        self.init(milliseconds: milliseconds)
    }
}
