internal import Logging
internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareLocalSend

/// Announces this node in the groups of LocalSend, and registers with the devices that announce themselves.
final class LocalSendAnnouncer: Sendable {
    private struct State {
        var total = RateWindow()
        var hosts: [String: MonotonicInstant] = [:]
        var pending: [LinkAddress] = []
        var plain: Set<LinkAddress> = []
        var isStopping = false
    }

    /// The times of the first announcements, after the start.
    private static let burst: [Duration] = [.milliseconds(100), .milliseconds(500), .milliseconds(2000)]
    /// Interval of later ones, for networks that this machine joins.
    private static let interval = Duration.seconds(60)
    /// Interval of answers to one address.
    private static let hostInterval = Duration.seconds(2)
    /// Answers within ``totalInterval``.
    private static let maximumCount = 30
    private static let totalInterval = Duration.seconds(10)
    /// Limit on answers that wait.
    private static let maximumPendingCount = 16
    private static let connectTimeout = Duration.seconds(2)
    /// The time for one answer.
    private static let answerTimeout = Duration.seconds(5)
    private static let maximumResponseByteCount = 16_384

    private let server: LocalSendServer
    /// One for each group.
    private let sockets: [any GroupSocket]
    private let state = Monitor(State())

    init(_ server: LocalSendServer, _ sockets: [any GroupSocket]) {
        (self.server, self.sockets) = (server, sockets)
    }

    /// The loops of the announcer, each for a thread of its own until the node stops.
    var loops: [@Sendable () -> Void] {
        let listening = sockets.map { socket in { @Sendable [self] in listen(on: socket) } }
        return listening + [{ @Sendable [self] in answerAll() }]
    }

    /// Announces until the node stops.
    func announce() async {
        var elapsed = Duration.zero
        for time in Self.burst {
            guard await pause(time - elapsed) else { return }
            elapsed = time
            sendToAll()
        }
        while await pause(Self.interval) {
            server.devices.removeExpired()
            sendToAll()
        }
    }

    private func sendToAll() {
        for socket in sockets { socket.sendToAll(server.device.announcement) }
    }

    /// - Returns: false when the node stops.
    private func pause(_ duration: Duration) async -> Bool {
        let node = server.node
        return await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                _ = await node.stopping.value
                return false
            }
            group.addTask {
                try? await Task.sleep(for: duration)
                return !Task.isCancelled
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    /// Hears announcements until the socket is closed.
    private func listen(on socket: any GroupSocket) {
        let node = server.node
        while let (bytes, source) = socket.receive(upTo: LocalSendDevice.maximumByteCount + 1) {
            guard let device = try? LocalSendDevice(decoding: bytes), !device.claims(server.security.fingerprint) else {
                continue
            }
            server.devices.receive(device, from: source.host)
            guard device.announces != false else { continue }
            let now = node.settings.clock()
            state.update { state in
                state.hosts = state.hosts.filter { now - $0.value < Self.hostInterval }
                guard state.hosts[source.host] == nil, state.pending.count < Self.maximumPendingCount,
                    state.total.admit(atMost: Self.maximumCount, within: Self.totalInterval, now: now)
                else { return }
                state.hosts[source.host] = now
                let address = LinkAddress(host: source.host, port: device.port)
                state.pending.append(address)
                if device.isSecure { state.plain.remove(address) } else { state.plain.insert(address) }
            }
        }
    }

    /// Answers announcements, one after the other.
    private func answerAll() {
        while let (address, isPlain) = next() { answer(address, isPlain: isPlain) }
    }

    private func next() -> (LinkAddress, isPlain: Bool)? {
        state.waitUntilReady { state in
            if state.isStopping { return .ready(nil) }
            guard !state.pending.isEmpty else { return .waiting() }
            let address = state.pending.removeFirst()
            return .ready((address, state.plain.remove(address) != nil))
        }
    }

    /// Registers with a device. A failure is its loss: it finds this node by its announcements as well.
    private func answer(_ address: LinkAddress, isPlain: Bool) {
        let node = server.node
        guard let link = try? node.settings.transport.connect(to: address, timeout: Self.connectTimeout) else { return }
        let isOver = Promise<Void>()
        defer {
            isOver.fulfil()
            link.close()
        }
        node.start { [stopping = node.stopping] in
            await withTaskGroup(of: Void.self) { group in
                group.addTask { _ = await isOver.value }
                group.addTask { _ = await stopping.value }
                group.addTask { try? await Task.sleep(for: Self.answerTimeout) }
                await group.next()
                group.cancelAll()
            }
            link.close()
        }
        let request = LocalSendRequest.register(server.device, to: address.authority)
        do throws(LinkError) {
            if isPlain {
                try LinkDemultiplexer.write(request, to: link)
                try Self.readToEnd { (buffer) throws(LinkError) in try link.read(into: buffer) }
            } else {
                let stream = try server.security.connect(over: link, now: node.settings.wallClock())
                try Self.write(request, to: stream)
                try Self.readToEnd { (buffer) throws(LinkError) in try stream.read(into: buffer) }
                stream.finishWriting()
            }
        } catch {
            node.settings.log.debug("could not register with \(address): \(error)")
        }
    }

    private static func write(_ bytes: [UInt8], to stream: any SecureLink) throws(LinkError) {
        var failure: LinkError?
        bytes.withUnsafeBytes { bytes in
            do throws(LinkError) { try stream.write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Reads a response, whose content does not matter.
    private static func readToEnd(_ read: (UnsafeMutableRawBufferPointer) throws(LinkError) -> Int) throws(LinkError) {
        var failure: LinkError?
        withUnsafeTemporaryAllocation(byteCount: maximumResponseByteCount, alignment: 16) { buffer in
            do throws(LinkError) { _ = try read(buffer) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    func stop() {
        state.update { $0.isStopping = true }
        for socket in sockets { socket.close() }
    }
}
