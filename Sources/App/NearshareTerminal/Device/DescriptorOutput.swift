internal import Glibc
internal import Synchronization

/// Writes to standard output, standard error and terminals. They block, but for terminals after ``startQueueing()``.
package enum DescriptorOutput {
    private static let terminalQueue = Mutex<TerminalQueue?>(nil)
    private static let flushTimeout = Duration.seconds(1)

    /// Writes to terminals without waiting for them, from now on. Where the kernel refuses the thread for it, writes go on to block.
    package static func startQueueing() {
        terminalQueue.withLock { queue in
            guard queue == nil, let started = try? TerminalQueue() else { return }
            queue = started
            atexit { DescriptorOutput.terminalQueue.withLock { $0 }?.flush(timeout: DescriptorOutput.flushTimeout) }
        }
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

    /// Writes all bytes, or queues them for a terminal. Other errors than a closed pipe are kept in ``outputFailure``, and ignored
    /// on standard error.
    ///
    /// A closed pipe ends the process, as it ends other tools: successfully where standard output was closed (`| head`).
    package static func write(_ bytes: [UInt8], to descriptor: Int32) {
        guard !bytes.isEmpty else { return }
        if let queue = terminalQueue.withLock({ $0 }), TerminalProperties.isTerminal(descriptor) {
            queue.append(bytes, to: descriptor)
        } else {
            writeAll(bytes, to: descriptor)
        }
    }

    static func writeAll(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno == EPIPE {
                exit(descriptor == STDOUT_FILENO ? EXIT_SUCCESS : EXIT_FAILURE)
            } else if errno != EINTR, errno != EAGAIN {
                let code = errno
                if descriptor == STDOUT_FILENO {
                    _ = outputError.compareExchange(expected: 0, desired: code, ordering: .relaxed)
                }
                return
            }
        }
    }
}
