import NearshareBase
import NearshareInterfaces
import NearshareTestTraits
import Testing

@testable import NearshareEngine

@Suite("connections of LocalSend devices", .timeLimit(.minutes(1)), .leavesNothing) struct LocalSendConnectionTests {
    /// A stream that its peer has closed.
    private final class EndedStream: SecureLink {
        var peerFingerprint: [UInt8]? { nil }

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int { 0 }
        func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {}
        func finishWriting() {}
    }

    @Test("a connection has ended only when its thread has reported the end") func end() async throws {
        let transport = InMemoryTransport()
        let listener = try transport.listen(port: 0, interface: nil)
        defer { listener.close() }
        let address = LinkAddress(host: "10.0.0.1", port: listener.port)
        let link = try transport.connect(to: address, timeout: .seconds(1), cancelledBy: nil)
        defer { link.close() }
        let events = try await BlockingThread.run { () -> [String] in
            let events = Monitor<[String]>([])
            let start = MonotonicInstant(nanoseconds: 0)
            let activity = Monitor(LocalSendConnection.Activity(since: start))
            let connection = LocalSendConnection(EndedStream(), over: link, activity, clock: { start })
            connection.watch {
                // The thread is still here when the connection begins to wait for it.
                events.wait { $0.isEmpty ? nil : () }
                events.update { $0.append("reported") }
            }
            events.update { $0.append("closed") }
            connection.finish()
            events.update { $0.append("finished") }
            return events.withLock { $0 }
        }
        #expect(events == ["closed", "reported", "finished"])
    }
}
