internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The PIN that LocalSend devices have to send, which is no argument: other users of this machine can read the command line.
enum LocalSendPIN {
    private static let maximumByteCount = 64

    /// Reads the first line of a file.
    static func read(path: String) throws -> String {
        let shown = TerminalText.escaped(path, columns: 400)
        guard let file = fopen(path, "re") else {
            throw CommandFailure(.failure, "could not read \(shown): \(systemErrorText())")
        }
        defer { fclose(file) }
        // One byte more than the longest PIN, its end of line and the final zero.
        var buffer = [CChar](repeating: 0, count: maximumByteCount + 3)
        let isRead = fgets(&buffer, Int32(buffer.count), file) != nil
        let line = buffer.prefix { $0 != 0 && $0 != 10 && $0 != 13 }.map { UInt8(bitPattern: $0) }
        guard isRead, (1...maximumByteCount).contains(line.count), line.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw CommandFailure(
                .usage,
                "\(shown) should have a PIN of at most \(maximumByteCount) ASCII letters, digits and signs in its first line")
        }
        return String(decoding: line, as: UTF8.self)
    }
}

extension PINPrompt {
    /// The PIN of a file, once: a wrong one is not sent again. Without a file, the user is asked on the terminal; nil without a terminal.
    static func make(file: String?, isQuiet: Bool) throws -> PINPrompt? {
        if let file {
            let pin = try LocalSendPIN.read(path: file)
            return PINPrompt { _, wasWrong in wasWrong ? nil : pin }
        }
        guard !isQuiet, let terminal = TerminalDevice() else { return nil }
        return PINPrompt { name, wasWrong in
            await LinePrompt.ask("PIN of \(name): ", on: terminal) {
                if wasWrong { Console.notice("that PIN is wrong; try again") }
            }
        }
    }
}
