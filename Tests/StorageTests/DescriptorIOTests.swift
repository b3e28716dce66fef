import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("complete reads and writes")
struct DescriptorIOTests {
    @Test("everything is written through a pipe that takes little at a time")
    func pipes() throws {
        let pipe = SourcePipe()
        let content = bytes(1 << 20)
        let writer = Worker {
            try? pipe.write(content)
            pipe.closeWriting()
        }
        #expect(try pipe.readEnd.read(upTo: 2 << 20) == content)
        writer.wait()
    }

    @Test func `a write waits for a reader where the descriptor does not block`() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let (readEnd, writeEnd) = (FileDescriptor(owning: ends[0]), ends[1])
        #expect(fcntl(writeEnd, F_SETFL, O_NONBLOCK) == 0)
        // Sixteen times the capacity of a pipe.
        let content = bytes(1 << 20)
        let writer = Worker {
            try? DescriptorIO.writeAll(content, to: writeEnd)
            close(writeEnd)
        }
        #expect(try readEnd.read(upTo: 2 << 20) == content)
        writer.wait()
    }

    @Test func `a read ends when the buffer is full, not at a signal`() throws {
        // Without SA_RESTART: read(2) fails with EINTR.
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        let isInstalled = sigaction(SIGURG, &action, nil) == 0
        #expect(isInstalled)
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let (readEnd, writeEnd) = (ends[0], ends[1])
        let content = bytes(1000)
        let reader = Monitor<pthread_t?>(nil)
        let worker = Worker {
            reader.update { $0 = pthread_self() }
            var buffer = [UInt8](repeating: 0, count: content.count)
            _ = try? buffer.withUnsafeMutableBytes { try DescriptorIO.read(into: $0, from: readEnd) }
            return buffer
        }
        let thread = reader.wait { $0 }
        for byte in content {
            pthread_kill(thread, SIGURG)
            try DescriptorIO.writeAll([byte], to: writeEnd)
        }
        #expect(worker.wait() == content)
        for end in [readEnd, writeEnd] { close(end) }
    }

    @Test("errors name their cause")
    func errors() {
        #expect(throws: SystemCallError(code: EBADF)) { try DescriptorIO.writeAll([UInt8](1...3), to: -1) }
        #expect(throws: SystemCallError(code: EFBIG)) { try DescriptorIO.writeAll([UInt8](1...3), to: -1, at: .max) }
    }
}

extension DescriptorIO {
    fileprivate static func writeAll(_ bytes: [UInt8], to descriptor: Int32, at position: UInt64? = nil) throws {
        try bytes.withUnsafeBytes { bytes in
            if let position { try writeAll(bytes, to: descriptor, at: position) } else { try writeAll(bytes, to: descriptor) }
        }
    }
}
