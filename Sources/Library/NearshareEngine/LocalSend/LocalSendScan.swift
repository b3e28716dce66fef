internal import Logging
package import NearshareBase
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareLocalSend

/// Registers with hosts one by one: the last resort of LocalSend devices where multicast does not reach the others.
struct LocalSendScan {
    /// Limit on hosts that are asked at the same time.
    private static let maximumConnectionCount = 32
    /// The time for a connection: a host on the same link answers in a few milliseconds, and most addresses have none.
    private static let connectTimeout = Duration.milliseconds(500)
    /// The time for the handshake and the answer.
    private static let answerTimeout = Duration.seconds(3)
    /// The time after which no further host is asked.
    private static let timeout = Duration.seconds(30)

    let server: LocalSendServer

    /// - Returns: the number of hosts that have answered.
    func run(_ hosts: [IPAddress]) async -> Int {
        let deadline = server.node.settings.clock() + Self.timeout
        return await withTaskGroup(of: Result<Bool, ThreadError>.self) { group in
            var rest = hosts[...]
            var (running, count) = (0, 0)
            var failure: ThreadError?
            while true {
                while running < Self.maximumConnectionCount, !Task.isCancelled, server.node.settings.clock() < deadline,
                    let host = rest.popFirst()
                {
                    running += 1
                    group.addTask {
                        do throws(ThreadError) {
                            return .success(try await ask(LinkAddress(host: host.description, port: LocalSendDevice.port)))
                        } catch {
                            return .failure(error)
                        }
                    }
                }
                guard let answer = await group.next() else { break }
                running -= 1
                switch answer {
                case .success(let hasAnswered): if hasAnswered { count += 1 }
                case .failure(let error):
                    failure = error
                    rest = []
                }
            }
            if let failure { server.node.settings.log.warning("not all hosts were asked: \(failure)") }
            return count
        }
    }

    private func ask(_ address: LinkAddress) async throws(ThreadError) -> Bool {
        let (node, clock) = (server.node, server.node.settings.clock)
        let connected = try await BlockingThread.run {
            try? node.settings.transport.connect(to: address, timeout: Self.connectTimeout)
        }
        guard let link = connected else { return false }
        let end = clock() + Self.answerTimeout
        let deadline: @Sendable () -> MonotonicInstant = { end }
        let isFound = Monitor(false)
        try await node.run(on: link, until: deadline) {
            guard
                let connection = try? LocalSendClientConnection(
                    over: link, server.security, expecting: nil, limit: LocalSendDevice.maximumByteCount,
                    now: node.settings.wallClock()),
                let response = try? connection.respond(
                    to: LocalSendRequest.register(server.device, to: connection.authority))
            else { return }
            connection.finishWriting()
            // The certificate is that of the connection; a claim of another one is worth nothing.
            guard response.status == 200, let device = try? LocalSendDevice(decoding: response.body),
                device.claims(connection.certificate)
            else { return }
            server.devices.receive(device, from: address.host)
            isFound.update { $0 = true }
        }
        return isFound.withLock(\.self)
    }
}

extension Node {
    /// Asks hosts one by one whether they are LocalSend devices; those that answer are found by browsing.
    /// - Returns: the number of devices; nil for a node that does not find them.
    package func scanForLocalSendDevices(at hosts: [IPAddress]) async -> Int? {
        guard let server = state.withLock({ $0.localSend }) else { return nil }
        return await LocalSendScan(server: server).run(hosts)
    }
}
