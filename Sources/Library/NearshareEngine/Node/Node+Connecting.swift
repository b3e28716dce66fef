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
                let connection = try await Connection.open(driver, link.remote, destination, settings, transfers)
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

    func connect(to destination: PeerDestination) async throws(NodeError) -> any StreamLink {
        var failure = NodeError.unreachable("no address to connect to")
        for address in destination.addresses {
            let transport: any StreamTransport
            switch address.medium {
            case .network: transport = settings.transport
            case .bluetooth: transport = try await openRadio().transport
            }
            let time = settings.limits.connectTime
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
