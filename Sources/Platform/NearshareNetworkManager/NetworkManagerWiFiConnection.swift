package import NearshareBase
internal import NearshareDBus
package import NearshareInterfaces
internal import Synchronization

/// A hotspot by NetworkManager, over the system bus. The network is bound to this object's connection to the bus, so it
/// ends with the process as well. The bus is used from ``prepare(on:for:)`` on.
package final class NetworkManagerWiFiConnection: WiFiConnection {
    private enum End: Sendable {
        case stopped
        case failed(WiFiError)
    }

    private let clock: @Sendable () -> MonotonicInstant
    private let thread = Mutex<EventLoopThread<NetworkManagerClient>?>(nil)
    private let start = Promise<Result<IPAddress, WiFiError>>()
    private let end = Promise<End>()

    package init(clock: @escaping @Sendable () -> MonotonicInstant = { SystemClock.monotonic() }) {
        self.clock = clock
    }

    deinit { thread.withLock(\.self)?.close() }

    package func prepare(
        on interface: String?, for purpose: WiFiPurpose
    ) async throws(WiFiError) -> WiFiPlan {
        let result: Result<WiFiPlan, WiFiError>
        do throws(ThreadError) {
            // Connecting and reading block for some milliseconds.
            result = try await BlockingThread.run { [self] in
                Result { () throws(WiFiError) in try connect(interface, purpose) }
            }
        } catch {
            throw .noBus(error.description)
        }
        return try result.get()
    }

    private func connect(_ interface: String?, _ purpose: WiFiPurpose) throws(WiFiError) -> WiFiPlan {
        let plan = Monitor<WiFiPlan?>(nil)
        let running: EventLoopThread<NetworkManagerClient>
        do throws(EventLoopStartError<WiFiError>) {
            running = try EventLoopThread(clock: clock) { [clock, start, end] handle throws(WiFiError) in
                let client = try NetworkManagerClient(
                    on: interface, for: purpose, wakeup: handle.wakeup, clock: clock
                ) { event in
                    switch event {
                    case .started(let address): start.fulfil(.success(address))
                    case .ended(let error):
                        start.fulfil(.failure(error ?? .stopped))
                        end.fulfil(error.map { .failed($0) } ?? .stopped)
                    }
                }
                plan.update { $0 = client.target.plan }
                return client
            }
        } catch {
            switch error {
            case .noThread(let reason): throw .noBus(reason)
            case .notMade(let error): throw error
            }
        }
        thread.withLock { $0 = running }
        return plan.wait { $0 }
    }

    package func start(_ network: WiFiNetwork, as role: WiFiRole) async throws(WiFiError) -> IPAddress {
        guard let running = thread.withLock(\.self) else { throw .stopped }
        running.post { $0.start(network, as: role) }
        guard let result = await start.value else { throw .stopped }
        return try result.get()
    }

    package var failure: WiFiError? {
        get async {
            guard case .failed(let error)? = await end.value else { return nil }
            return error
        }
    }

    package func beginStop() { thread.withLock(\.self)?.post { $0.stop() } }

    package func stop() async -> Bool {
        guard let running = thread.withLock({ $0.take() }) else { return false }
        var wasActive = false
        if case .success? = start.current, end.current == nil { wasActive = true }
        running.post { $0.stop() }
        _ = await end.value
        running.close()
        return wasActive
    }
}
