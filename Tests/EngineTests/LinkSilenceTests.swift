import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Links whose other end says nothing more.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct LinkSilenceTests {
    /// A link that records the silence after which it breaks.
    private final class RecordingLink: ForwardingLink {
        let inner: any StreamLink
        let silenceTimeout = Monitor<Duration?>(nil)

        init(_ inner: any StreamLink) {
            self.inner = inner
        }

        func setSilenceTimeout(_ timeout: Duration) { silenceTimeout.update { $0 = timeout } }
    }

    @Test("N2: a link to a silent machine is lost after 12 s also while a thread waits for room in its send buffer")
    func breaksInWrite() async throws {
        let stage = Stage(.memory)
        let listener = try stage.transport.listen(port: 0, interface: stage.interface)
        defer { listener.close() }
        try await withNode(stage.receiver) { receiver in
            try await withNode(stage.sender) { sender in
                let accepted = Task { try await BlockingThread.run { Result { try listener.accept() } }.get() }
                let port = listener.port
                async let isConnected: Void = sender.withConnection(to: stage.destination(port)) { _ in }
                let link = RecordingLink(try await accepted.value)
                let driver = receiver.makeDriver(link, .responder)
                await receiver.run(driver) { for await _ in driver.events {} }
                try await isConnected
                #expect(link.silenceTimeout.withLock { $0 } == .seconds(12))
            }
        }
    }
}
