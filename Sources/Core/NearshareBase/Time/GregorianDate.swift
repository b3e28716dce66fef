/// A day in the Gregorian calendar, in UTC, also before the calendar was introduced.
package struct GregorianDate: Sendable, Hashable {
    package let year: Int64
    /// 1 to 12.
    package let month: Int64
    /// 1 to 31.
    package let day: Int64

    /// 400 years repeat.
    private static let daysOf400Years: Int64 = 146_097
    /// From 0000-03-01 to 1970-01-01. Years are counted from March, so that the leap day is the last one.
    private static let daysFromMarchOfYear0: Int64 = 719_468

    /// - Parameter days: since 1970-01-01; at most 2^56 before or after, which is more than 64 bits of milliseconds hold.
    package init(daysSince1970 days: Int64) {
        let (era, dayOfEra) = (days + Self.daysFromMarchOfYear0).flooredQuotientAndRemainder(dividingBy: Self.daysOf400Years)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        // March is 0.
        let monthOfYear = (5 * dayOfYear + 2) / 153
        month = monthOfYear < 10 ? monthOfYear + 3 : monthOfYear - 9
        day = dayOfYear - (153 * monthOfYear + 2) / 5 + 1
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// - Parameter year: of at most 32 bits.
    /// - Returns: nil for a day that does not exist.
    package init?(year: Int64, month: Int64, day: Int64) {
        guard Int32(exactly: year) != nil, (1...12).contains(month), (1...31).contains(day) else { return nil }
        self.init(daysSince1970: Self.days(year: year, month: month, day: day))
        guard self.month == month, self.day == day else { return nil }
    }

    package var daysSince1970: Int64 { Self.days(year: year, month: month, day: day) }

    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let (era, yearOfEra) = (month <= 2 ? year - 1 : year).flooredQuotientAndRemainder(dividingBy: 400)
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * daysOf400Years + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - daysFromMarchOfYear0
    }
}

extension Int64 {
    /// The quotient rounded down, so that the remainder is not negative.
    /// - Parameter divisor: positive.
    package func flooredQuotientAndRemainder(dividingBy divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
