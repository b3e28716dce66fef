internal import Nearshare
internal import NearshareService

/// The command line as it was passed to the process. The parser sees a repaired form: what is not UTF-8 is U+FFFD there.
struct CommandLineBytes {
    private let words: [[UInt8]]

    init(_ words: [[UInt8]]) {
        self.words = words
    }

    /// The words of this process, which do not change.
    static var ofProcess: CommandLineBytes {
        CommandLineBytes(
            UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc)).compactMap { word in
                word.map { LocalPath(cString: $0).bytes }
            })
    }

    /// The paths that the parser has read as `operands`, in the same order. Different paths may have the same repaired form.
    /// - Throws: a usage error where an option has a value of the same form: which word is the operand is not known then.
    func paths(of operands: [String]) throws -> [LocalPath] {
        var candidates: [[UInt8]: [[UInt8]]] = [:]
        for word in words.dropFirst() {
            candidates[Array(String(decoding: word, as: UTF8.self).utf8), default: []].append(word)
        }
        let counts = Dictionary(grouping: operands) { Array($0.utf8) }.mapValues(\.count)
        var taken: [[UInt8]: Int] = [:]
        return try operands.map { operand in
            let form = Array(operand.utf8)
            guard operand.unicodeScalars.contains("\u{fffd}"), let words = candidates[form] else { return LocalPath(operand) }
            guard words.count <= counts[form, default: 0] || Set(words).count == 1 else {
                throw CommandFailure(
                    .usage,
                    "\(TerminalText.escaped(operand)) is ambiguous: the value of an option differs from it only in bytes that are not UTF-8"
                )
            }
            let number = taken[form, default: 0]
            guard number < words.count else { return LocalPath(operand) }
            taken[form] = number + 1
            return LocalPath(bytes: words[number])
        }
    }
}
