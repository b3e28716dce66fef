internal import Logging
internal import NearshareBase
internal import NearshareHTTP
package import NearshareInterfaces
internal import NearshareLocalSend

extension Node {
    /// The preferred port of LocalSend devices.
    package static var localSendPort: UInt16 { LocalSendDevice.port }

    /// Receives from LocalSend devices until the node shuts down.
    /// - Parameters:
    ///   - listener: receives their offers as invitations; nil for a node that only sends to them.
    ///   - security: shows this node's certificate.
    ///   - pin: required from senders; nil for none.
    ///   - port: the preferred TCP port; if another socket has it, a free one is used and announced.
    package func serveLocalSend(
        for listener: Listener?, _ security: any LinkSecurity, pin: String? = nil, port: UInt16? = nil,
        timeouts: LocalSendServer.Timeouts = LocalSendServer.Timeouts()
    ) throws(NodeError) -> LocalSendServer {
        let socket = try listen(preferring: port ?? LocalSendDevice.port)
        let server = LocalSendServer(
            self, security, port: socket.port, pin: pin, invitations: listener?.queues.invitations, timeouts: timeouts)
        state.withLock { $0.localSend = server }
        try startAcceptingForeignLinks(from: socket, for: "LocalSend", isPaced: true, rejecting: server.rejection) {
            (link, slot) async throws(ThreadError) in try await server.serve(link, slot)
        }
        do throws(ThreadError) {
            try announce(server)
        } catch {
            remove(socket)
            throw NodeError(error)
        }
        start { [stopping] in
            _ = await stopping.value
            server.stop()
        }
        return server
    }

    /// Finds LocalSend devices as well as nearshare peers. They learn this node's name from that. A failure is logged.
    /// - Parameter security: nil to find none.
    package func findLocalSendDevices(_ security: (any LinkSecurity)?) {
        guard let security else { return }
        do throws(NodeError) {
            _ = try serveLocalSend(for: nil, security)
        } catch {
            settings.log.info("LocalSend devices are not found: \(error)")
        }
    }

    /// Devices that know this machine's address reach it without announcements, too.
    private func announce(_ server: LocalSendServer) throws(ThreadError) {
        guard let groups = settings.groups else { return }
        var sockets: [any GroupSocket] = []
        for group in LocalSendDevice.multicastGroups {
            do throws(LinkError) {
                sockets.append(
                    try groups.open(group: group, port: LocalSendDevice.port, interface: settings.interface))
            } catch {
                // Machines without IPv6 are common.
                settings.log.log(
                    level: group.isIPv6 ? .debug : .warning, "LocalSend devices do not find this machine: \(error)")
            }
        }
        guard !sockets.isEmpty else { return }
        server.enterGroup()
        let announcer = LocalSendAnnouncer(server, sockets)
        for loop in announcer.loops {
            let thread = try BlockingThread.start { loop() }
            start { await thread.join() }
        }
        start { await announcer.announce() }
        start { [stopping] in
            _ = await stopping.value
            announcer.stop()
        }
    }

    // MARK: Sending

    /// The time for the handshake and one request.
    private static var localSendTimeout: Duration { .seconds(10) }

    /// Connects to a LocalSend device to learn its certificate and its name.
    /// - Parameter destination: the device, with the certificate that it has announced or nil.
    /// - Throws: ``NodeError/identityMismatch(_:)`` for a device with another certificate than it has announced.
    package func localSendTarget(_ destination: PeerDestination) async throws(NodeError) -> LocalSendTarget {
        let server = try localSendServer
        let link = try await connect(toFirstOf: destination.addresses)
        let deadline = settings.clock() + Self.localSendTimeout
        let address = link.remote
        let failure = NodeError.timedOut("\(address) did not answer in time")
        let found = Monitor<Result<LocalSendTarget, NodeError>>(.failure(failure))
        let end: @Sendable () -> MonotonicInstant = { deadline }
        let ask: @Sendable () -> Void = { [self] in
            do throws(LocalSendClientConnection.Failure) {
                let connection = try LocalSendClientConnection(
                    over: link, server.security, expecting: destination.certificate, limit: LocalSendDevice.maximumByteCount,
                    now: settings.wallClock())
                let response = try connection.respond(to: LocalSendRequest.info(to: connection.authority))
                connection.finishWriting()
                let info = response.status == 200 ? try? LocalSendDevice(decoding: response.body) : nil
                guard let name = info?.name ?? destination.name ?? DisplayName(truncating: address.host) else { return }
                let target = LocalSendTarget(
                    address: address, foreign: ForeignPeer(localSend: connection.certificate), name: name)
                found.update { $0 = .success(target) }
            } catch {
                guard settings.clock() < deadline else { return }
                found.update { $0 = .failure(NodeError(error, at: address, destination.name)) }
            }
        }
        do throws(ThreadError) {
            try await run(on: link, until: end, ask)
        } catch {
            throw NodeError(error)
        }
        return try found.withLock(\.self).get()
    }

    /// Sends content to a LocalSend device.
    /// - Parameters:
    ///   - timeout: for the answer of its user.
    ///   - pinPrompt: returns the PIN that the user gives; nil when there is none. Its argument says whether an earlier one was
    ///     wrong.
    package func send(
        _ source: any ResourceSource, to target: LocalSendTarget, timeout: Duration, rateLimit: TransmissionLimit?,
        pinPrompt: @escaping @Sendable (Bool) async -> String?
    ) throws(NodeError) -> Transfer {
        let sender = LocalSendSender(
            source, to: target, by: try localSendServer, timeout: timeout, rateLimit: rateLimit, pinPrompt: pinPrompt)
        guard start({ await sender.run() }) else { throw Self.stoppedError }
        transferProgress.add(sender.transfer)
        return sender.transfer
    }

    private var localSendServer: LocalSendServer {
        get throws(NodeError) {
            guard let server = state.withLock({ $0.localSend }) else {
                throw .unavailable(
                    "LocalSend is not available: it is off (`protocols` in the configuration), or OpenSSL 3 is missing (Debian: libssl3)"
                )
            }
            return server
        }
    }
}

extension ForeignPeer {
    /// A LocalSend device that has shown a certificate.
    /// - Parameter certificate: its SHA-256.
    package init(localSend certificate: [UInt8]) {
        self.init(.localSend, identity: certificate, certificate: certificate)
    }
}

extension NodeError {
    fileprivate init(_ failure: LocalSendClientConnection.Failure, at address: LinkAddress, _ name: DisplayName?) {
        switch failure {
        case .link(let error): self.init(error)
        case .malformed(let error): self = .connectionLost("\(address) is no LocalSend device: \(error)")
        case .otherCertificate(let shown):
            self = .identityMismatch(LocalSendSender.otherCertificate(shown, at: address, name))
        case .storage(let error): self = .unavailable(error.description)
        }
    }
}
