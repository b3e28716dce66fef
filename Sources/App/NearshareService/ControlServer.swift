internal import Glibc
package import NearshareInterfaces

/// Lets the person's other processes through a door, over a Unix socket.
package final class ControlServer: Sendable {
    private let path: String
    private let listener: Int32

    /// Who waits for replies and events, at once.
    private static let maximumClientCount = 32

    /// Listens at a path, in the place of whoever listened there before. Its directory exists, and is its owner's alone.
    package init(path: String) throws(StorageError) {
        self.path = path
        listener = try UnixSocket.listen(at: path)
    }

    /// Serves until the task is cancelled; then all are told, by the end of their connections.
    package func run(_ door: any NodeClient) async {
        let (clients, continuation) = AsyncStream.makeStream(of: Int32.self)
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                group.addTask {
                    await withCheckedContinuation { done in
                        BlockingThread.start {
                            while let client = UnixSocket.accept(self.listener) { continuation.yield(client) }
                            continuation.finish()
                            done.resume()
                        }
                    }
                }
                let present = ClientCount()
                for await client in clients {
                    guard !Task.isCancelled, present.enter(limit: Self.maximumClientCount) else {
                        close(client)
                        continue
                    }
                    group.addTask {
                        await Self.serve(LineLink(client), door)
                        present.leave()
                    }
                }
            }
        } onCancel: {
            shutdown(listener, Int32(SHUT_RDWR))
        }
        unlink(path)
        close(listener)
    }

    private static func serve(_ link: LineLink, _ door: any NodeClient) async {
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                for await bytes in link.lines {
                    guard case .request(let number, let request)? = ControlLine(bytes) else { break }
                    // Side by side: one may wait for somebody to come while others are asked.
                    group.addTask { await answer(request, number, link, door) }
                }
                link.close()
                group.cancelAll()
            }
        } onCancel: {
            link.close()
        }
    }

    private static func answer(_ request: ControlRequest, _ number: Int, _ link: LineLink, _ door: any NodeClient) async {
        do throws(ControlFailure) {
            guard case .follow = request else {
                let reply = try await door.ask(request)
                return link.send(ControlLine.reply(number, reply).encoded)
            }
            let events = try await door.events()
            link.send(ControlLine.reply(number, .done).encoded)
            for await event in events { link.send(ControlLine.event(event).encoded) }
            // The node ends, and whoever follows it is told so.
            link.close()
        } catch {
            link.send(ControlLine.reply(number, .failed(error)).encoded)
        }
    }
}

private final class ClientCount: Sendable {
    private let count = Monitor(0)

    func enter(limit: Int) -> Bool {
        count.withLock { count in
            guard count < limit else { return false }
            count += 1
            return true
        }
    }

    func leave() { count.withLock { $0 -= 1 } }
}
