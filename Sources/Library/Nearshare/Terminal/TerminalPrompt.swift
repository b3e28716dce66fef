internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// Questions at the controlling terminal of the process, one after the other, each answered with a line.
final class TerminalPrompt: Sendable {
    static let shared = TerminalPrompt()

    private let turn = Mutex(())

    /// Asks a question that is answered with "y" or another line.
    /// - Returns: false as well without a terminal, at its end, and when the task is cancelled first.
    func confirm(_ question: String) async -> Bool {
        ["y", "yes"].contains(await readLine(after: "\(question) (y/n) ")?.lowercased() ?? "n")
    }

    /// Shows a text, and waits for a line.
    /// - Returns: nil without a terminal, at its end, and when the task is cancelled first.
    func readLine(after text: String) async -> String? {
        // No answer is waited for.
        if Task.isCancelled { return nil }
        let cancellation = EventFD()
        return await withTaskCancellationHandler {
            let line: String?? = try? await BlockingThread.run { [self] in
                turn.withLock { _ in Terminal()?.readLine(after: text, unless: cancellation) }
            }
            return line ?? nil
        } onCancel: {
            cancellation.signal()
        }
    }

    /// Shows a line.
    func show(_ line: String) { Terminal()?.write("\(line)\n") }

    /// The opened terminal device. Standard input and output may lead elsewhere.
    private final class Terminal {
        private let descriptor: Int32

        init?() {
            descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
            if descriptor < 0 { return nil }
        }

        deinit { close(descriptor) }

        func write(_ text: String) {
            let bytes = Array(text.utf8)
            _ = Glibc.write(descriptor, bytes, bytes.count)
        }

        func readLine(after text: String, unless cancellation: EventFD) -> String? {
            // Cancelled while another question was open: it is not shown.
            guard DescriptorPoll.wait(for: [(cancellation.descriptor, .readable)], timeout: .zero) == [[]] else { return nil }
            write(text)
            let events = DescriptorPoll.wait(
                for: [(descriptor, .readable), (cancellation.descriptor, .readable)], timeout: nil)
            guard events.last?.isEmpty == true else {
                write("\n")
                return nil
            }
            // The terminal hands over a line at a time, of at most 4096 bytes.
            var buffer = [UInt8](repeating: 0, count: 4096)
            var count = 0
            repeat { count = read(descriptor, &buffer, buffer.count) } while count < 0 && errno == EINTR
            guard count > 0 else { return nil }
            return String(decoding: buffer[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }
    }
}
