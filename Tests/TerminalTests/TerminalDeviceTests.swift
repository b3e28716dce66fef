import Dispatch
import Glibc
import NearshareBase
import Testing

@testable import NearshareTerminal

/// A pseudo-terminal: the test types and reads at one end, the code under test uses the other.
private final class PseudoTerminal: Sendable {
    let user: Int32
    let device: TerminalDevice

    // The requests of ioctl_tty(2) that Swift does not import: unlock the pair, get its number.
    private static let unlockRequest: UInt = 0x4004_5431
    private static let numberRequest: UInt = 0x8004_5430

    init() throws {
        user = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (lock, number): (Int32, UInt32) = (0, 0)
        try #require(user >= 0 && ioctl(user, Self.unlockRequest, &lock) == 0 && ioctl(user, Self.numberRequest, &number) == 0)
        let descriptor = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        try #require(descriptor >= 0)
        device = TerminalDevice(descriptor: descriptor)
    }

    deinit { close(user) }

    func type(_ text: String) { DescriptorOutput.write(text, to: user) }

    /// Reads what the terminal shows, until it ends with `text`.
    func output(through text: String) async -> String {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { [user] in
                var shown: [UInt8] = []
                var byte: UInt8 = 0
                while !shown.reversed().starts(with: text.utf8.reversed()), read(user, &byte, 1) == 1 { shown.append(byte) }
                continuation.resume(returning: String(decoding: shown, as: UTF8.self))
            }
        }
    }

    func resize(columns: UInt16, rows: UInt16) {
        var size = winsize(ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(user, UInt(TIOCSWINSZ), &size)
    }

    /// Returns when single keys are delivered. Earlier input would be edited as a line.
    func waitForRawMode() async {
        while localModes & tcflag_t(ICANON) != 0 { await Task.yield() }
    }

    var localModes: tcflag_t {
        var mode = termios()
        tcgetattr(device.descriptor, &mode)
        return mode.c_lflag
    }
}

// Raw mode belongs to the process, as it has one terminal: one test at a time.
@Suite("terminal device", .serialized) struct TerminalDeviceTests {
    @Test("a new size is reported, and a size of zero replaced")
    func resize() throws {
        let terminal = try PseudoTerminal()
        #expect(terminal.device.size == .standard)
        terminal.resize(columns: 132, rows: 43)
        #expect(terminal.device.size == TerminalSize(columns: 132, rows: 43))
        terminal.resize(columns: 20, rows: 0)
        #expect(terminal.device.size == TerminalSize(columns: 20, rows: 24))
        #expect(TerminalProperties.size(of: -1) == .standard)
    }

    @Test("only terminals are terminals")
    func isTerminal() throws {
        let terminal = try PseudoTerminal()
        #expect(TerminalProperties.isTerminal(terminal.device.descriptor))
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        #expect(!TerminalProperties.isTerminal(null))
        #expect(!TerminalProperties.hasColor(null))
    }

    @Test("keys arrive decoded, sequences split over writes included, and raw mode ends with the reading")
    func keys() async throws {
        let terminal = try PseudoTerminal()
        let cooked = terminal.localModes
        let (keys, sink) = AsyncStream.makeStream(of: TerminalKey.self)
        let reading = Task { [device = terminal.device] in await device.readKeys { sink.yield($0) } }
        await terminal.waitForRawMode()
        for byte in Array("é\u{1b}[A\u{1b}[1;5C".utf8) { DescriptorOutput.write([byte], to: terminal.user) }
        terminal.type("\r\u{1b}")
        var received: [TerminalKey] = []
        for await key in keys {
            received.append(key)
            if key == .escape { break }
        }
        #expect(received == [.text("é"), .up, .wordRight, .enter, .escape])
        reading.cancel()
        await reading.value
        #expect(terminal.localModes == cooked)
    }

    @Test("a screen that ends late leaves the raw mode of its successor alone")
    func overlap() throws {
        let terminal = try PseudoTerminal()
        let cooked = terminal.localModes
        let first = RawMode.begin(on: terminal.device.descriptor)
        let second = RawMode.begin(on: terminal.device.descriptor, keepsSignals: false)
        #expect(terminal.localModes & tcflag_t(ISIG) == 0)
        RawMode.end(first)
        #expect(terminal.localModes & tcflag_t(ICANON) == 0)
        RawMode.end(second)
        #expect(terminal.localModes == cooked)
    }

    @Test("lines arrive without their line breaks; Ctrl-D is not the end")
    func lines() async throws {
        let terminal = try PseudoTerminal()
        let (typed, type) = AsyncStream.makeStream(of: Void.self)
        async let received = { [device = terminal.device] in
            var lines: [String] = []
            for await line in device.lines() {
                lines.append(line)
                if lines.count == 2 { break }
                type.yield()
            }
            return lines
        }()
        terminal.type("yes, 漢字\n")
        for await _ in typed { break }
        terminal.type("\u{4}no\n")
        #expect(await received == ["yes, 漢字", "no"])
    }

    @Test("an answer is read key by key while a question is shown, and raw mode is begun again where a shell has ended it")
    func answers() async throws {
        let terminal = try PseudoTerminal()
        let cooked = terminal.localModes
        let keys = terminal.device.answerKeys()
        terminal.device.setReadsAnswer(true)
        #expect(terminal.localModes & tcflag_t(ICANON | ECHO) == 0)
        terminal.type("ye")
        var received: [AnswerKey] = []
        for await key in keys {
            received.append(key)
            if received.last == .text("ye") {
                var mode = termios()
                tcgetattr(terminal.device.descriptor, &mode)
                mode.c_lflag = cooked
                tcsetattr(terminal.device.descriptor, TCSANOW, &mode)
                // A shell sends this signal when the process goes on.
                kill(getpid(), SIGCONT)
            }
            if received.last == .redraw {
                terminal.device.setReadsAnswer(false)
                break
            }
        }
        #expect(received.suffix(2) == [.text("ye"), .redraw])
        #expect(terminal.localModes == cooked)
    }

    @Test("R4: a line that is typed without a question is reported, and is no answer to the next one")
    func idleLine() async throws {
        let terminal = try PseudoTerminal()
        var keys = terminal.device.answerKeys().makeAsyncIterator()
        terminal.type("\n")
        terminal.type("yes\n")
        let first = await keys.next()
        #expect(first == .idleLine)
        terminal.device.setReadsAnswer(true)
        terminal.type("n")
        var answer = await keys.next()
        while answer == .redraw { answer = await keys.next() }
        #expect(answer == .text("n"))
        terminal.device.setReadsAnswer(false)
    }

    @Test("R4: an answer is asked for until it is one, and input from before the question is none")
    func yesNo() async throws {
        let terminal = try PseudoTerminal()
        let device = terminal.device
        terminal.type("n\n")
        _ = await terminal.output(through: "n\r\n")
        async let answer = YesNoPrompt.ask("sure? ", on: device)
        _ = await terminal.output(through: "sure? ")
        await terminal.waitForRawMode()
        terminal.type("maybe\n\ny\n")
        #expect(await answer)
    }

    @Test("what is written after a question that is withdrawn stands on a line of its own")
    func withdrawnQuestion() async throws {
        let terminal = try PseudoTerminal()
        let device = terminal.device
        let question = Task { await YesNoPrompt.answer(to: "sure? ", on: device) }
        question.cancel()
        #expect(await question.value == nil)
        device.write("ended\n")
        #expect(await terminal.output(through: "ended\r\n").hasSuffix("sure? \r\nended\r\n"))
    }

    @Test("a question stays below other output, with what was typed, and is answered there", .timeLimit(.minutes(1)))
    func questionBelowOutput() async throws {
        let terminal = try PseudoTerminal()
        let device = terminal.device
        let question = Task { await YesNoPrompt.ask("a code\nsure? ", on: device) }
        #expect(await terminal.output(through: "sure? ").contains("a code\r\n"))
        await terminal.waitForRawMode()
        terminal.type("y")
        _ = await terminal.output(through: "y")
        device.write("progress\n")
        #expect(await terminal.output(through: "sure? y").contains("progress\r\n"))
        terminal.type("\r")
        #expect(await question.value)
    }

    @Test("a question that is not answered in time has no answer, and permits nothing")
    func questionWithTimeout() async throws {
        let terminal = try PseudoTerminal()
        #expect(await YesNoPrompt.answer(to: "first? ", on: terminal.device, timeout: .milliseconds(1)) == nil)
        _ = await terminal.output(through: "no answer within 0:00\r\n")
        #expect(await !YesNoPrompt.ask("sure? ", on: terminal.device, timeout: .milliseconds(1)))
        #expect(await terminal.output(through: "0:00\r\n").hasSuffix("sure? \r\nno answer within 0:00\r\n"))
    }

    @Test("F22: a line that was typed before its question is no answer, and Enter alone is none", .timeLimit(.minutes(1)))
    func line() async throws {
        let terminal = try PseudoTerminal()
        let device = terminal.device
        terminal.type("secret\n")
        _ = await terminal.output(through: "secret\r\n")
        let question = Task { await LinePrompt.ask("PIN: ", on: device) { device.write("wrong\n") } }
        #expect(await terminal.output(through: "PIN: ").contains("wrong\r\n"))
        await terminal.waitForRawMode()
        // Ctrl-L stands for a return to the foreground, which answers nothing.
        terminal.type("\u{c}12\u{7f}3\r")
        #expect(await question.value == "13")
        let empty = Task { await LinePrompt.ask("again: ", on: device) }
        _ = await terminal.output(through: "again: ")
        await terminal.waitForRawMode()
        terminal.type("\r")
        #expect(await empty.value == nil)
    }

    @Test("F22: of two questions at once, the second waits for the answer to the first", .timeLimit(.minutes(1)))
    func questionsInTurn() async throws {
        let terminal = try PseudoTerminal()
        let device = terminal.device
        let first = Task { await LinePrompt.ask("first: ", on: device) }
        _ = await terminal.output(through: "first: ")
        await terminal.waitForRawMode()
        let second = Task { await LinePrompt.ask("second: ", on: device) }
        // One that is cancelled while it waits is never shown.
        let withdrawn = Task { await YesNoPrompt.ask("third? ", on: device) }
        withdrawn.cancel()
        #expect(await !withdrawn.value)
        terminal.type("1\r")
        #expect(await first.value == "1")
        #expect(await !terminal.output(through: "second: ").contains("third"))
        await terminal.waitForRawMode()
        terminal.type("2\r")
        #expect(await second.value == "2")
    }

    @Test("keyboard events are queued without a handler, and delivered in order")
    func keyboardReader() async throws {
        let terminal = try PseudoTerminal()
        let mode = RawMode.begin(on: terminal.device.descriptor)
        defer { RawMode.end(mode) }
        let reader = KeyboardReader(terminal.device)
        let (bytes, continuation) = AsyncStream.makeStream(of: UInt8.self)
        reader.start()
        // A second start changes nothing.
        reader.start()
        terminal.type("ab")
        reader.setHandler { event in
            if case .bytes(let bytes) = event { for byte in bytes { continuation.yield(byte) } }
        }
        terminal.type("c")
        var received: [UInt8] = []
        for await byte in bytes {
            received.append(byte)
            if received.count == 3 { break }
        }
        await reader.stop()
        #expect(received == Array("abc".utf8))
    }

    @Test("the Enter key is itself also where it was typed before raw mode, and a line feed typed later is none")
    func earlyEnter() async throws {
        let terminal = try PseudoTerminal()
        terminal.type("one\rtwo\r")
        // The terminal has received all of it.
        #expect(await terminal.output(through: "two\r\n") == "one\r\ntwo\r\n")
        let mode = RawMode.begin(on: terminal.device.descriptor)
        defer { RawMode.end(mode) }
        let reader = KeyboardReader(terminal.device)
        let (bytes, continuation) = AsyncStream.makeStream(of: UInt8.self)
        reader.setHandler { event in
            if case .bytes(let bytes) = event { for byte in bytes { continuation.yield(byte) } }
        }
        reader.start()
        terminal.type("three\nfour\r")
        var received: [UInt8] = []
        for await byte in bytes {
            received.append(byte)
            if received.count == 19 { break }
        }
        await reader.stop()
        #expect(received == Array("one\rtwo\rthree\nfour\r".utf8))
    }

    @Test("keys go to the latest subscriber")
    func sharedKeyboard() async throws {
        let terminal = try PseudoTerminal()
        let keyboard = SharedKeyboard(terminal.device)
        let first = keyboard.keys()
        let second = keyboard.keys()
        for await key in first { Issue.record("unexpected key \(key)") }
        let task = Task { await keyboard.run() }
        await terminal.waitForRawMode()
        terminal.type("x\r")
        var received: [TerminalKey] = []
        for await key in second {
            received.append(key)
            if key == .enter { break }
        }
        task.cancel()
        await task.value
        #expect(received.last == .enter)
        // Keys typed from now on belong to the next reader.
        let reader = KeyboardReader(terminal.device)
        let (bytes, sink) = AsyncStream.makeStream(of: UInt8.self)
        reader.setHandler { event in if case .bytes(let typed) = event { for byte in typed { sink.yield(byte) } } }
        let raw = RawMode.begin(on: terminal.device.descriptor)
        defer { RawMode.end(raw) }
        terminal.type("y")
        reader.start()
        #expect(await bytes.first { _ in true } == UInt8(ascii: "y"))
        await reader.stop()
    }
}

@Suite struct LineReaderTests {
    private func lines(of text: String, maximumLineByteCount: Int = 1000) async -> [String] {
        var ends: [Int32] = [-1, -1]
        pipe(&ends)
        DescriptorOutput.write(text, to: ends[1])
        close(ends[1])
        defer { close(ends[0]) }
        let reader = LineReader(ends[0], maximumLineByteCount: maximumLineByteCount)
        var lines: [String] = []
        while let line = await reader.next() { lines.append(line) }
        return lines
    }

    @Test("line breaks of both kinds end lines, and the last line needs none")
    func lineBreaks() async {
        #expect(await lines(of: "a\r\n\nb\u{301}c") == ["a", "", "b\u{301}c"])
        #expect(await lines(of: "") == [])
    }

    @Test func `at the end of a terminal's input, a line that was begun is no line`() async throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        DescriptorOutput.write("one\ntw", to: ends[1])
        let reader = LineReader(ends[0], maximumLineByteCount: 100, needsFinalLineBreak: true)
        #expect(await reader.next() == "one")
        DescriptorOutput.write("o\nhalf", to: ends[1])
        close(ends[1])
        #expect(await reader.next() == "two")
        #expect(await reader.next() == nil)
        #expect(reader.removeUnfinishedLine() == "half" && reader.removeUnfinishedLine() == nil)
    }

    @Test("a line without an end is split, so that memory stays bounded")
    func longLine() async throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        DispatchQueue(label: "writer").async { [writer = ends[1]] in
            for _ in 0..<8 { DescriptorOutput.write([UInt8](repeating: 0x78, count: 1 << 16), to: writer) }
            close(writer)
        }
        let reader = LineReader(ends[0], maximumLineByteCount: 20_000)
        var lengths: [Int] = []
        while let line = await reader.next() { lengths.append(line.utf8.count) }
        close(ends[0])
        #expect(lengths.reduce(0, +) == 8 << 16)
        #expect(lengths.allSatisfy { $0 <= 20_000 + 16 * 1024 })
    }

    @Test("a stopped reader returns nil at once")
    func stopping() async {
        var ends: [Int32] = [-1, -1]
        pipe(&ends)
        defer { for end in ends { close(end) } }
        let reader = LineReader(ends[0], maximumLineByteCount: 100)
        async let line = reader.next()
        reader.stop()
        #expect(await line == nil)
    }

    @Test func `lines that are put back are read before those that follow, also after the end`() async throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        let reader = LineReader(ends[0], maximumLineByteCount: 100)
        DescriptorOutput.write("one\ntwo\nthree", to: ends[1])
        close(ends[1])
        for expected in ["one", "two"] { #expect(await reader.next() == expected) }
        reader.putBack(["one", "two"])
        for expected in ["one", "two", "three"] { #expect(await reader.next() == expected) }
        reader.putBack(["three"])
        #expect(await reader.next() == "three")
        #expect(await reader.next() == nil)
    }

    @Test func `a cancelled wait for a line returns nil, and loses no line`() async throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let reader = LineReader(ends[0], maximumLineByteCount: 100)
        DescriptorOutput.write("half", to: ends[1])
        let waiting = Task { await reader.next() }
        waiting.cancel()
        #expect(await waiting.value == nil)
        DescriptorOutput.write(" a line\nnext\n", to: ends[1])
        #expect(await reader.next() == "half a line")
        #expect(await reader.next() == "next")
    }
}
