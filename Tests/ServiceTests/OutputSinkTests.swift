import Glibc
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("received content on a descriptor") struct OutputSinkTests {
    /// A pipe into which a sink writes; both ends are closed with the value.
    private final class SinkPipe {
        let reading: Int32
        let writing: Int32

        init() {
            var ends: [Int32] = [0, 0]
            precondition(pipe(&ends) == 0)
            (reading, writing) = (ends[0], ends[1])
            // Reading from an empty pipe must not wait.
            _ = fcntl(reading, F_SETFL, O_NONBLOCK)
        }

        deinit {
            close(reading)
            close(writing)
        }

        func content() -> [UInt8] {
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = read(reading, &buffer, buffer.count)
            return Array(buffer.prefix(max(0, count)))
        }
    }

    private func write(_ text: String, to sink: OutputSink) throws {
        try Array(text.utf8).withUnsafeBytes { try sink.write($0) }
    }

    @Test func `files follow one another without anything between them`() throws {
        let pipe = SinkPipe()
        let sink = OutputSink(descriptor: pipe.writing, limit: nil)
        #expect(try sink.resumePoint() == .start)
        try write("one\n", to: sink)
        try sink.endEntry()
        try write("", to: sink)
        try write("two", to: sink)
        #expect(try sink.finish().isEmpty)
        #expect(pipe.content() == Array("one\ntwo".utf8))
    }

    @Test("R8: content over the limit ends the transfer before it is written")
    func limit() throws {
        let pipe = SinkPipe()
        let sink = OutputSink(descriptor: pipe.writing, limit: 5)
        try write("12345", to: sink)
        let error = #expect(throws: StorageError.self) { try write("6", to: sink) }
        #expect(error?.code == .overLimit && error?.description == "more than the limit of 5 B was received")
        #expect(pipe.content() == Array("12345".utf8))
    }

    @Test("T1: content on a terminal is escaped, also across pieces")
    func terminal() throws {
        let content = Array("\u{1b}]52;c;x\u{7}é漢\u{9b}1m\u{202e}a\tb\r\nend\r".utf8) + [0xff]
        for size in 1...content.count {
            let pipe = SinkPipe()
            let sink = OutputSink(descriptor: pipe.writing, limit: nil, isTerminal: true)
            for start in stride(from: 0, to: content.count, by: size) {
                try content[start...].prefix(size).withUnsafeBytes { try sink.write($0) }
            }
            try sink.endEntry()
            #expect(
                String(decoding: pipe.content(), as: UTF8.self)
                    == "\\u{1b}]52;c;x\\u{7}é漢\\u{9b}1m\\u{202e}a\tb\nend\\u{d}\u{fffd}", "\(size)")
        }
    }

    @Test func `a pipe that its reader has closed is told from other failures`() {
        let closed = OutputSink.failure(SystemCallError(code: EPIPE))
        #expect(
            closed.code == .outputClosed && closed.description == "the program that reads standard output has closed the pipe")
        #expect(OutputSink.failure(SystemCallError(code: ENOSPC)).code == .failed)
        let output = StandardOutputReservation()
        #expect(output.reserve() && !output.isClosed)
        output.recordClosure()
        output.release()
        #expect(output.isClosed && output.isUsed && !output.reserve())
    }

    @Test func `a descriptor that cannot be written to is an error`() {
        // The reading end takes no bytes; nothing here may raise SIGPIPE.
        let pipe = SinkPipe()
        let sink = OutputSink(descriptor: pipe.reading, limit: nil)
        let error = #expect(throws: StorageError.self) { try write("x", to: sink) }
        #expect(error?.description.hasPrefix("could not write to standard output: ") == true)
    }
}
