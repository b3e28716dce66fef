internal import Glibc
package import Nearshare

/// Serves a node to the user's other processes, over a Unix socket.
package final class ControlServer: Sendable {
    private let path: String
    private let listener: Int32

    /// Limit on concurrent connections.
    package static let maximumClientCount = 32

    /// Listens at a path, and replaces an earlier listener. The directory exists, and is accessible to its owner only.
    package init(path: String) throws(StorageError) {
        self.path = path
        listener = try UnixSocket.listen(at: path)
    }

    /// Serves until the task is cancelled; then all connections are closed.
    /// - Throws: `ThreadError` when there is no thread to accept connections on.
    package func run(_ node: any NodeClient) async throws(ThreadError) {
        defer {
            unlink(path)
            close(listener)
        }
        let (clients, continuation) = AsyncStream.makeStream(of: Int32.self)
        let thread = try BlockingThread.start { [listener] in
            let spare = SpareDescriptor()
            while let client = UnixSocket.accept(listener, spare) { continuation.yield(client) }
            continuation.finish()
        }
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                let count = ClientCount(limit: Self.maximumClientCount)
                for await client in clients {
                    guard !Task.isCancelled, count.increment() else {
                        if !Task.isCancelled { Self.refuse(client) }
                        close(client)
                        continue
                    }
                    group.addTask {
                        // Without threads the connection is closed; the other processes and the node go on.
                        if let link = try? LineLink(client) { await Self.serve(link, node) }
                        count.decrement()
                    }
                }
            }
            await thread.join()
        } onCancel: {
            shutdown(listener, Int32(SHUT_RDWR))
        }
    }

    /// Tells a client beyond the limit why its connection is closed.
    private static func refuse(_ client: Int32) {
        let failure = ControlFailure(
            .unavailable,
            "the node is busy: \(maximumClientCount) commands use it, which is the most at a time; end one, or try again")
        guard let line = ControlLine.refused(failure).encoded else { return }
        // The buffer of a new socket has room for it.
        try? DescriptorIO.sendAll(line + [UInt8(ascii: "\n")], to: client)
    }

    private static func serve(_ link: LineLink, _ node: any NodeClient) async {
        await withTaskCancellationHandler {
            let pending = PendingReplies()
            await withDiscardingTaskGroup { group in
                for await bytes in link.lines {
                    guard case .request(let number, let request)? = ControlLine(bytes) else { break }
                    if case .subscribe = request {
                        group.addTask { await sendEvents(number: number, link, node, pending) }
                        continue
                    }
                    if case .receiveLinks = request {
                        group.addTask { await passLinks(number: number, link, node) }
                        continue
                    }
                    if case .subscribeReceiving = request {
                        group.addTask { await sendReceiveEvents(number: number, link, node) }
                        continue
                    }
                    pending.begin()
                    // Concurrently: one request may wait for a peer to appear.
                    group.addTask {
                        await reply(to: request, number: number, link, node)
                        pending.end()
                    }
                }
                link.close()
                group.cancelAll()
            }
        } onCancel: {
            link.close()
        }
    }

    private static func reply(to request: ControlRequest, number: Int, _ link: LineLink, _ node: any NodeClient) async {
        do throws(ControlFailure) {
            send(.reply(number, try await node.submit(request)), link)
        } catch {
            send(.reply(number, .failed(error)), link)
        }
    }

    private static func sendEvents(
        number: Int, _ link: LineLink, _ node: any NodeClient, _ pending: PendingReplies
    ) async {
        do throws(ControlFailure) {
            let events = try await node.events()
            send(.reply(number, .done), link)
            for await event in events { send(.event(event), link) }
            // The node has ended, which the client learns from the end of the connection.
            await pending.waitUntilNone()
            link.close()
        } catch {
            send(.reply(number, .failed(error)), link)
        }
    }

    /// Sends questions and transfers until the connection or the node ends.
    private static func sendReceiveEvents(number: Int, _ link: LineLink, _ node: any NodeClient) async {
        do throws(ControlFailure) {
            let events = try await node.receiveEvents()
            send(.reply(number, .done), link)
            for await event in events { send(.event(.receiving(event)), link) }
        } catch {
            send(.reply(number, .failed(error)), link)
        }
    }

    /// Passes links until the connection or the node ends.
    private static func passLinks(number: Int, _ link: LineLink, _ node: any NodeClient) async {
        do throws(ControlFailure) {
            let links = try await node.links()
            send(.reply(number, .done), link)
            for await offered in links {
                let line = ControlLine.offeredLink(offered.number, opening: offered.link.opening).encoded
                if let line { link.send(line, with: offered.link) }
            }
        } catch {
            send(.reply(number, .failed(error)), link)
        }
    }

    private static func send(_ line: ControlLine, _ link: LineLink) {
        if let bytes = line.encoded { return link.send(bytes) }
        // The client must get a reply, even when the actual one cannot be written.
        if case .reply(let number, _) = line {
            let failure = ControlLine.reply(number, .failed(ControlFailure(.unavailable, "the reply cannot be written")))
            link.send(failure.encoded ?? [])
        }
    }
}

private final class ClientCount: Sendable {
    private let count = Monitor(0)
    private let limit: Int

    init(limit: Int) {
        self.limit = limit
    }

    /// - Returns: false at the limit.
    func increment() -> Bool {
        count.withLock { count in
            guard count < limit else { return false }
            count += 1
            return true
        }
    }

    func decrement() { count.withLock { $0 -= 1 } }
}
