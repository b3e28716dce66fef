internal import Dispatch
internal import Glibc
package import NearshareBase
internal import Synchronization

/// The controlling terminal of the process, wherever standard input and output lead: the device for questions and single keys.
package final class TerminalDevice: Sendable {
    package let descriptor: Int32
    /// Whether a question is shown, for which ``answerKeys()`` reads keys.
    private let readsAnswer = Atomic(false)
    /// Raw mode while an answer is typed.
    private let answerMode = Mutex<RawMode.Token?>(nil)

    /// - Returns: nil for a process without a terminal.
    package init?() {
        descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { return nil }
    }

    /// Takes over an open descriptor of a terminal, such as one end of a pseudo-terminal.
    package init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    package var size: TerminalSize { TerminalProperties.size(of: descriptor) }

    /// Writes whole lines above the status area.
    package func write(_ text: String) {
        StatusDisplay.shared.withAreaCleared { DescriptorOutput.write(text, to: descriptor) }
    }

    /// Writes text above the status area, wrapped at words: whole lines, or a question.
    package func writeWrapped(_ text: String) { write(TextLayout.wrappedText(text, columns: size.columns)) }

    /// Discards input that was typed and not read.
    package func discardInput() {
        // In the background the call would stop this process.
        if isForeground { tcflush(descriptor, TCIFLUSH) }
    }

    /// Number of bytes that were typed and not read; in line mode those of whole lines.
    var pendingByteCount: Int {
        var count: Int32 = 0
        return ioctl(descriptor, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
    }

    // MARK: Lines

    /// The lines that the user types, until the terminal closes or the consumer stops. After a return from the background an
    /// empty line is emitted, as if Enter had been pressed, so that the consumer shows its question again.
    /// - Parameter endsAtControlD: whether Ctrl-D on an empty line is the end, as it is of a dialogue of this process alone.
    package func lines(endsAtControlD: Bool = false) -> AsyncStream<String> {
        Self.readInBackground("lines") { [self] wakeUp, emit in readLines(wakeUp, endsAtControlD, emit) }
    }

    /// The values that `read` emits on a thread of its own, which ends after the consumer has stopped.
    private static func readInBackground<Value: Sendable>(
        _ name: String, _ read: @escaping @Sendable (InputWakeUp, (Value) -> Void) -> Void
    ) -> AsyncStream<Value> {
        AsyncStream { continuation in
            let wakeUp = InputWakeUp()
            continuation.onTermination = { _ in wakeUp.stop() }
            makeQueue(name).async {
                blockTerminalInputSignal()
                read(wakeUp) { continuation.yield($0) }
                continuation.finish()
            }
        }
    }

    private func readLines(_ wakeUp: InputWakeUp, _ endsAtControlD: Bool, _ emit: (String) -> Void) {
        var pending: [UInt8] = []
        var stops = wakeUp.continuationCount
        readInForeground(wakeUp) { hasReturned in
            let latest = wakeUp.continuationCount
            if hasReturned || latest != stops { emit("") }
            stops = latest
            return nil
        } receive: { result in
            switch result {
            case .bytes(let bytes): pending += bytes
            case .nothing: break
            case .endOfInput where endsAtControlD && pending.isEmpty: return false
            // Ctrl-D on an empty line does not close a terminal: the next line may hold an answer.
            case .endOfInput: pause()
            case .closed: return false
            }
            while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                emit(String(decoding: pending[..<end], as: UTF8.self))
                pending.removeSubrange(...end)
            }
            return true
        }
    }

    /// Reads input until the consumer stops or `receive` returns false. While this process is in the background, it waits: input
    /// then belongs to another process group, and reading it would stop this process.
    /// - Parameters:
    ///   - prepare: called before each read, with whether the process was in the background since the last one. Returns the timeout
    ///     of the read in milliseconds; nil for none.
    ///   - receive: called with each result. The terminal is closed only where this process is in the foreground.
    private func readInForeground(
        _ wakeUp: InputWakeUp, prepare: (_ hasReturned: Bool) -> Int32?, receive: (ReadResult) -> Bool
    ) {
        var wasForeground = true
        while !wakeUp.isStopped {
            guard isForeground else {
                wasForeground = false
                // Timed: nothing tells a process that it is in the foreground again, see the constant.
                _ = wakeUp.wait(for: nil, timeout: Self.backgroundTimeout)
                continue
            }
            let timeout = prepare(!wasForeground)
            wasForeground = true
            let result = read(wakeUp, timeout: timeout)
            // A race: the process went to the background between the check and the read.
            if case .closed = result, !isForeground { continue }
            guard receive(result) else { return }
        }
    }

    /// Whether the terminal's input belongs to this process group. True also where that is unknown, as for a closed terminal.
    private var isForeground: Bool {
        let group = tcgetpgrp(descriptor)
        return group < 0 || group == getpgrp()
    }

    /// Bounds the rate of reads at a device that reports the end of its input all the time.
    private func pause() { poll(nil, 0, 100) }

    /// Makes a read from the background fail on this thread instead of stopping the process.
    private static func blockTerminalInputSignal() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTTIN)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    // MARK: Answers

    /// The keys that the user presses while a question is shown, and a line that is typed while there is none, until the terminal
    /// closes or the consumer stops. A return to the foreground emits ``AnswerKey/redraw``.
    package func answerKeys() -> AsyncStream<AnswerKey> {
        Self.readInBackground("answers") { [self] wakeUp, emit in
            readAnswerKeys(wakeUp, onIdleLine: { emit(.idleLine) }) { if let key = AnswerKey($0) { emit(key) } }
            setReadsAnswer(false)
        }
    }

    /// Begins or ends the reading of an answer: keys are then read one by one and not echoed, so that the program can show
    /// again what was typed after other output.
    package func setReadsAnswer(_ reads: Bool) {
        readsAnswer.store(reads, ordering: .releasing)
        updateAnswerMode()
    }

    private func readAnswerKeys(
        _ wakeUp: InputWakeUp, onIdleLine: () -> Void = {}, _ emit: (TerminalKey) -> Void
    ) {
        var input = TerminalInput(maximumPasteByteCount: 256)
        var hadInput = false
        var stops = wakeUp.continuationCount
        readInForeground(wakeUp) { hasReturned in
            let latest = wakeUp.continuationCount
            defer { stops = latest }
            // A shell may have changed the mode while the process was stopped.
            if updateAnswerMode() || hasReturned || latest != stops { emit(.control("l")) }
            return hadInput ? Self.sequenceTimeout : nil
        } receive: { result in
            switch result {
            case .bytes(let bytes):
                // Without a question there is nothing to answer.
                guard readsAnswer.load(ordering: .acquiring) else {
                    if bytes.last == 0x0a, bytes.contains(where: { $0 > 0x20 }) { onIdleLine() }
                    return true
                }
                hadInput = true
                for key in input.receive(bytes) { emit(key) }
            case .nothing:
                hadInput = false
                for key in input.flush() { emit(key) }
            case .endOfInput: pause()
            case .closed: return false
            }
            return true
        }
    }

    /// Sets the terminal's mode as the question requires. In the background the terminal belongs to another process.
    /// - Returns: whether raw mode was begun.
    @discardableResult
    private func updateAnswerMode() -> Bool {
        guard isForeground else { return false }
        return answerMode.withLock { token in
            guard readsAnswer.load(ordering: .acquiring) else {
                if let current = token { RawMode.end(current) }
                token = nil
                return false
            }
            var mode = termios()
            guard tcgetattr(descriptor, &mode) == 0, mode.c_lflag & tcflag_t(ICANON) != 0 else { return false }
            token = RawMode.begin(on: descriptor)
            return true
        }
    }

    // MARK: Keys

    /// Calls `receive` with the keys that the user presses, until the task is cancelled or the terminal closes; the terminal is in
    /// raw mode meanwhile. A return to the foreground is Ctrl-L, so that the screen is drawn again. Returns when no read is under
    /// way: what is typed from then on is left to the next reader.
    package func readKeys(_ receive: @escaping @Sendable (TerminalKey) -> Void) async {
        let wakeUp = InputWakeUp()
        setReadsAnswer(true)
        await withTaskCancellationHandler {
            await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in
                Self.makeQueue("keys").async { [self] in
                    Self.blockTerminalInputSignal()
                    readAnswerKeys(wakeUp, receive)
                    setReadsAnswer(false)
                    ended.resume()
                }
            }
        } onCancel: {
            wakeUp.stop()
        }
    }

    /// Reads input until the consumer stops or the device closes. Blocks its thread.
    /// - Parameter receive: called with the bytes of each read, and once with none when nothing has followed for 50 ms.
    package func readBytes(_ wakeUp: InputWakeUp, _ receive: ([UInt8]) -> Void) {
        var hadInput = false
        while !wakeUp.isStopped {
            switch read(wakeUp, timeout: hadInput ? Self.sequenceTimeout : nil) {
            case .bytes(let bytes):
                hadInput = true
                receive(bytes)
            case .nothing:
                if hadInput { receive([]) }
                hadInput = false
            // In raw mode Ctrl-D is a key, and an empty read the end of the device.
            case .endOfInput, .closed: return
            }
        }
    }

    private enum ReadResult {
        case bytes([UInt8])
        /// The wait ended without input.
        case nothing
        /// Ctrl-D at the start of a line, or the end of the device.
        case endOfInput
        case closed
    }

    /// Time after which an incomplete escape sequence is one no longer, in milliseconds.
    private static let sequenceTimeout: Int32 = 50

    /// Time after which a process in the background looks whether it is in the foreground again, in milliseconds. Nothing tells it:
    /// bash sends SIGCONT only to a job that is stopped.
    private static let backgroundTimeout: Int32 = 200

    private func read(_ wakeUp: InputWakeUp, timeout: Int32? = nil) -> ReadResult {
        guard let events = wakeUp.wait(for: descriptor, timeout: timeout) else { return .closed }
        // After the end, input belongs to the next reader.
        guard events != 0, !wakeUp.isStopped else { return .nothing }
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = Glibc.read(descriptor, &buffer, buffer.count)
        if count < 0 { return errno == EINTR || errno == EAGAIN ? .nothing : .closed }
        if count > 0 { return .bytes(Array(buffer[..<count])) }
        return events & Int16(POLLHUP | POLLERR | POLLNVAL) != 0 ? .closed : .endOfInput
    }

    /// A serial queue of its own, because its work blocks.
    static func makeQueue(_ purpose: String) -> DispatchQueue { DispatchQueue(label: "nearshare.terminal.\(purpose)") }
}
