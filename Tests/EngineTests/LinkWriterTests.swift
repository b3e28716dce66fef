import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import Testing

@testable import NearshareEngine

@Suite("link writer", .leavesNothing)
struct LinkWriterTests {
    /// Records the bytes written to it.
    private final class KeepingLink: StreamLink {
        let remote = LinkAddress(host: "192.0.2.1", port: 1)
        let localHost: String? = nil
        let written = Monitor<[UInt8]>([])

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int { 0 }
        func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) { written.update { $0 += bytes } }
        func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
            // Accepts half of the bytes, so that some remain.
            let part = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count / 2)])
            written.update { $0 += part }
            return part.count
        }
        func finishWriting() {}
        func close() {}
    }

    @Test("several threads write, and each record has the number of its position") func turns() async throws {
        let link = KeepingLink()
        let writer = LinkWriter(link)
        let key = [UInt8](repeating: 7, count: RecordCipher.keyByteCount)
        let (threads, rounds) = (UInt8(4), UInt8(100))
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<threads {
                group.addTask {
                    try? await BlockingThread.run {
                        for round in 0..<rounds {
                            let frames = [[thread, round], [thread, round]]
                            try? writer.withTurn { (turn) throws(LinkError) in try turn.write(frames) }
                        }
                    }
                }
            }
            writer.begin(RecordSealer(RecordCipher(.aes256GCM, key: key)))
        }
        var opener = RecordOpener(RecordCipher(.aes256GCM, key: key))
        var next = [UInt8](repeating: 0, count: Int(threads))
        var bytes = link.written.withLock { $0 }
        try bytes.withUnsafeMutableBytes { raw in
            var rest = raw[...]
            while let count = try RecordOpener.recordByteCount(UnsafeRawBufferPointer(rebasing: rest)) {
                let record = UnsafeMutableRawBufferPointer(rebasing: rest.prefix(count))
                let frame = record[try opener.openInPlace(record)]
                rest = rest.dropFirst(count)
                let (thread, round) = (Int(frame.first!), frame.last!)
                // Two frames of one turn are adjacent.
                #expect(round == next[thread] / 2)
                next[thread] += 1
            }
        }
        #expect(next.allSatisfy { $0 == 2 * rounds })
    }
}
