internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

// Links that this node opens.
extension Node {
    /// Connects to a peer. Transfers and requests on the connection end with `body`.
    /// - Parameter body: receives the connection, whose peer has proven the expected key.
    public func withConnection<Result: Sendable>(
        to destination: PeerDestination, body: @Sendable @escaping (Connection) async throws -> Result
    ) async throws -> Result {
        let link = try await connect(to: destination)
        let driver = makeDriver(link, .initiator)
        let answer: Swift.Result<Result, any Error> = await run(driver) { [self] in
            do {
                let connection = try await Connection.open(driver, link.remote, destination, settings, transferProgress)
                let result = try await connection.following(body)
                driver.close(.done)
                return .success(result)
            } catch {
                driver.close(.goingAway)
                return .failure(error)
            }
        }
        return try answer.get()
    }

    /// Connects to the first of several network addresses that answers. They are tried at short intervals, so that addresses
    /// that lead nowhere do not delay the others (cf. RFC 8305).
    /// - Returns: nil when none answers, or the task is cancelled.
    func connectToFirst(of addresses: [LinkAddress]) async -> (any StreamLink)? {
        let (transport, time) = (settings.transport, settings.limits.connectTimeout)
        let (results, continuation) = AsyncStream.makeStream(of: (any StreamLink)?.self)
        let isWon = Promise<Void>()
        for (index, address) in addresses.enumerated() {
            let isStarted = start { [self] in
                let delay = Self.connectionAttemptDelay * index
                if index > 0, await isWon.isFulfilled(within: delay) || Task.isCancelled {
                    continuation.yield(nil)
                    return
                }
                let link: (any StreamLink)?
                do {
                    link = try await BlockingThread.run { try? transport.connect(to: address, timeout: time) }
                } catch {
                    settings.log.debug("\(error)")
                    link = nil
                }
                if case .terminated = continuation.yield(link) { link?.close() }
            }
            if !isStarted { continuation.yield(nil) }
        }
        var remaining = addresses.count
        defer {
            isWon.fulfil()
            continuation.finish()
        }
        guard remaining > 0 else { return nil }
        for await link in results {
            if let link { return link }
            remaining -= 1
            if remaining == 0 { break }
        }
        return nil
    }

    /// Interval between the starts of two attempts (RFC 8305, section 5).
    private static let connectionAttemptDelay = Duration.milliseconds(250)

    func connect(to destination: PeerDestination) async throws(NodeError) -> any StreamLink {
        var failure = NodeError.unreachable("no address to connect to")
        for address in destination.addresses {
            let transport: any StreamTransport
            switch address.medium {
            case .network: transport = settings.transport
            case .bluetooth: transport = try await openRadio().transport
            }
            let time = settings.limits.connectTimeout
            let outcome: Result<any StreamLink, LinkError>
            do throws(ThreadError) {
                outcome = try await BlockingThread.run {
                    do throws(LinkError) {
                        return .success(try transport.connect(to: address, timeout: time))
                    } catch {
                        return .failure(error)
                    }
                }
            } catch {
                throw NodeError(error)
            }
            switch outcome {
            case .success(let link): return link
            case .failure(let error):
                settings.log.debug("\(error)")
                failure = NodeError(error)
            }
        }
        throw failure
    }
}
