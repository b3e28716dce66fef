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
