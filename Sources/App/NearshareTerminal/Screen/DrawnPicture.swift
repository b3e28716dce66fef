/// A picture for a terminal, as a program has drawn it: characters, colours, and the graphics of sixel, kitty and iTerm2.
///
/// The sender of a picture may have taken over the program that decoded it. Any other sequence could make the terminal answer as if the
/// user had typed, read files, or change its settings.
package struct DrawnPicture: Sendable, Hashable {
    package let bytes: [UInt8]

    private static let escape: UInt8 = 0x1b
    private static let bell: UInt8 = 0x07

    /// - Parameter output: of the program.
    /// - Returns: nil for what is empty, or contains more than a picture.
    package init?(_ output: [UInt8]) {
        guard let last = output.last, String(validating: output, as: UTF8.self) != nil else { return nil }
        var rest = output[...]
        while let first = rest.first {
            guard let count = first == Self.escape ? Self.sequenceLength(rest) : Self.textLength(rest) else { return nil }
            rest = rest.dropFirst(count)
        }
        // Later output begins on a line of its own.
        bytes = last == UInt8(ascii: "\n") ? output : output + [UInt8(ascii: "\n")]
    }

    /// The number of bytes before the next escape sequence; nil where there is a control character but a line break among them.
    private static func textLength(_ rest: ArraySlice<UInt8>) -> Int? {
        var previous: UInt8 = 0
        let text = rest.prefix { $0 != escape }
        for byte in text {
            // In UTF-8 the control characters from U+0080 on begin with C2.
            let isSecondByteOfControl = previous == 0xc2 && byte < 0xa0
            guard isPrintableOrLineBreak(byte) || byte >= 0x80, !isSecondByteOfControl else { return nil }
            previous = byte
        }
        return text.count
    }

    private static func isPrintableOrLineBreak(_ byte: UInt8) -> Bool {
        (0x20..<0x7f).contains(byte) || byte == 0x0a || byte == 0x0d
    }

    /// The number of bytes of the escape sequence at the beginning (ECMA-48, 5.4 and 5.6); nil for one that no picture needs.
    private static func sequenceLength(_ rest: ArraySlice<UInt8>) -> Int? {
        let body = rest.dropFirst(2)
        guard let kind = rest.dropFirst().first else { return nil }
        switch kind {
        case UInt8(ascii: "["): return controlSequenceLength(body).map { $0 + 2 }
        case UInt8(ascii: "P"): return controlStringLength(body, isPicture: isSixel).map { $0 + 2 }
        case UInt8(ascii: "_"): return controlStringLength(body, isPicture: isKitty).map { $0 + 2 }
        case UInt8(ascii: "]"): return controlStringLength(body, endsWithBell: true, isPicture: isITerm).map { $0 + 2 }
        default: return nil
        }
    }

    /// Modes that programs set around a picture: cursor, wrapping, and how sixels scroll.
    private static let modes = ["?25", "?7", "?80", "?8452"]

    private static func controlSequenceLength(_ body: ArraySlice<UInt8>) -> Int? {
        let parameters = body.prefix { (0x30...0x3f).contains($0) }
        guard let final = body.dropFirst(parameters.count).first else { return nil }
        switch final {
        // Colours and styles, a repeated character, movements of the cursor.
        case UInt8(ascii: "m"), UInt8(ascii: "b"), UInt8(ascii: "A")...UInt8(ascii: "H"):
            guard parameters.allSatisfy({ $0 < 0x3c }) else { return nil }
        case UInt8(ascii: "h"), UInt8(ascii: "l"):
            guard modes.contains(String(decoding: parameters, as: UTF8.self)) else { return nil }
        default: return nil
        }
        return parameters.count + 1
    }

    /// - Parameters:
    ///   - endsWithBell: whether terminals accept a bell as the end.
    ///   - isPicture: whether the string, without its end, is a part of a picture.
    private static func controlStringLength(
        _ body: ArraySlice<UInt8>, endsWithBell: Bool = false, isPicture: (ArraySlice<UInt8>) -> Bool
    ) -> Int? {
        let string = body.prefix { $0 != escape && $0 != bell }
        guard string.allSatisfy(isPrintableOrLineBreak), isPicture(string) else { return nil }
        let end = body.dropFirst(string.count).prefix(2)
        if endsWithBell, end.first == bell { return string.count + 1 }
        return end.elementsEqual([escape, UInt8(ascii: "\\")]) ? string.count + 2 : nil
    }

    /// A device control string with sixels: parameters, and `q`. An intermediate character before that would make it a question.
    private static func isSixel(_ string: ArraySlice<UInt8>) -> Bool {
        let parameters = string.prefix { (0x30...0x3b).contains($0) }
        return string.dropFirst(parameters.count).first == UInt8(ascii: "q")
    }

    /// A command of kitty's graphics protocol that carries the pixels itself: others name files, which the terminal would read.
    private static func isKitty(_ string: ArraySlice<UInt8>) -> Bool {
        guard string.first == UInt8(ascii: "G") else { return false }
        let control = string.dropFirst().prefix { $0 != UInt8(ascii: ";") }
        return control.split(separator: UInt8(ascii: ",")).allSatisfy { field in
            let value = field.dropFirst(2)
            guard field.dropFirst().first == UInt8(ascii: "="), let key = field.first else { return false }
            switch key {
            case UInt8(ascii: "a"): return value.elementsEqual("T".utf8)
            case UInt8(ascii: "t"): return value.elementsEqual("d".utf8)
            case UInt8(ascii: "o"): return value.elementsEqual("z".utf8)
            default: return "fsvcrmqCiUXYzp".utf8.contains(key) && value.allSatisfy { (0x30...0x39).contains($0) }
            }
        }
    }

    /// A picture of iTerm2, which is shown; another file would be saved.
    private static func isITerm(_ string: ArraySlice<UInt8>) -> Bool { string.starts(with: "1337;File=inline=1;".utf8) }
}
