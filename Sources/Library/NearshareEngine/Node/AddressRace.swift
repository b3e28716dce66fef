internal import NearshareBase
internal import NearshareInterfaces

/// "Happy Eyeballs" (RFC 8305): attempts to connect to a peer at several addresses, of which some may be unreachable or belong to
/// another peer.
enum AddressRace {
    private enum Event<Value: Sendable>: Sendable {
        case ended(Result<Value, NodeError>)
        /// The delay after the start of an attempt is over: the next one starts.
        case delayed(attempt: Int)
        /// A further address; nil when there are no more.
        case found(LinkAddress?)
        /// ``searchTime`` is over: with no attempt running, further addresses are not waited for.
        case searched
    }

    /// Interval between the starts of two attempts (RFC 8305, section 5).
    private static let attemptDelay = Duration.milliseconds(250)
    /// Time for further addresses, from the first attempt that has failed or takes longer than the delay: a peer repeats no announcement
    /// within a second (RFC 6762, section 6).
    private static let searchTime = Duration.seconds(2)
    /// Limit on the attempts at the same time: each has a link with threads.
    private static let maximumRunning = 32

    /// Tries addresses in their order: each when the one before has failed, or a quarter of a second after its start.
    /// Bluetooth is tried when every address on the network has failed.
    /// - Parameters:
    ///   - further: waits for the next of further addresses on the network, and returns nil when there are no more. Called when the
    ///     first attempt has failed or takes longer than the delay, and again after each address; nil for no further ones.
    ///   - discard: called with each further result that arrived at the same time.
    /// - Returns: the first result; the attempts still running are cancelled.
    /// - Throws: the first error that is not transient, or else the last one. An address to which no network of this machine leads, as
    ///   without IPv6, counts only where all are such.
    static func first<Value: Sendable>(
        over addresses: [LinkAddress], further: (@Sendable () async -> LinkAddress?)? = nil,
        discarding discard: @Sendable (Value) async -> Void,
        _ attempt: @escaping @Sendable (LinkAddress) async throws(NodeError) -> Value
    ) async throws(NodeError) -> Value {
        let outcome = await withTaskGroup(of: Event<Value>.self) { group -> Result<Value, NodeError> in
            var addresses = addresses
            var (startedCount, runningCount) = (0, 0)
            // Whether the next attempt may start, and whether further addresses are waited for.
            var (isDue, isSearching, hasSearched) = (false, false, further == nil)
            var lastFailure: NodeError?
            func startNext() {
                isDue = false
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
            func findNext() {
                guard let further else { return }
                group.addTask { .found(await further()) }
            }
            if !addresses.isEmpty { startNext() }
            while runningCount > 0 || isSearching, let event = await group.next() {
                switch event {
                case .ended(.success(let value)):
                    group.cancelAll()
                    for await case .ended(.success(let other)) in group { await discard(other) }
                    return .success(value)
                case .ended(.failure(let error)):
                    runningCount -= 1
                    if Self.counts(error, after: lastFailure) { lastFailure = error }
                    isDue = true
                case .delayed(let number): if number == startedCount - 1 { isDue = true }
                case .found(nil), .searched: isSearching = false
                case .found(let address?):
                    if !addresses.contains(address) {
                        // Before those of Bluetooth.
                        let end = addresses[startedCount...].firstIndex { $0.medium != .network } ?? addresses.endIndex
                        addresses.insert(address, at: end)
                    }
                    findNext()
                }
                if Task.isCancelled { isSearching = false }
                if isDue, !hasSearched, !Task.isCancelled {
                    (isSearching, hasSearched) = (true, true)
                    findNext()
                    group.addTask {
                        try? await Task.sleep(for: searchTime)
                        return .searched
                    }
                }
                guard isDue, startedCount < addresses.count, runningCount < maximumRunning, !Task.isCancelled else { continue }
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
