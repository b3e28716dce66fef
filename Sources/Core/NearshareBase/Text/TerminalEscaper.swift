/// Escapes content for a terminal piece by piece, as ``TerminalText`` escapes a text: lines and tabs stay as they are.
package struct TerminalEscaper: Sendable {
    /// The bytes of an incomplete character, and a carriage return that may belong to a line break.
    private var pending: [UInt8] = []

    package init() {}

    /// - Returns: the escaped text of the complete characters so far, in UTF-8.
    package mutating func append(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        pending += bytes
        let count = pending.count - Self.incompleteByteCount(at: pending)
        defer { pending.removeFirst(count) }
        return Self.escaped(pending[..<count])
    }

    /// - Returns: the rest, when nothing follows.
    package mutating func finish() -> [UInt8] {
        defer { pending = [] }
        return Self.escaped(pending[...])
    }

    private static func escaped(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        // CR LF is one character, and a line break.
        for character in String(decoding: bytes, as: UTF8.self) {
            switch character {
            case "\n", "\r\n": text.append(UInt8(ascii: "\n"))
            case "\t": text.append(UInt8(ascii: "\t"))
            default: text += TerminalText.escaped(String(character), columns: .max).utf8
            }
        }
        return text
    }

    /// The number of bytes at the end that may become a character, or a line break, with the next ones.
    private static func incompleteByteCount(at bytes: [UInt8]) -> Int {
        if bytes.last == UInt8(ascii: "\r") { return 1 }
        for count in 1...3 where count <= bytes.count {
            let byte = bytes[bytes.count - count]
            guard byte & 0xc0 != 0x80 else { continue }
            let length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
            return length > count ? count : 0
        }
        return 0
    }
}
