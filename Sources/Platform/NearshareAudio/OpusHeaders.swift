package import NearshareBase
package import NearshareInterfaces

/// The first packet of an Ogg Opus stream (RFC 7845, section 5.1).
package struct OpusHead: Sendable, Hashable {
    package let channels: Int
    /// 48,000ths of a second at the beginning that a player leaves out.
    package let preSkip: Int
    /// What was encoded, for information; 0 when it is not known.
    package let inputRate: UInt32

    /// All of Opus is counted in these.
    package static let granulesPerSecond = 48_000

    package init(_ packet: ArraySlice<UInt8>) throws(AudioError) {
        let bytes = Array(packet)
        guard bytes.count >= 19, bytes.starts(with: Array("OpusHead".utf8)) else {
            throw AudioError(.damaged, "this is Ogg, but not Opus")
        }
        // Versions below 16 are compatible, says section 5.1.
        guard bytes[8] < 16 else { throw AudioError(.damaged, "this is a kind of Opus that is newer than nearshare") }
        guard bytes[18] == 0, (1...2).contains(bytes[9]) else {
            throw AudioError(.damaged, "this Opus file has \(bytes[9]) channels; a voice note has one or two")
        }
        channels = Int(bytes[9])
        preSkip = Int(bytes[10]) | Int(bytes[11]) << 8
        inputRate = (0..<4).reduce(0) { $0 | UInt32(bytes[12 + $1]) << (8 * $1) }
    }
}

/// What a voice note says of itself, in the second packet of its stream (RFC 7845, section 5.2). All of it is a claim.
package struct NoteTags: Sendable, Hashable {
    /// Who made it (`ARTIST`).
    package var speaker: String?
    /// When (`DATE`).
    package var recorded: WallTime?
    /// How it looks (`NEARSHARE_WAVEFORM`).
    package var waveform: Waveform?

    package init(speaker: String? = nil, recorded: WallTime? = nil, waveform: Waveform? = nil) {
        self.speaker = speaker
        self.recorded = recorded
        self.waveform = waveform
    }

    static let speakerName = "ARTIST"
    static let dateName = "DATE"
    static let waveformName = "NEARSHARE_WAVEFORM"

    /// Tags of a note have some 300 bytes. Longer ones, such as those with a picture, are passed over.
    package static let maximumByteCount = 60 << 10
    private static let maximumCount = 256

    /// - Throws: when lengths point out of the packet, or there are absurdly many.
    package init(_ packet: ArraySlice<UInt8>) throws(AudioError) {
        var rest = packet
        func take(_ count: Int) throws(AudioError) -> ArraySlice<UInt8> {
            guard count <= rest.count else { throw AudioError(.damaged, "its tags are damaged") }
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count)
        }
        func takeLength() throws(AudioError) -> Int {
            try take(4).reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        guard try take(8).elementsEqual("OpusTags".utf8) else { throw AudioError(.damaged, "its tags are damaged") }
        _ = try take(takeLength())
        let count = try takeLength()
        guard count <= Self.maximumCount else { throw AudioError(.damaged, "it has \(count) tags, which is absurd") }
        for _ in 0..<count { keep(try take(takeLength())) }
    }

    private mutating func keep(_ comment: ArraySlice<UInt8>) {
        guard let equals = comment.firstIndex(of: UInt8(ascii: "=")) else { return }
        let value = comment[(equals + 1)...]
        switch String(decoding: comment[..<equals], as: UTF8.self).uppercased() {
        // Names are short; of what is longer the beginning says enough.
        case Self.speakerName where speaker == nil: speaker = String(decoding: value.prefix(256), as: UTF8.self)
        case Self.dateName where recorded == nil:
            recorded = WallTime(iso8601: String(decoding: value.prefix(32), as: UTF8.self))
        case Self.waveformName where waveform == nil: waveform = Waveform(text: value)
        default: break
        }
    }
}

extension WallTime {
    /// `2026-11-21T10:12:13Z`
    var iso8601: String {
        let seconds = milliseconds.flooredQuotient(1000)
        let days = seconds.flooredQuotient(86_400)
        let time = seconds - days * 86_400
        // The civil calendar, counted from the first of March of the year 0 in eras of 400 years.
        let shifted = days + 719_468
        let era = shifted.flooredQuotient(146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(year)-\(two(month))-\(two(day))T\(two(time / 3600)):\(two(time / 60 % 60)):\(two(time % 60))Z"
    }

    /// Reads what ``iso8601`` writes, and a date alone; nothing else.
    init?(iso8601 text: String) {
        let bytes = Array(text.utf8)
        func number(_ range: Range<Int>) -> Int64? {
            guard range.upperBound <= bytes.count, bytes[range].allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            return bytes[range].reduce(0) { $0 * 10 + Int64($1 - 0x30) }
        }
        func isMark(_ index: Int, _ mark: Unicode.Scalar) -> Bool { bytes[index] == UInt8(ascii: mark) }
        guard bytes.count == 10 || bytes.count == 20, let year = number(0..<4), isMark(4, "-"), let month = number(5..<7),
            (1...12).contains(month), isMark(7, "-"), let day = number(8..<10), (1...31).contains(day)
        else { return nil }
        var seconds: Int64 = 0
        if bytes.count == 20 {
            guard isMark(10, "T"), let hour = number(11..<13), hour < 24, isMark(13, ":"), let minute = number(14..<16),
                minute < 60, isMark(16, ":"), let second = number(17..<19), second < 60, isMark(19, "Z")
            else { return nil }
            seconds = hour * 3600 + minute * 60 + second
        }
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = shiftedYear.flooredQuotient(400)
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        self.init(milliseconds: ((era * 146_097 + dayOfEra - 719_468) * 86_400 + seconds) * 1000)
    }
}

extension Int64 {
    fileprivate func flooredQuotient(_ divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}
