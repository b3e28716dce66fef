package import NearshareBase
@_spi(_Unicode) internal import Swift

/// The name under which bitchat on iOS saves a received file (bitchat specification, section 7.4): one path component, never
/// empty or hidden, of about 120 characters at most.
package struct PhoneFileName: Sendable, Hashable {
    private static let maximumCharacterCount = 120
    /// Characters of the stem that a very long extension leaves.
    private static let minimumStemCharacterCount = 10

    package let text: String

    /// - Parameters:
    ///   - offered: the sender's name for the file, if any.
    ///   - prefix: the beginning of the name of a file without one; the time of arrival follows.
    ///   - fallbackExtension: the extension of the declared type, for a name without one.
    ///   - arrived: the time of arrival.
    ///   - secondsFromUTC: the local time's offset from UTC at that time.
    package init(
        offered: String?, prefix: String, fallbackExtension: String?, arrived: WallTime, secondsFromUTC: Int = 0
    ) {
        var name = String.UnicodeScalarView()
        for scalar in String((offered ?? "").unicodeScalars.filter { $0 != "\0" })._nfc {
            name.append(Self.isRefused(scalar) ? "_" : scalar)
        }
        while let first = name.first, first.properties.isWhitespace { name.removeFirst() }
        while let last = name.last, last.properties.isWhitespace { name.removeLast() }
        var text = String(name)
        if text.isEmpty { text = "\(prefix)_\(Self.stamp(arrived, secondsFromUTC: secondsFromUTC))" }
        if text.hasPrefix(".") { text = "_" + text }
        if text.count > Self.maximumCharacterCount { text = Self.shortened(text) }
        if let fallbackExtension, Self.parts(of: text).fileExtension.isEmpty { text += ".\(fallbackExtension)" }
        self.text = text
    }

    /// The name to use when this one and those with lower numbers exist already.
    package func numbered(_ number: Int) -> String {
        let (stem, fileExtension) = Self.parts(of: text)
        return fileExtension.isEmpty ? "\(stem) (\(number))" : "\(stem) (\(number)).\(fileExtension)"
    }

    private static func isRefused(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "/", "\\", "<", ">", ":", "\"", "|", "?", "*": true
        default: [.control, .format].contains(scalar.properties.generalCategory)
        }
    }

    private static func shortened(_ text: String) -> String {
        let (stem, fileExtension) = parts(of: text)
        guard !fileExtension.isEmpty else { return String(text.prefix(maximumCharacterCount)) }
        let stemCharacterCount = max(minimumStemCharacterCount, maximumCharacterCount - fileExtension.count - 1)
        return "\(stem.prefix(stemCharacterCount)).\(fileExtension)"
    }

    /// The parts before and after the last dot.
    private static func parts(of text: String) -> (stem: Substring, fileExtension: Substring) {
        guard let dot = text.unicodeScalars.lastIndex(of: ".") else { return (text[...], "") }
        return (text[..<dot], text[text.unicodeScalars.index(after: dot)...])
    }

    /// The time as `yyyyMMdd_HHmmss`.
    private static func stamp(_ moment: WallTime, secondsFromUTC: Int) -> String {
        let seconds = moment.milliseconds / 1000 + Int64(secondsFromUTC)
        let (days, time) = seconds.flooredQuotientAndRemainder(dividingBy: 86_400)
        let date = GregorianDate(daysSince1970: days)
        func digits(_ value: Int64, _ count: Int) -> String {
            let text = String(value)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        return digits(date.year, 4) + digits(date.month, 2) + digits(date.day, 2) + "_" + digits(time / 3600, 2)
            + digits(time / 60 % 60, 2) + digits(time % 60, 2)
    }
}
