import NearshareBase
import Testing

@Suite("dates of the Gregorian calendar")
struct GregorianDateTests {
    static let knownDates: [(Int64, Int64, Int64, Int64)] = [
        (0, 1970, 1, 1), (-1, 1969, 12, 31), (59, 1970, 3, 1), (11_016, 2000, 2, 29), (11_017, 2000, 3, 1),
        (-25_508, 1900, 3, 1), (-25_509, 1900, 2, 28), (20_787, 2026, 11, 30), (-719_468, 0, 3, 1), (-719_469, 0, 2, 29),
        (2_932_896, 9999, 12, 31),
    ]

    @Test("known days are converted to their dates, and back", arguments: knownDates)
    func knownDays(days: Int64, year: Int64, month: Int64, day: Int64) throws {
        let date = GregorianDate(daysSince1970: days)
        #expect((date.year, date.month, date.day) == (year, month, day))
        #expect(try #require(GregorianDate(year: year, month: month, day: day)).daysSince1970 == days)
    }

    @Test("each day of 800 years follows the one before")
    func successiveDays() throws {
        var previous = GregorianDate(daysSince1970: -146_098)
        for days in Int64(-146_097)..<146_097 {
            let date = GregorianDate(daysSince1970: days)
            let isNextDay = date.day == previous.day + 1 && date.month == previous.month && date.year == previous.year
            let isNextMonth = date.day == 1 && date.month == previous.month + 1 && date.year == previous.year
            let isNextYear = date.day == 1 && date.month == 1 && previous.month == 12 && date.year == previous.year + 1
            try #require(isNextDay || isNextMonth || isNextYear, "\(previous) is before \(date)")
            try #require(date.daysSince1970 == days)
            previous = date
        }
    }

    static let invalidDates: [(Int64, Int64, Int64)] = [
        (2026, 2, 29), (1900, 2, 29), (2026, 4, 31), (2026, 0, 1), (2026, 13, 1), (2026, 1, 0), (2026, 1, 32),
    ]

    @Test("dates that do not exist are rejected", arguments: invalidDates)
    func invalid(year: Int64, month: Int64, day: Int64) {
        #expect(GregorianDate(year: year, month: month, day: day) == nil)
    }

    @Test("years out of range are rejected; every time in 64 bits of milliseconds has a date")
    func extremes() {
        #expect(GregorianDate(year: .max, month: 1, day: 1) == nil)
        #expect(GregorianDate(year: .min, month: 1, day: 1) == nil)
        for milliseconds in [Int64.min, .max] {
            let days = milliseconds.flooredQuotientAndRemainder(dividingBy: 86_400_000).quotient
            #expect(GregorianDate(daysSince1970: days).daysSince1970 == days)
        }
    }
}
