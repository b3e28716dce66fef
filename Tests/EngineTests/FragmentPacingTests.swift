import Glibc
import NearshareBase
import NearshareInterfaces
import NearshareMesh
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

/// A radio link whose writes take a while, and which records the fragments.
private final class SlowLink: FrameLink {
    let remote = LinkAddress(host: "slow", port: 0, medium: .bluetooth)
    let maximumFrameByteCount = 512
    let delivery = FrameDelivery.whole
    /// The time at which each fragment's write began and ended.
    let writes = Mutex<[(start: MonotonicInstant, end: MonotonicInstant)]>([])
    let isFull = Promise<Bool>()
    private let isClosed = Monitor(false)

    static let capacity = 12

    func receive() -> [UInt8]? { isClosed.wait { $0 ? .some(nil) : nil } }

    func send(_ frame: [UInt8]) {
        guard frame[1] == MeshPacketType.fragment.rawValue else { return }
        let number = writes.withLock { $0.count }
        let start = SystemClock.monotonic()
        // Shorter and longer than the interval between fragments.
        usleep(UInt32(number % 4) * 12_000)
        writes.withLock { $0.append((start, SystemClock.monotonic())) }
        if number + 1 == Self.capacity { isFull.fulfil(true) }
    }

    func close() { isClosed.update { $0 = true } }
}

@Suite("fragment pacing", .timeLimit(.minutes(1))) struct FragmentPacingTests {
    @Test("fragments are written at least 20 ms apart, also after one that took long and after a file that took long to seal")
    func pacing() async throws {
        let router = RouterDriver(Stage(.memory).sender)
        let link = SlowLink()
        let timer = try BlockingThread.start { router.runTimer() }
        async let linked: Void = router.run(over: link)
        var random = SeededRandom(seed: 1)
        // Random bytes, which do not compress to fewer fragments.
        let content = random.bytes(20_000)
        let file = MeshFile(name: "a.bin", mediaType: "application/octet-stream", content: content[...])
        try router.update { router, now in
            _ = try router.sendFile(file, to: nil, now: now)
            // The first fragment is due since then.
            usleep(50_000)
        }
        _ = await link.isFull.value
        router.stop()
        await linked
        await timer.join()
        let writes = link.writes.withLock { $0 }
        #expect(writes.count >= SlowLink.capacity)
        for (one, next) in zip(writes, writes.dropFirst()) {
            #expect(next.start - one.end >= .milliseconds(20))
        }
    }
}
