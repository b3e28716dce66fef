/// A decoder of the bytes that a terminal in raw mode sends. Characters and escape sequences may be split anywhere between two
/// reads.
package struct TerminalInput: Sendable {
    /// Size limit of one paste, in bytes; the rest of a longer one is dropped, also from the middle of a character.
    package let maximumPasteByteCount: Int

    private var pending: [UInt8] = []
    private var paste: [UInt8]?

    /// Longer control sequences are not keys.
    private static let maximumSequenceByteCount = 32
    private static let pasteEnd = Array("\u{1b}[201~".utf8)

    package init(maximumPasteByteCount: Int) {
        self.maximumPasteByteCount = maximumPasteByteCount
    }

    /// Whether received bytes are incomplete without those that follow: an Escape key by itself, for example.
    package var isWaiting: Bool { !pending.isEmpty }

    package mutating func receive(_ bytes: some Sequence<UInt8>) -> [TerminalKey] {
        pending += bytes
        var keys: [TerminalKey] = []
        while !pending.isEmpty {
            if paste != nil {
                guard let text = readPaste() else { break }
                keys.append(.paste(text))
                continue
            }
            let count = decodeNext(into: &keys)
            guard count > 0 else { break }
            pending.removeFirst(count)
        }
        return keys
    }

    /// Ends an incomplete sequence after a pause: nothing that arrives later belongs to it. Escape was pressed by itself.
    package mutating func flush() -> [TerminalKey] {
        guard paste == nil, !pending.isEmpty else { return [] }
        defer { pending = [] }
        return pending == [0x1b] ? [.escape] : []
    }

    /// - Returns: the number of bytes used; 0 when the bytes are incomplete.
    private mutating func decodeNext(into keys: inout [TerminalKey]) -> Int {
        let byte = pending[0]
        switch byte {
        case 0x1b: return decodeEscape(into: &keys)
        case 0x0d: keys.append(.enter)
        case 0x0a: keys.append(.lineBreak)
        case 0x09: keys.append(.tab)
        case 0x7f, 0x08: keys.append(.backspace)
        case 0..<0x20: keys.append(.control(Character(UnicodeScalar(byte | 0x60))))
        default:
            switch decodeCharacter(at: 0) {
            case .complete(let scalar, let count):
                // Characters that arrive together are one key.
                if case .text(let text)? = keys.last {
                    keys[keys.count - 1] = .text(text + String(scalar))
                } else {
                    keys.append(.text(String(scalar)))
                }
                return count
            case .incomplete: return 0
            case .invalid: return 1
            }
        }
        return 1
    }

    private enum DecodedCharacter {
        case complete(Unicode.Scalar, byteCount: Int)
        case incomplete
        case invalid
    }

    private func decodeCharacter(at start: Int) -> DecodedCharacter {
        let count: Int
        switch pending[start] {
        case 0x20...0x7e: count = 1
        case 0xc2...0xdf: count = 2
        case 0xe0...0xef: count = 3
        case 0xf0...0xf4: count = 4
        default: return .invalid
        }
        let bytes = pending[start...].prefix(count)
        guard bytes.dropFirst().allSatisfy({ $0 & 0xc0 == 0x80 }) else { return .invalid }
        guard bytes.count == count else { return .incomplete }
        guard let scalar = String(validating: bytes, as: UTF8.self)?.unicodeScalars.first,
            scalar.properties.generalCategory != .control
        else { return .invalid }
        return .complete(scalar, byteCount: count)
    }

    private mutating func decodeEscape(into keys: inout [TerminalKey]) -> Int {
        guard pending.count > 1 else { return 0 }
        switch pending[1] {
        case 0x1b:
            keys.append(.escape)
            return 1
        case 0x5b: return decodeControlSequence(into: &keys)
        case 0x4f:
            guard pending.count > 2 else { return 0 }
            if let key = Self.key(final: pending[2], parameters: []) { keys.append(key) }
            return 3
        case 0x0d, 0x0a: keys.append(.lineBreak)
        // Alt-Backspace is the shortcut that removes a word.
        case 0x7f, 0x08: keys.append(.control("w"))
        case UInt8(ascii: "b"): keys.append(.wordLeft)
        case UInt8(ascii: "f"): keys.append(.wordRight)
        case 0..<0x20: break
        default:
            switch decodeCharacter(at: 1) {
            case .complete(let scalar, let count):
                keys.append(.alt(Character(scalar)))
                return 1 + count
            case .incomplete: return 0
            case .invalid: break
            }
        }
        return 2
    }

    /// Decodes ESC "[", parameters and a final byte (ECMA-48, section 5.4).
    private mutating func decodeControlSequence(into keys: inout [TerminalKey]) -> Int {
        // The Linux console sends ESC "[" "[" and a letter for F1 to F5, which have no meaning here.
        if pending.count > 2, pending[2] == 0x5b {
            guard pending.count > 3 else { return 0 }
            return (0x40...0x7e).contains(pending[3]) ? 4 : 3
        }
        let body = pending[2...].prefix { (0x20...0x3f).contains($0) }
        let end = 2 + body.count
        guard end <= Self.maximumSequenceByteCount else { return end }
        guard end < pending.count else { return 0 }
        let final = pending[end]
        // A byte that cannot end a sequence is a key of its own.
        guard (0x40...0x7e).contains(final) else { return end }
        let parameters = body.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
            .map { Int(String(decoding: $0, as: UTF8.self)) ?? 0 }
        if final == UInt8(ascii: "~"), parameters.first == 200 {
            paste = []
        } else if let key = Self.key(final: final, parameters: parameters) {
            keys.append(key)
        }
        return end + 1
    }

    private static func key(final: UInt8, parameters: [Int]) -> TerminalKey? {
        // Modifier 3 is Alt, 5 is Control.
        let isModified = parameters.count > 1 && [3, 5].contains(parameters[1])
        switch final {
        case UInt8(ascii: "A"): return .up
        case UInt8(ascii: "B"): return .down
        case UInt8(ascii: "C"): return isModified ? .wordRight : .right
        case UInt8(ascii: "D"): return isModified ? .wordLeft : .left
        case UInt8(ascii: "H"): return .home
        case UInt8(ascii: "F"): return .end
        case UInt8(ascii: "Z"): return .backTab
        case UInt8(ascii: "~"):
            switch parameters.first {
            case 1, 7: return .home
            case 3: return .delete
            case 4, 8: return .end
            // The shortcuts of the chat for the conversation before and after.
            case 5: return isModified ? .control("p") : .pageUp
            case 6: return isModified ? .control("n") : .pageDown
            default: return nil
            }
        default: return nil
        }
    }

    /// - Returns: nil until the end of the paste has arrived.
    private mutating func readPaste() -> String? {
        let end = pending.indices.first { pending[$0...].starts(with: Self.pasteEnd) }
        // The end marker may be split between two reads.
        let count = end ?? max(0, pending.count - Self.pasteEnd.count + 1)
        let availableByteCount = max(0, maximumPasteByteCount - (paste?.count ?? 0))
        paste? += pending[..<min(count, availableByteCount)]
        pending.removeFirst(count + (end == nil ? 0 : Self.pasteEnd.count))
        guard end != nil, let bytes = paste else { return nil }
        paste = nil
        // Terminals send CR for each line break of a paste.
        return String(String(decoding: bytes, as: UTF8.self).map { $0 == "\r" || $0 == "\r\n" ? "\n" : $0 })
    }
}
