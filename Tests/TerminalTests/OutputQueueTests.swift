import Glibc
import NearshareInterfaces
import Testing

@testable import NearshareTerminal

@Suite("output to a terminal that does not take it") struct OutputQueueTests {
    /// The two ends of a terminal that changes no byte: that which a program on it would read, and that which is written.
    private static func openTerminal() throws -> [Int32] {
        var (master, slave): (Int32, Int32) = (0, 0)
        try #require(openpty(&master, &slave, nil, nil, nil) == 0)
        var settings = termios()
        tcgetattr(slave, &settings)
        cfmakeraw(&settings)
        tcsetattr(slave, TCSANOW, &settings)
        return [master, slave]
    }

    private static func lines(_ numbers: Range<Int>, of byteCount: Int) -> [[UInt8]] {
        numbers.map { Array("\($0) \(String(repeating: "x", count: byteCount))\n".utf8) }
    }

    /// Reads from a terminal, in lines.
    private struct LineReader {
        let descriptor: Int32
        private var buffer: [UInt8] = []

        init(_ descriptor: Int32) { self.descriptor = descriptor }

        mutating func next() throws -> String {
            while true {
                if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                    defer { buffer.removeFirst(end + 1) }
                    return String(decoding: buffer[..<end], as: UTF8.self)
                }
                var block = [UInt8](repeating: 0, count: 65_536)
                let count = Glibc.read(descriptor, &block, block.count)
                try #require(count > 0)
                buffer += block.prefix(count)
            }
        }
    }

    @Test("R4, M12: nobody waits for it; what finds no room is left out and counted, and the rest arrives in order")
    func unread() async throws {
        // Reading blocks.
        try await BlockingThread.run { Result { try Self.fillAndRead() } }.get()
    }

    private static func fillAndRead() throws {
        let ends = try openTerminal()
        defer { for end in ends { close(end) } }
        let queue = try OutputQueue(
            maximumByteCount: DescriptorOutput.terminalByteCount, omissionLine: DescriptorOutput.terminalOmission)
        // More than the terminal and the queue hold.
        let count = 1_000
        for line in lines(0..<count, of: 1_000) { queue.append(line, to: ends[1]) }
        var reader = LineReader(ends[0])
        var number = 0
        while number < 200 {
            #expect(try reader.next().hasPrefix("\(number) "))
            number += 1
        }
        // There is room again.
        queue.append(Array("later\n".utf8), to: ends[1])
        var line = try reader.next()
        while line.hasPrefix("\(number) ") {
            number += 1
            line = try reader.next()
        }
        #expect((250...400).contains(number))
        #expect(line == "nearshare: \(count - number) lines were not shown: the terminal did not take them in time")
        #expect(try reader.next() == "later")
    }

    @Test("a flush waits for what is queued, and not for ever")
    func flush() async throws {
        try await BlockingThread.run { Result { try Self.flushAndRead() } }.get()
    }

    private static func flushAndRead() throws {
        let ends = try openTerminal()
        defer { for end in ends { close(end) } }
        let queue = try OutputQueue(
            maximumByteCount: DescriptorOutput.terminalByteCount, omissionLine: DescriptorOutput.terminalOmission)
        var reader = LineReader(ends[0])
        for line in lines(0..<20, of: 100) { queue.append(line, to: ends[1]) }
        queue.flush(timeout: .seconds(60))
        for number in 0..<20 { #expect(try reader.next().hasPrefix("\(number) ")) }
        for line in lines(0..<100, of: 1_000) { queue.append(line, to: ends[1]) }
        queue.flush(timeout: .milliseconds(10))
        for number in 0..<100 { #expect(try reader.next().hasPrefix("\(number) ")) }
    }
}
