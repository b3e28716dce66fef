package import NearshareBase

/// A Wi-Fi connection without a device, whose end and failures the owner decides.
package final class InMemoryWiFiConnection: WiFiConnection {
    private enum End: Sendable {
        case stopped
        case failed(WiFiError)
    }

    private let plan: Result<WiFiPlan, WiFiError>
    private let stationPlan: Result<WiFiPlan, WiFiError>
    private let address: Result<IPAddress, WiFiError>?
    private let end = Promise<End>()
    private let started = Monitor<(network: WiFiNetwork, role: WiFiRole)?>(nil)

    /// - Parameters:
    ///   - plan: the result of ``prepare(on:for:)``.
    ///   - stationPlan: the same for ``WiFiPurpose/station``; nil for that of all purposes.
    ///   - address: the result of ``start(_:as:)``; nil for one that waits until ``beginStop()``.
    package init(
        plan: Result<WiFiPlan, WiFiError>,
        stationPlan: Result<WiFiPlan, WiFiError>? = nil,
        address: Result<IPAddress, WiFiError>? = .success(.v4(0x0a2a_0001))
    ) {
        (self.plan, self.stationPlan, self.address) = (plan, stationPlan ?? plan, address)
    }

    /// The network that was started; nil for none.
    package var network: WiFiNetwork? { started.withLock { $0?.network } }

    /// The role of this machine in the network; nil for none.
    package var role: WiFiRole? { started.withLock { $0?.role } }

    /// Whether ``beginStop()``, ``stop()`` or ``fail(_:)`` was called.
    package var hasEnded: Bool { end.current != nil }

    package func prepare(
        on interface: String?, for purpose: WiFiPurpose
    ) async throws(WiFiError) -> WiFiPlan {
        try (purpose == .station ? stationPlan : plan).get()
    }

    package func start(_ network: WiFiNetwork, as role: WiFiRole) async throws(WiFiError) -> IPAddress {
        started.update { $0 = (network, role) }
        guard let address else {
            _ = await end.value
            throw .stopped
        }
        return try address.get()
    }

    /// Ends the network as a device does that is unplugged.
    package func fail(_ error: WiFiError) { end.fulfil(.failed(error)) }

    package var failure: WiFiError? {
        get async {
            guard case .failed(let error)? = await end.value else { return nil }
            return error
        }
    }

    package func beginStop() { end.fulfil(.stopped) }

    package func stop() async -> Bool {
        var isRunning = false
        if case .success? = address, network != nil, !hasEnded { isRunning = true }
        beginStop()
        return isRunning
    }
}
