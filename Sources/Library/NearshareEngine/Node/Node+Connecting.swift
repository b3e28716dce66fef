internal import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces

// Links that this node opens.
extension Node {
    /// Connects to a peer. Transfers and requests on the connection end with `body`.
    ///
    /// An address at which another peer answers, or none, delays the others by a quarter of a second (cf. RFC 8305): addresses
    /// are claims of any host (D1). Of a peer that discovery has found, further addresses are tried, too, as they are announced.
    /// - Parameter body: receives the connection, whose peer has proven the expected key.
    /// - Throws: ``NodeError`` when no connection could be made; `CancellationError` when the task is cancelled before there is one;
    ///   errors of `body`.
    public func withConnection<Result: Sendable>(
        to destination: PeerDestination, body: @Sendable @escaping (Connection) async throws -> Result
    ) async throws -> Result {
        try await withConnection(to: destination, onMismatch: { _ in }, body: body)
    }

    /// Connects to a peer, see ``withConnection(to:body:)``.
    /// - Parameter onMismatch: called with each address at which another peer than the expected one has answered.
    package func withConnection<Result: Sendable>(
        to destination: PeerDestination, onMismatch: @Sendable @escaping (LinkAddress) -> Void,
        body: @Sendable @escaping (Connection) async throws -> Result
    ) async throws -> Result {
        let open: OpenConnection
        let further: (@Sendable () async -> LinkAddress?)?
        if let announced = AnnouncedAddresses(of: destination, on: self) {
            further = { await announced.next() }
        } else {
            further = nil
        }
        do {
            open = try await AddressRace.first(
                over: destination.addresses, further: further,
                discarding: { await $0.close(.done) },
                { address throws(NodeError) in
                    do throws(NodeError) {
                        return try await self.open(to: destination, at: address)
                    } catch {
                        if case .identityMismatch = error { onMismatch(address) }
                        throw error
                    }
                })
        } catch {
            try Task.checkCancellation()
            throw error
        }
        do {
            let result = try await open.connection.following(body)
            await open.close(.done)
            return result
        } catch {
            await open.close(.goingAway)
            throw error
        }
    }

    /// A link whose peer has proven the expected key.
    private struct OpenConnection: Sendable {
        let connection: Connection
        let driver: LinkDriver
        /// Opened when the link has ended.
        let end: Latch

        func close(_ reason: CloseReason) async {
            driver.close(reason)
            await end.wait()
        }
    }

    private func open(
        to destination: PeerDestination, at address: LinkAddress
    ) async throws(NodeError) -> OpenConnection {
        let link = try await connect(to: address)
        let (driver, end) = (makeDriver(link, .initiator), Latch())
        let isStarted = start {
            await self.run(driver) {}
            end.open()
        }
        guard isStarted else {
            link.close()
            throw Self.stoppedError
        }
        do {
            let connection = try await Connection.open(
                driver, at: link.remote, to: destination, settings: settings, transfers: transferProgress)
            return OpenConnection(connection: connection, driver: driver, end: end)
        } catch {
            driver.close(.goingAway)
            await end.wait()
            throw error
        }
    }

    /// Opens a link to the first of several addresses that answers, see ``AddressRace``.
    /// - Parameter deadline: bound on all attempts, beside that on each; nil for none.
    func connect(
        toFirstOf addresses: [LinkAddress], until deadline: MonotonicInstant? = nil
    ) async throws(NodeError) -> any StreamLink {
        try await AddressRace.first(
            over: addresses, discarding: { $0.close() },
            { address throws(NodeError) in try await self.connect(to: address, until: deadline) })
    }

    /// Opens a link to an address, unless the task is cancelled or the node stops before.
    func connect(
        to address: LinkAddress, until deadline: MonotonicInstant? = nil
    ) async throws(NodeError) -> any StreamLink {
        let transport: any StreamTransport
        switch address.medium {
        case .network: transport = settings.transport
        case .bluetooth: transport = try await openRadio().transport
        }
        let limit = settings.limits.connectTimeout
        let timeout = deadline.map { min(limit, max($0 - settings.clock(), .milliseconds(1))) } ?? limit
        let stopping = self.stopping
        typealias Attempt = Swift.Result<any StreamLink, NodeError>
        let attempt = await withTaskGroup(of: Attempt?.self) { group -> Attempt? in
            group.addTask {
                do throws(NodeError) {
                    return .success(try await transport.openLink(to: address, timeout: timeout))
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                _ = await stopping.value
                return nil
            }
            var attempt: Attempt?
            while let event = await group.next() {
                if let event { attempt = event }
                group.cancelAll()
            }
            return attempt
        }
        guard let outcome = attempt, stopping.current == nil else {
            if case .success(let link)? = attempt { link.close() }
            throw Self.stoppedError
        }
        if case .failure(let error) = outcome { settings.log.debug("\(error)") }
        return try outcome.get()
    }
}
