internal import NearshareBase

/// Times as RFC 3339 writes them: `2026-11-23T16:50:00.123Z`.
enum RFC3339 {
    /// Nanoseconds since 1970.
    /// - Returns: nil for another form, for days that do not exist, and for times that Int64 cannot hold.
    static func nanoseconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard (20...40).contains(bytes.count), bytes[4] == 0x2d, bytes[7] == 0x2d, bytes[10] == 0x54 || bytes[10] == 0x74,
            bytes[13] == 0x3a, bytes[16] == 0x3a,
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]), let day = number(bytes[8..<10]),
            let hour = number(bytes[11..<13]), let minute = number(bytes[14..<16]), let second = number(bytes[17..<19]),
            let date = GregorianDate(year: year, month: month, day: day), hour < 24, minute < 60, second <= 60
        else { return nil }
        var rest = bytes[19...]
        var fraction: Int64 = 0
        if rest.first == 0x2e {
            let digits = rest.dropFirst().prefix { (0x30...0x39).contains($0) }
            guard let value = number(digits.prefix(9)) else { return nil }
            fraction = (0..<max(0, 9 - digits.count)).reduce(value) { value, _ in value * 10 }
            rest = rest.dropFirst(digits.count + 1)
        }
        guard let offset = offset(rest) else { return nil }
        let seconds = date.daysSince1970 * 86_400 + hour * 3600 + minute * 60 + second - offset
        let (nanoseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? nil : nanoseconds &+ fraction
    }

    /// The text of a time; nil for years of more than four digits.
    /// - Parameter nanoseconds: since 1970.
    static func text(nanoseconds: Int64) -> String? {
        let (seconds, fraction) = nanoseconds.flooredQuotientAndRemainder(dividingBy: 1_000_000_000)
        let (days, second) = seconds.flooredQuotientAndRemainder(dividingBy: 86_400)
        let date = GregorianDate(daysSince1970: days)
        guard (0...9999).contains(date.year) else { return nil }
        let time = "\(padded(second / 3600)):\(padded(second / 60 % 60)):\(padded(second % 60))"
        return "\(padded(date.year, 4))-\(padded(date.month))-\(padded(date.day))T\(time).\(padded(fraction / 1_000_000, 3))Z"
    }

    private static func padded(_ number: Int64, _ count: Int = 2) -> String {
        let digits = "\(number)"
        return String(repeating: "0", count: max(0, count - digits.count)) + digits
    }

    /// Seconds east of Greenwich.
    private static func offset(_ bytes: ArraySlice<UInt8>) -> Int64? {
        if bytes.elementsEqual([0x5a]) || bytes.elementsEqual([0x7a]) { return 0 }
        let bytes = Array(bytes)
        guard bytes.count == 6, bytes[0] == 0x2b || bytes[0] == 0x2d, bytes[3] == 0x3a, let hours = number(bytes[1..<3]),
            let minutes = number(bytes[4..<6]), hours < 24, minutes < 60
        else { return nil }
        return (bytes[0] == 0x2d ? -1 : 1) * (hours * 3600 + minutes * 60)
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    }
}
