internal import FoundationEssentials
internal import Glibc
internal import Nearshare

extension WallTime {
    /// For programs: RFC 3339, in UTC.
    var iso: String {
        Date(timeIntervalSince1970: Double(milliseconds) / 1_000).formatted(
            Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }

    /// For people: the day and minute where they are.
    var forPeople: String {
        var seconds = time_t(milliseconds / 1_000)
        var parts = tm()
        localtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%d %H:%M", &parts)
        return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
