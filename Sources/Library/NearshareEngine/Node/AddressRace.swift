internal import NearshareBase
internal import NearshareInterfaces

/// "Happy Eyeballs" (RFC 8305): attempts to connect to a peer at several addresses, of which some may be unreachable or belong to
/// another peer.
enum AddressRace {
    private enum Event<Value: Sendable>: Sendable {
        case ended(Result<Value, NodeError>)
        /// The delay after the start of an attempt is over: the next one starts.
        case delayed(attempt: Int)
    }

    /// Interval between the starts of two attempts (RFC 8305, section 5).
    private static let attemptDelay = Duration.milliseconds(250)

    /// Tries addresses in their order: each when the one before has failed, or a quarter of a second after its start.
    /// Bluetooth is tried when every address on the network has failed.
    /// - Parameter discard: called with each further result that arrived at the same time.
    /// - Returns: the first result; the attempts still running are cancelled.
    /// - Throws: the first error that is not transient, or else the last one. An address to which no network of this machine leads, as
    ///   without IPv6, counts only where all are such.
    static func first<Value: Sendable>(
        over addresses: [LinkAddress], discarding discard: @Sendable (Value) async -> Void,
        _ attempt: @escaping @Sendable (LinkAddress) async throws(NodeError) -> Value
    ) async throws(NodeError) -> Value {
        let outcome = await withTaskGroup(of: Event<Value>.self) { group -> Result<Value, NodeError> in
            var (startedCount, runningCount) = (0, 0)
            var lastFailure: NodeError?
            func startNext() {
                let (number, address) = (startedCount, addresses[startedCount])
                startedCount += 1
                runningCount += 1
                group.addTask {
                    do throws(NodeError) {
                        return .ended(.success(try await attempt(address)))
                    } catch {
                        return .ended(.failure(error))
                    }
                }
                group.addTask {
                    try? await Task.sleep(for: attemptDelay)
                    return .delayed(attempt: number)
                }
            }
            if !addresses.isEmpty { startNext() }
            while runningCount > 0, let event = await group.next() {
                switch event {
                case .ended(.success(let value)):
                    group.cancelAll()
                    for await case .ended(.success(let other)) in group { await discard(other) }
                    return .success(value)
                case .ended(.failure(let error)):
                    runningCount -= 1
                    if Self.counts(error, after: lastFailure) { lastFailure = error }
                case .delayed(let number): if number != startedCount - 1 { continue }
                }
                guard startedCount < addresses.count, !Task.isCancelled else { continue }
                if runningCount == 0 || addresses[startedCount].medium == .network { startNext() }
            }
            group.cancelAll()
            return .failure(lastFailure ?? .unreachable("no address to connect to"))
        }
        return try outcome.get()
    }

    /// Whether an error is reported in place of the one before it.
    private static func counts(_ error: NodeError, after last: NodeError?) -> Bool {
        guard let last else { return true }
        return last.isTransient && (last.isWithoutRoute || !error.isWithoutRoute)
    }
}

extension StreamTransport {
    /// Connects on a thread of its own, which ends early when the task is cancelled.
    func openLink(to address: LinkAddress, timeout: Duration) async throws(NodeError) -> any StreamLink {
        let cancellation = EventFD()
        let outcome: Result<any StreamLink, NodeError> = await withTaskCancellationHandler {
            do throws(ThreadError) {
                return try await BlockingThread.run {
                    do throws(LinkError) {
                        return .success(try connect(to: address, timeout: timeout, cancelledBy: cancellation))
                    } catch {
                        return .failure(NodeError(error))
                    }
                }
            } catch {
                return .failure(NodeError(error))
            }
        } onCancel: {
            cancellation.signal()
        }
        return try outcome.get()
    }
}
