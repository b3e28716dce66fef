internal import Nearshare

/// The command line as it was passed to the process. The parser sees a repaired form: what is not UTF-8 is U+FFFD there.
struct CommandLineBytes {
    private let words: [[UInt8]]

    init(_ words: [[UInt8]]) {
        self.words = words
    }

    /// The words of this process. Called while it has one thread, or later: nothing changes them.
    static var ofProcess: CommandLineBytes {
        CommandLineBytes(
            UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc)).compactMap { word in
                word.map { LocalPath(cString: $0).bytes }
            })
    }

    /// The paths that the parser has read as `operands`, in the same order. Equal repaired forms may stand for different paths.
    func paths(of operands: [String]) -> [LocalPath] {
        var rest = words.dropFirst()
        return operands.map { operand in
            guard operand.unicodeScalars.contains("\u{fffd}"),
                let index = rest.firstIndex(where: { operand.utf8.elementsEqual(String(decoding: $0, as: UTF8.self).utf8) })
            else { return LocalPath(operand) }
            defer { rest.remove(at: index) }
            return LocalPath(bytes: rest[index])
        }
    }
}
