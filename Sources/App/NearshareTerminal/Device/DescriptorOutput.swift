internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// Writes to standard output, standard error and terminals. They block, but for those of ``startQueueing(omittedEvents:)``.
package enum DescriptorOutput {
    private struct Queues {
        var terminals: OutputQueue?
        /// The queue of standard output where that takes events for a program.
        var events: OutputQueue?
    }

    private static let queues = Mutex(Queues())
    private static let flushTimeout = Duration.seconds(1)
    /// More than a burst of a fast program, and more than a user scrolls through.
    static let terminalByteCount = 256 << 10
    /// More than a program has to read that is busy for a while.
    private static let eventByteCount = 4 << 20

    /// Writes to terminals, and events to standard output, without waiting for them, from now on. Where the kernel refuses the
    /// threads for it, writes go on to block.
    /// - Parameter omittedEvents: makes the event that counts those left out; nil where standard output takes no events.
    package static func startQueueing(omittedEvents: (@Sendable (Int) -> String)? = nil) {
        queues.withLock { queues in
            guard queues.terminals == nil else { return }
            queues.terminals = try? OutputQueue(maximumByteCount: terminalByteCount, omissionLine: terminalOmission)
            if let omittedEvents {
                queues.events = try? OutputQueue(maximumByteCount: eventByteCount) { omittedEvents($0) + "\n" }
            }
            atexit {
                let queues = DescriptorOutput.queues.withLock { $0 }
                for queue in [queues.events, queues.terminals] { queue?.flush(timeout: DescriptorOutput.flushTimeout) }
            }
        }
    }

    /// The line on a terminal about lines that were left out.
    static func terminalOmission(_ count: Int) -> String {
        "nearshare: \(count == 1 ? "1 line was" : "\(count) lines were") not shown: the terminal did not take them in time\n"
    }

    /// The first errno of a write to standard output, other than of a closed pipe; 0 for none.
    private static let outputError = Atomic<Int32>(0)

    /// The reason why results are missing on standard output; nil when all were written.
    package static var outputFailure: String? {
        let code = outputError.load(ordering: .relaxed)
        return code == 0 ? nil : "could not write to standard output: \(String(cString: strerror(code)))"
    }

    /// Writes a text. A terminal with another encoding than UTF-8 gets ASCII: other bytes may be control characters there (T2).
    /// - Parameter isMessage: whether the user reads it, rather than a program. Without UTF-8, what this program draws is ASCII in
    ///   a file and a pipe as well; names stay as they are.
    package static func write(_ text: String, to descriptor: Int32, isMessage: Bool = false) {
        var text = text
        if !TerminalProperties.usesUTF8 {
            if TerminalProperties.isTerminal(descriptor) {
                text = TextLayout.replacingNonASCII(text)
            } else if isMessage {
                text = TextLayout.replacingDrawnSigns(text)
            }
        }
        write(Array(text.utf8), to: descriptor)
    }

    /// Writes all bytes, or queues them. Other errors than a closed pipe are kept in ``outputFailure``, and ignored
    /// on standard error.
    ///
    /// A closed pipe ends the process, as it ends other tools: successfully where standard output was closed (`| head`).
    package static func write(_ bytes: [UInt8], to descriptor: Int32) {
        guard !bytes.isEmpty else { return }
        let queues = queues.withLock { $0 }
        if descriptor == STDOUT_FILENO, let queue = queues.events {
            queue.append(bytes, to: descriptor)
        } else if let queue = queues.terminals, TerminalProperties.isTerminal(descriptor) {
            queue.append(bytes, to: descriptor)
        } else {
            writeAll(bytes, to: descriptor)
        }
    }

    static func writeAll(_ bytes: [UInt8], to descriptor: Int32) {
        do throws(SystemCallError) {
            try bytes.withUnsafeBufferPointer { (bytes) throws(SystemCallError) in
                try DescriptorIO.writeAll(UnsafeRawBufferPointer(bytes), to: descriptor)
            }
        } catch {
            if error.code == EPIPE { exit(descriptor == STDOUT_FILENO ? EXIT_SUCCESS : EXIT_FAILURE) }
            guard descriptor == STDOUT_FILENO else { return }
            _ = outputError.compareExchange(expected: 0, desired: error.code, ordering: .relaxed)
        }
    }
}
