internal import Glibc
internal import Nearshare
package import NearshareBundles

/// A file of exported keys, or standard input.
package struct KeysFile: Sendable {
    private let path: String

    /// - Parameter path: `-` for standard input.
    package init(path: String) { self.path = path }

    private var isStandardInput: Bool { path == "-" }

    /// The file in messages; safe for a terminal.
    package var shownName: String { isStandardInput ? "standard input" : TerminalText.path(path) }

    /// Reads the keys that another machine has exported.
    package func read() throws(CommandFailure) -> ExportedKeys {
        let descriptor = isStandardInput ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { throw failure("could not read", code: errno) }
        defer { if !isStandardInput { close(descriptor) } }
        let bytes: [UInt8]
        do throws(SystemCallError) {
            // One byte above the limit, to detect longer files.
            bytes = try InputReader.read(descriptor, upTo: ExportedKeys.maximumByteCount + 1)
        } catch {
            throw failure("could not read", code: error.code)
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw failure(.notAKeysFile) }
        do throws(ExportedKeys.Invalid) {
            return try ExportedKeys(decoding: text)
        } catch {
            throw failure(error)
        }
    }

    /// Creates the file. One that cannot be written completely is removed again.
    /// - Throws: also when there is a file of that name.
    package func create(holding text: String) throws(CommandFailure) {
        do throws(SystemCallError) {
            try NewFile.create(path, isPrivate: false, holding: text)
        } catch {
            guard error.code != EEXIST else {
                throw CommandFailure(.failure, "\(shownName) already exists; choose another file, or remove it")
            }
            throw failure("could not write", code: error.code)
        }
    }

    private func failure(_ problem: String, code: Int32) -> CommandFailure {
        let isFull = code == ENOSPC || code == EDQUOT
        return CommandFailure(isFull ? .noSpace : .failure, "\(problem) \(shownName): \(systemErrorText(code))")
    }

    private func failure(_ error: ExportedKeys.Invalid) -> CommandFailure {
        CommandFailure(.failure, "\(shownName) could not be imported: \(ErrorMessage.text(for: error))")
    }
}
