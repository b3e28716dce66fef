internal import Nearshare

/// What somebody has pressed, or pasted.
enum TerminalKey: Sendable, Hashable {
    case text(String)
    /// All of it at once, with "\n" between its lines.
    case paste(String)
    case enter
    /// A line break inside a text: Alt-Enter, or Ctrl-J.
    case lineBreak
    case backspace, delete
    case left, right, wordLeft, wordRight, home, end
    case up, down, pageUp, pageDown
    case tab, backTab
    /// With a lower-case letter.
    case control(Character)
    case alt(Character)
    case escape
}

/// Makes keys of the bytes that a terminal in raw mode sends. Characters and escape sequences may be cut anywhere between two reads.
struct TerminalInput: Sendable {
    private var pending: [UInt8] = []
    private var pasted: [UInt8]?

    /// More of a paste is counted as too long by whoever gets it, and needs no memory.
    static let maximumPasteByteCount = ChatEntry.maximumTextByteCount + 1
    /// Longer control sequences are no keys.
    private static let maximumSequenceByteCount = 32
    private static let pasteEnd = Array("\u{1b}[201~".utf8)

    /// Nothing can be made of what is there without what follows: of an Escape key alone, for one.
    var isWaiting: Bool { !pending.isEmpty }

    mutating func take(_ bytes: some Sequence<UInt8>) -> [TerminalKey] {
        pending += bytes
        var keys: [TerminalKey] = []
        while !pending.isEmpty {
            if pasted != nil {
                guard let text = takePaste() else { break }
                keys.append(.paste(text))
                continue
            }
            let count = next(&keys)
            guard count > 0 else { break }
            pending.removeFirst(count)
        }
        return keys
    }

    /// So long after the last byte nothing belongs to it any more: Escape was pressed by itself.
    mutating func flush() -> [TerminalKey] {
        guard pasted == nil, !pending.isEmpty else { return [] }
        defer { pending = [] }
        return pending == [0x1b] ? [.escape] : []
    }

    /// - Returns: how many bytes were used; 0 when more have to come.
    private mutating func next(_ keys: inout [TerminalKey]) -> Int {
        let byte = pending[0]
        switch byte {
        case 0x1b: return escape(&keys)
        case 0x0d: keys.append(.enter)
        case 0x0a: keys.append(.lineBreak)
        case 0x09: keys.append(.tab)
        case 0x7f, 0x08: keys.append(.backspace)
        case 0..<0x20: keys.append(.control(Character(UnicodeScalar(byte | 0x60))))
        default:
            switch character(at: 0) {
            case .whole(let scalar, let count):
                // One key for all that was typed at once.
                if case .text(let text)? = keys.last {
                    keys[keys.count - 1] = .text(text + String(scalar))
                } else {
                    keys.append(.text(String(scalar)))
                }
                return count
            case .cut: return 0
            case .wrong: return 1
            }
        }
        return 1
    }

    private enum Decoded {
        case whole(Unicode.Scalar, Int)
        case cut
        case wrong
    }

    private func character(at start: Int) -> Decoded {
        let count: Int
        switch pending[start] {
        case 0x20...0x7e: count = 1
        case 0xc2...0xdf: count = 2
        case 0xe0...0xef: count = 3
        case 0xf0...0xf4: count = 4
        default: return .wrong
        }
        let bytes = pending[start...].prefix(count)
        guard bytes.dropFirst().allSatisfy({ $0 & 0xc0 == 0x80 }) else { return .wrong }
        guard bytes.count == count else { return .cut }
        guard let scalar = String(validating: bytes, as: UTF8.self)?.unicodeScalars.first,
            scalar.properties.generalCategory != .control
        else { return .wrong }
        return .whole(scalar, count)
    }

    private mutating func escape(_ keys: inout [TerminalKey]) -> Int {
        guard pending.count > 1 else { return 0 }
        switch pending[1] {
        case 0x1b:
            keys.append(.escape)
            return 1
        case 0x5b: return controlSequence(&keys)
        case 0x4f:
            guard pending.count > 2 else { return 0 }
            if let key = Self.key(final: pending[2], parameters: []) { keys.append(key) }
            return 3
        case 0x0d, 0x0a: keys.append(.lineBreak)
        case 0x7f, 0x08: keys.append(.control("w"))
        case UInt8(ascii: "b"): keys.append(.wordLeft)
        case UInt8(ascii: "f"): keys.append(.wordRight)
        case 0..<0x20: break
        default:
            switch character(at: 1) {
            case .whole(let scalar, let count):
                keys.append(.alt(Character(scalar)))
                return 1 + count
            case .cut: return 0
            case .wrong: break
            }
        }
        return 2
    }

    /// ESC "[", parameters, a final byte (ECMA-48, section 5.4).
    private mutating func controlSequence(_ keys: inout [TerminalKey]) -> Int {
        let body = pending[2...].prefix { (0x20...0x3f).contains($0) }
        let end = 2 + body.count
        guard end <= Self.maximumSequenceByteCount else { return end }
        guard end < pending.count else { return 0 }
        let final = pending[end]
        // What can't end a sequence is a key of its own.
        guard (0x40...0x7e).contains(final) else { return end }
        let parameters = body.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
            .map { Int(String(decoding: $0, as: UTF8.self)) ?? 0 }
        if final == UInt8(ascii: "~"), parameters.first == 200 {
            pasted = []
        } else if let key = Self.key(final: final, parameters: parameters) {
            keys.append(key)
        }
        return end + 1
    }

    private static func key(final: UInt8, parameters: [Int]) -> TerminalKey? {
        // 3 is Alt, 5 is Control.
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
            case 5: return isModified ? .control("p") : .pageUp
            case 6: return isModified ? .control("n") : .pageDown
            default: return nil
            }
        default: return nil
        }
    }

    private mutating func takePaste() -> String? {
        let end = pending.indices.first { pending[$0...].starts(with: Self.pasteEnd) }
        // The end may be cut between two reads.
        let taken = end ?? max(0, pending.count - Self.pasteEnd.count + 1)
        let room = Self.maximumPasteByteCount - (pasted?.count ?? 0)
        pasted? += pending[..<min(taken, room)]
        pending.removeFirst(taken + (end == nil ? 0 : Self.pasteEnd.count))
        guard end != nil, let bytes = pasted else { return nil }
        pasted = nil
        var text = ""
        // Terminals send CR for each line break in a paste.
        for character in String(decoding: bytes, as: UTF8.self) {
            text.append(character == "\r" || character == "\r\n" ? "\n" : character)
        }
        return text
    }
}
