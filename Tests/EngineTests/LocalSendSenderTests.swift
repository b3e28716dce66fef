import NearshareBase
import NearshareDirect
import NearshareHTTP
import NearshareInterfaces
import NearshareLocalSend
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// A transport that lets no more threads start once it has opened some links.
private struct RefusingTransport: StreamTransport {
    private let inner: any StreamTransport
    private let threads: ThreadGroup
    private let maximumCount: Int
    private let linkCount = Monitor(0)

    init(_ inner: any StreamTransport, after maximumCount: Int, limiting threads: ThreadGroup) {
        (self.inner, self.maximumCount, self.threads) = (inner, maximumCount, threads)
    }

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try inner.listen(port: port, interface: interface)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        let link = try inner.connect(to: address, timeout: timeout, cancelledBy: cancellation)
        let count = linkCount.update { count -> Int in
            count += 1
            return count
        }
        if count == maximumCount { threads.setLimit(0) }
        return link
    }
}

/// Links without encryption that call a closure when the client has read.
private struct ReadReportingSecurity: LinkSecurity {
    private final class ReadReportingLink: SecureLink {
        private let inner: any SecureLink
        private let onRead: @Sendable () -> Void
        var peerFingerprint: [UInt8]? { inner.peerFingerprint }

        init(_ inner: any SecureLink, onRead: @escaping @Sendable () -> Void) {
            (self.inner, self.onRead) = (inner, onRead)
        }

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
            defer { onRead() }
            return try inner.read(into: buffer)
        }

        func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) { try inner.write(bytes) }
        func finishWriting() { inner.finishWriting() }
    }

    let inner = PlainSecurity()
    let onRead: @Sendable () -> Void
    var fingerprint: [UInt8] { inner.fingerprint }

    func accept(_ link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink {
        try inner.accept(link, now: now)
    }

    func connect(over link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink {
        ReadReportingLink(try inner.connect(over: link, now: now), onRead: onRead)
    }
}

@Suite("sending to LocalSend devices", .timeLimit(.minutes(1)), .leavesNothing) struct LocalSendSenderTests {
    private let stage = Stage(.memory)
    private let content = MemoryContent(file: "a", [1, 2, 3])

    /// The response of a device that accepts the file.
    private static let accepted =
        "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n{\"sessionId\":\"s\",\"files\":{\"0\":\"t\"}}"

    private func target(_ listener: any StreamListener) throws -> LocalSendTarget {
        LocalSendTarget(
            address: LinkAddress(host: "127.0.0.1", port: listener.port),
            foreign: ForeignPeer(localSend: [UInt8](repeating: 7, count: 32)),
            name: try #require(DisplayName(truncating: "phone")))
    }

    /// Answers one request of each link, until the listener is closed.
    /// - Returns: the paths of the requests.
    private static func serve(_ listener: any StreamListener) -> [String] {
        var paths: [String] = []
        while let link = try? listener.accept() {
            if let path = try? answer(link) { paths.append(path) }
            link.close()
        }
        return paths
    }

    private static func answer(_ link: any StreamLink) throws -> String? {
        var reader = HTTPRequestReader()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 1)
        defer { buffer.deallocate() }
        while true {
            if let next = try reader.next(limit: { _ in 1 << 20 }) {
                try LinkDemultiplexer.write(Array(accepted.utf8), to: link)
                return next.request.path
            }
            let count = try link.read(into: buffer)
            guard count > 0 else { return nil }
            reader.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }

    @Test("a send is complete only when the device has answered each file") func unanswered() {
        var files = LocalSendFiles(accepted: [0: "t"])
        #expect(files.result(of: LocalSendContents(), at: "phone").outcome == .interrupted)
        let next = files.beginNext()
        #expect(next?.token == "t" && files.pendingCount == 0)
        #expect(files.result(of: LocalSendContents(), at: "phone").outcome == .interrupted)
    }

    @Test("the progress of several connections never goes back") func progress() async throws {
        let target = LocalSendTarget(
            address: LinkAddress(host: "127.0.0.1", port: 1), foreign: ForeignPeer(localSend: []),
            name: try #require(DisplayName(truncating: "phone")))
        let hasFallen = try await withNode(stage.sender) { [content] node in
            let sender = LocalSendSender(
                InMemorySource(content), to: target, by: try node.serveLocalSend(for: nil, PlainSecurity(), port: 0),
                timeout: .seconds(30), rateLimit: nil, pinPrompt: { _ in nil })
            let count: UInt64 = 20_000
            let running = Monitor(2)
            let send: @Sendable (Int) -> Void = { number in
                for byteCount in 1...count { sender.record(byteCount, of: number) }
                running.update { $0 -= 1 }
            }
            async let first: Void = BlockingThread.run { send(0) }
            async let second: Void = BlockingThread.run { send(1) }
            let hasFallen = try await BlockingThread.run {
                var (last, hasFallen) = (UInt64(0), false)
                while running.withLock({ $0 > 0 }) {
                    let done = sender.transfer.snapshot.done
                    if done < last { hasFallen = true }
                    last = done
                }
                return hasFallen || sender.transfer.snapshot.done != 2 * count
            }
            _ = try await (first, second)
            return hasFallen
        }
        #expect(!hasFallen)
    }

    @Test("a device that accepts as the transfer ends learns that its session is over") func lateAnswer() async throws {
        let listener = try stage.transport.listen(port: 0, interface: nil)
        async let served = BlockingThread.run { Self.serve(listener) }
        defer { listener.close() }
        let target = try target(listener)
        let result = try await withNode(stage.sender) { [content] node in
            let sent = Monitor<Transfer?>(nil)
            // Cancels when the answer has arrived, and before it is understood.
            let security = ReadReportingSecurity { sent.wait { sent -> Transfer? in sent }.cancel() }
            _ = try node.serveLocalSend(for: nil, security, port: 0)
            let transfer = try node.send(
                InMemorySource(content), to: target, timeout: .seconds(30), rateLimit: nil, pinPrompt: { _ in nil })
            sent.update { $0 = transfer }
            return await transfer.result
        }
        #expect(result.outcome == .cancelled(by: .local))
        listener.close()
        #expect(try await served == ["/api/localsend/v2/prepare-upload", "/api/localsend/v2/cancel"])
    }

    @Test("R3: files for which no thread starts are not reported as sent") func refusedThread() async throws {
        let threads = ThreadGroup()
        var settings = stage.sender
        // One link for the offer, one for the file.
        settings.transport = RefusingTransport(stage.transport, after: 2, limiting: threads)
        let listener = try stage.transport.listen(port: 0, interface: nil)
        async let served = BlockingThread.run { Self.serve(listener) }
        defer { listener.close() }
        let target = try target(listener)
        let result = try await ThreadGroup.$current.withValue(threads) { [settings, content] in
            try await withNode(settings) { node in
                _ = try node.serveLocalSend(for: nil, PlainSecurity(), port: 0)
                let transfer = try node.send(
                    InMemorySource(content), to: target, timeout: .seconds(30), rateLimit: nil, pinPrompt: { _ in nil })
                return await transfer.result
            }
        }
        #expect(result.outcome == .interrupted && result.detail == ThreadError(code: 0).description)
        await threads.waitUntilEmpty()
        listener.close()
        #expect(try await served == ["/api/localsend/v2/prepare-upload"])
    }

    @Test("R3: a device for which no thread starts is not reported as one that does not answer") func unaskedDevice()
        async throws
    {
        let threads = ThreadGroup()
        var settings = stage.sender
        settings.transport = RefusingTransport(stage.transport, after: 1, limiting: threads)
        let listener = try stage.transport.listen(port: 0, interface: nil)
        defer { listener.close() }
        let address = LinkAddress(host: "127.0.0.1", port: listener.port)
        try await ThreadGroup.$current.withValue(threads) { [settings] in
            try await withNode(settings) { node in
                _ = try node.serveLocalSend(for: nil, PlainSecurity(), port: 0)
                await #expect {
                    try await node.localSendTarget(PeerDestination(addresses: [address], id: nil, name: nil))
                } throws: {
                    ($0 as? NodeError)?.description == ThreadError(code: 0).description
                }
            }
        }
        await threads.waitUntilEmpty()
    }
}
