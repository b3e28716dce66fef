import Glibc
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareStorage

/// Media types that a worker detects, and workers that fail.
@Suite struct MediaTypeWorkerTests {
    private final class Warnings: Sendable {
        let lines = Mutex<[String]>([])
    }

    private let warnings = Warnings()

    private func detector(_ routine: WorkerRoutine) -> MediaTypeDetector {
        MediaTypeDetector(launcher: ThreadLauncher([.detectMediaType: routine])) { [warnings] line in
            warnings.lines.withLock { $0.append(line) }
        }
    }

    private func type(of bytes: [UInt8], _ routine: WorkerRoutine) -> String? {
        bytes.withUnsafeBytes { detector(routine).type(of: $0) }
    }

    @Test func `a worker detects what this process would`() {
        let script = Array("#!/bin/sh\nexit 0\n".utf8)
        #expect(type(of: script, MediaTypeDetector.routine) == "text/x-shellscript")
        let large = script + [UInt8](repeating: 10, count: MediaTypeDetector.sampleByteCount)
        #expect(type(of: Array(large.prefix(MediaTypeDetector.sampleByteCount)), MediaTypeDetector.routine) != nil)
        #expect(warnings.lines.withLock(\.self).isEmpty)
    }

    @Test(
        "L2, P14: an answer that libmagic does not give is no type",
        arguments: [
            "", "\n", "image/png", "image/\u{1b}[31mpng\n", "a b\n", "image/png\nmore\n",
            String(repeating: "a", count: 256) + "\n",
        ])
    func answers(_ answer: String) {
        let routine = WorkerRoutine { socket, _ in { try? DescriptorIO.sendAll(Array(answer.utf8), to: socket) } }
        #expect(type(of: [1, 2, 3], routine) == nil)
        #expect(warnings.lines.withLock(\.count) <= 1)
    }

    @Test("L2, P14: a worker that does not answer is given up after 2 s, with a warning")
    func hangs() {
        let end = EventFD()
        let routine = WorkerRoutine { _, _ in { _ = DescriptorPoll.wait(for: end.descriptor, .readable, timeout: nil) } }
        let started = SystemClock.monotonic()
        #expect(type(of: [UInt8](repeating: 1, count: MediaTypeDetector.sampleByteCount), routine) == nil)
        #expect(SystemClock.monotonic() - started >= .seconds(2))
        #expect(warnings.lines.withLock(\.count) == 1)
        end.signal()
    }
}
