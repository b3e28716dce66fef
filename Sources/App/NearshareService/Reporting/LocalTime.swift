internal import Glibc
package import Nearshare

/// A time in this machine's time zone, as shown to users.
package struct LocalTime: Sendable, Hashable {
    /// "Sat 21 Nov 2026"
    package var day: String
    /// "14:05"
    package var clock: String

    package init(day: String, clock: String) {
        self.day = day
        self.clock = clock
    }

    package init(_ time: WallTime) {
        self.init(day: Self.format(time, "%a %-d %b %Y"), clock: Self.format(time, "%H:%M"))
    }

    /// An event at this time as shown beside another time: "written 14:05", with the day where it is another one.
    package func text(of event: String, beside other: LocalTime) -> String {
        "\(event) \(day == other.day ? "" : "\(day) ")\(clock)"
    }

    /// - Parameter format: as in strftime(3).
    package static func format(_ time: WallTime, _ format: String) -> String {
        var seconds = time_t(time.milliseconds / 1_000)
        var parts = tm()
        localtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 64)
        let count = strftime(&text, text.count, format, &parts)
        return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension WallTime {
    /// Day and minute in this machine's time zone: "2026-11-21 14:05".
    package var localText: String { LocalTime.format(self, "%Y-%m-%d %H:%M") }
}
