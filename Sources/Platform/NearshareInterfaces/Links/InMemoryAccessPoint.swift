package import NearshareBase

/// An access point without a device, whose end and failures the owner decides.
package final class InMemoryAccessPoint: AccessPoint {
    private enum End: Sendable {
        case stopped
        case failed(AccessPointError)
    }

    private let plan: Result<AccessPointPlan, AccessPointError>
    private let joiningPlan: Result<AccessPointPlan, AccessPointError>
    private let address: Result<IPAddress, AccessPointError>?
    private let end = Promise<End>()
    private let started = Monitor<(network: WiFiNetwork, role: WiFiRole)?>(nil)

    /// - Parameters:
    ///   - plan: the result of ``prepare(on:for:)``.
    ///   - joiningPlan: the same for ``WiFiPurpose/joining``; nil for that of all purposes.
    ///   - address: the result of ``start(_:as:)``; nil for one that waits until ``beginStop()``.
    package init(
        plan: Result<AccessPointPlan, AccessPointError>,
        joiningPlan: Result<AccessPointPlan, AccessPointError>? = nil,
        address: Result<IPAddress, AccessPointError>? = .success(.v4(0x0a2a_0001))
    ) {
        (self.plan, self.joiningPlan, self.address) = (plan, joiningPlan ?? plan, address)
    }

    /// The network that was started; nil for none.
    package var network: WiFiNetwork? { started.withLock { $0?.network } }

    /// The part that this machine has in it; nil for none.
    package var role: WiFiRole? { started.withLock { $0?.role } }

    /// Whether ``beginStop()``, ``stop()`` or ``fail(_:)`` was called.
    package var hasEnded: Bool { end.current != nil }

    package func prepare(
        on interface: String?, for purpose: WiFiPurpose
    ) async throws(AccessPointError) -> AccessPointPlan {
        try (purpose == .joining ? joiningPlan : plan).get()
    }

    package func start(_ network: WiFiNetwork, as role: WiFiRole) async throws(AccessPointError) -> IPAddress {
        started.update { $0 = (network, role) }
        guard let address else {
            _ = await end.value
            throw .stopped
        }
        return try address.get()
    }

    /// Ends the network as a device does that is unplugged.
    package func fail(_ error: AccessPointError) { end.fulfil(.failed(error)) }

    package var failure: AccessPointError? {
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
