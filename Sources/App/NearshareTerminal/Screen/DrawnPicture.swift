/// A picture for a terminal, as a program has drawn it: characters, colours, and the graphics of sixel, kitty and iTerm2.
///
/// The sender of a picture may have taken over the program that decoded it. Any other sequence could make the terminal answer as if the
/// user had typed, read files, or change its settings.
package struct DrawnPicture: Sendable, Hashable {
    package let bytes: [UInt8]

    /// Ends a picture of which the terminal has not received the rest: the kernel discards waiting output at Ctrl-C.
    package static let end = "\u{1b}\\\u{1b}[0m"

    private static let escape: UInt8 = 0x1b
    private static let bell: UInt8 = 0x07

    /// Default colours and styles.
    private static let reset = Array("\u{1b}[0m".utf8)

    /// - Parameters:
    ///   - output: of the program.
    ///   - usesUTF8: whether the terminal does; bytes of UTF-8 may be control characters in another encoding (T2).
    /// - Returns: nil for what is empty, or contains more than a picture.
    package init?(_ output: [UInt8], usesUTF8: Bool) {
        guard let last = output.last, String(validating: output, as: UTF8.self) != nil else { return nil }
        guard usesUTF8 || output.allSatisfy({ $0 < 0x80 }) else { return nil }
        var rest = output[...]
        while let first = rest.first {
            guard let count = first == Self.escape ? Self.sequenceLength(rest) : Self.textLength(rest) else { return nil }
            rest = rest.dropFirst(count)
        }
        // Later output begins on a line of its own, in the usual colours.
        bytes = output + Self.reset + (last == UInt8(ascii: "\n") ? [] : [UInt8(ascii: "\n")])
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

    /// Limit on the digits of a number: a terminal allocates and repeats as much as that says.
    private static let maximumDigitCount = 5

    private static func isNumber(_ text: ArraySlice<UInt8>) -> Bool {
        text.count <= maximumDigitCount && text.allSatisfy { (0x30...0x39).contains($0) }
    }

    /// Colours and styles, and a repeated character. A movement of the cursor could change what earlier commands have shown, and a mode
    /// would remain.
    private static func controlSequenceLength(_ body: ArraySlice<UInt8>) -> Int? {
        let parameters = body.prefix { (0x30..<0x3c).contains($0) }
        guard let final = body.dropFirst(parameters.count).first else { return nil }
        switch final {
        case UInt8(ascii: "m"): return parameters.count + 1
        case UInt8(ascii: "b"): return isNumber(parameters) ? parameters.count + 1 : nil
        default: return nil
        }
    }

    /// - Parameters:
    ///   - endsWithBell: whether terminals accept a bell as the end.
    ///   - isPicture: whether the string, without its end, is a part of a picture.
    private static func controlStringLength(
        _ body: ArraySlice<UInt8>, endsWithBell: Bool = false, isPicture: (ArraySlice<UInt8>) -> Bool
    ) -> Int? {
        let string = body.prefix { $0 != escape && $0 != bell }
        guard string.allSatisfy({ (0x20..<0x7f).contains($0) }), isPicture(string) else { return nil }
        let end = body.dropFirst(string.count).prefix(2)
        if endsWithBell, end.first == bell { return string.count + 1 }
        return end.elementsEqual([escape, UInt8(ascii: "\\")]) ? string.count + 2 : nil
    }

    /// A device control string with sixels: parameters, and `q`. An intermediate character before that would make it a question.
    private static func isSixel(_ string: ArraySlice<UInt8>) -> Bool {
        let parameters = string.prefix { (0x30...0x3b).contains($0) }
        return string.dropFirst(parameters.count).first == UInt8(ascii: "q")
    }

    /// Limit on the fields in front of the pixels.
    private static let maximumHeaderByteCount = 256

    /// A command of kitty's graphics protocol that carries the pixels itself, not compressed and in no format that the terminal would
    /// have to decode. Others name files, which the terminal would read, or an image (i, I), which the terminal would answer.
    private static func isKitty(_ string: ArraySlice<UInt8>) -> Bool {
        guard string.first == UInt8(ascii: "G") else { return false }
        let control = string.dropFirst().prefix { $0 != UInt8(ascii: ";") }
        guard control.count <= maximumHeaderByteCount else { return false }
        return control.split(separator: UInt8(ascii: ",")).allSatisfy { field in
            let value = field.dropFirst(2)
            guard field.dropFirst().first == UInt8(ascii: "="), let key = field.first else { return false }
            switch key {
            case UInt8(ascii: "a"): return value.elementsEqual("T".utf8)
            case UInt8(ascii: "t"): return value.elementsEqual("d".utf8)
            case UInt8(ascii: "f"): return value.elementsEqual("32".utf8) || value.elementsEqual("24".utf8)
            default: return "svcrmqC".utf8.contains(key) && isNumber(value)
            }
        }
    }

    /// A picture of iTerm2 in TIFF, which is shown. Another file would be saved, also where a second "inline" or a name follows, and
    /// other formats would have to be decoded by the terminal.
    private static func isITerm(_ string: ArraySlice<UInt8>) -> Bool {
        let beginning = "1337;File=inline=1;".utf8
        guard string.starts(with: beginning) else { return false }
        let rest = string.dropFirst(beginning.count)
        let header = rest.prefix { $0 != UInt8(ascii: ":") }
        guard header.count <= maximumHeaderByteCount, rest.dropFirst(header.count + 1).starts(with: "SUkqA".utf8) else {
            return false
        }
        return header.split(separator: UInt8(ascii: ";")).allSatisfy { field in
            ["width=", "height=", "preserveAspectRatio="].contains { name in
                field.starts(with: name.utf8) && isNumber(field.dropFirst(name.utf8.count))
            }
        }
    }
}
