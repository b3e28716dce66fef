internal import Glibc
internal import Nearshare
internal import NearshareSandbox
internal import NearshareService
internal import NearshareTerminal

/// Draws received pictures for a terminal with chafa, in a process without rights: their senders chose each of the bytes that it
/// decodes.
struct PictureViewer: Sendable {
    /// The helper process; nil where chafa is not installed.
    private let launcher: (any WorkerLauncher)?

    /// Time of a picture.
    static let timeout = Duration.seconds(10)
    /// Time beyond that for starting the program.
    private static let startTime = Duration.seconds(2)
    /// Limit on a drawing: that of a large terminal, in sixels.
    private static let maximumByteCount = 16 << 20

    private static let programPaths = ["/usr/local/bin/chafa", "/usr/bin/chafa", "/bin/chafa"]
    /// The variables by which chafa knows the language and the terminal.
    private static let languageNames = ["LANG", "LC_ALL", "LC_CTYPE"]
    private static let terminalNames = ["TERM", "COLORTERM"]
    /// Variables of a terminal that remain set in tmux and screen, which would not pass its graphics on.
    private static let outerTerminalNames = [
        "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "LC_TERMINAL", "TERMINAL_NAME", "VTE_VERSION", "KONSOLE_VERSION", "CTX_BACKEND",
    ]

    /// Starts the helper process. Called while the program has one thread, and before it is confined.
    static func start() throws -> PictureViewer {
        let variables = environment { name in getenv(name).map { String(cString: $0) } }
        let program = ConfinedProgram(paths: programPaths, environment: variables)
        guard program.isInstalled else { return PictureViewer(launcher: nil) }
        let usesUTF8 = TerminalProperties.usesUTF8
        let routine = program.routine(timeout: timeout) { arguments(for: $0, usesUTF8: usesUTF8) }
        return PictureViewer(launcher: try startHelper([.drawPicture: routine]))
    }

    /// - Parameter value: reads a variable; nil for one that is not set.
    static func environment(_ value: (String) -> String?) -> [String] {
        let kind = value("TERM") ?? ""
        let isMultiplexer = kind.hasPrefix("screen") || kind.hasPrefix("tmux")
        let names = terminalNames + (isMultiplexer ? [] : outerTerminalNames) + languageNames
        return names.compactMap { name in value(name).map { "\(name)=\($0)" } }
    }

    /// The request for a picture within so many columns and rows.
    static func request(for size: TerminalSize) -> [UInt8] {
        [size.columns, size.rows].flatMap { (count: Int) -> [UInt8] in
            let number = UInt16(clamping: max(1, count))
            return [UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number)]
        }
    }

    /// The arguments of chafa for a request.
    static func arguments(for request: [UInt8], usesUTF8: Bool) -> [String] {
        let bytes = request.count == 4 ? request.map { Int($0) } : [0, 80, 0, 24]
        let size = "\(bytes[0] << 8 | bytes[1])x\(bytes[2] << 8 | bytes[3])"
        return ["--animate", "off", "--polite", "on", "--threads", "1", "--size", size]
            + (usesUTF8 ? [] : ["--symbols", "ascii"]) + [ConfinedProgram.filePath]
    }

    /// Draws a picture.
    /// - Parameter size: the space for it.
    func draw(_ path: String, in size: TerminalSize) async throws -> DrawnPicture {
        guard let launcher else { throw Self.missing }
        return try await BlockingThread.run { Result { try Self.draw(path, in: size, by: launcher) } }.get()
    }

    private static func draw(_ path: String, in size: TerminalSize, by launcher: any WorkerLauncher) throws -> DrawnPicture {
        let shown = TerminalText.path(path)
        // A pipe with this name would block.
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { throw CommandFailure(.failure, "could not open \(shown): \(systemErrorText())") }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw CommandFailure(.failure, "\(shown) is not a file")
        }
        let deadline = SystemClock.monotonic() + timeout + startTime
        let output: [UInt8]?
        do throws(SystemCallError) {
            let worker = try WorkerConnection(launcher, .drawPicture, passing: file)
            // A worker that does not read it sends nothing either.
            _ = request(for: size).withUnsafeBytes { worker.send($0, by: deadline) }
            worker.finishSending()
            output = worker.receiveAll(limit: maximumByteCount, by: deadline)
        } catch {
            throw CommandFailure(.failure, "could not start a helper process: \(systemErrorText(error.code))")
        }
        return try picture(in: output, of: shown, usesUTF8: TerminalProperties.usesUTF8)
    }

    /// The drawing that a worker has sent.
    /// - Parameters:
    ///   - output: what chafa wrote, and the byte for its ending; nil when it was late or too long.
    ///   - shown: the path, escaped for a terminal.
    ///   - usesUTF8: whether the terminal does.
    static func picture(in output: [UInt8]?, of shown: String, usesUTF8: Bool) throws(CommandFailure) -> DrawnPicture {
        guard let output, let ending = output.last.map({ ConfinedProgram.Ending(byte: $0) }) else {
            throw CommandFailure(.failure, "chafa could not draw \(shown) in time; `nearshare inbox open` opens it")
        }
        switch ending {
        case .exited(0):
            guard let picture = DrawnPicture(Array(output.dropLast()), usesUTF8: usesUTF8) else {
                throw CommandFailure(.failure, "\(shown) is not shown: chafa wrote more than a picture")
            }
            return picture
        case .exited:
            throw CommandFailure(
                .failure, "chafa could not draw \(shown): it is damaged, too large, or of a format that chafa does not know")
        case .notConfined:
            throw CommandFailure(
                .failure,
                "\(shown) is not shown: chafa runs only where it can be confined, with Landlock (Linux 5.19) and libseccomp "
                    + "(Debian: libseccomp2); `nearshare inbox open` opens it")
        case .notStarted: throw missing
        }
    }

    private static let missing = CommandFailure(.failure, "chafa, which draws pictures, is not installed (Debian: chafa)")
}
