package import Nearshare

/// Makes a Wi-Fi network of this machine's own for as long as something runs, with the user's consent.
package struct HotspotOperation: Sendable {
    /// The user's consent to what a hotspot interrupts.
    package enum Consent: Sendable {
        case given
        /// Asks a question.
        case ask(@Sendable (String) async -> Bool)
        /// There is no terminal to ask on.
        case unavailable
    }

    private let accessPoint: any AccessPoint
    private let network: WiFiNetwork
    private let interface: String?
    private let consent: Consent
    private let notify: @Sendable (String) -> Void

    /// - Parameters:
    ///   - network: a fresh one.
    ///   - interface: the device that makes it; nil for any.
    ///   - notify: reports the steps.
    package init(
        _ accessPoint: any AccessPoint, network: WiFiNetwork, interface: String?, consent: Consent,
        notify: @escaping @Sendable (String) -> Void
    ) {
        (self.accessPoint, self.network, self.interface) = (accessPoint, network, interface)
        (self.consent, self.notify) = (consent, notify)
    }

    /// Asks the user, makes the network, runs `body`, and puts everything back.
    /// - Parameter body: ends soon after ``Hotspot/hasFailed()`` has returned true.
    /// - Throws: ``CommandFailure`` when the user says no, or there is no network, or it has ended; and the errors of `body`.
    package func run<Result: Sendable>(
        interruption: any InterruptionHandler, _ body: @Sendable (Hotspot) async throws -> Result
    ) async throws -> Result {
        let plan = try await accessPoint.prepare(on: interface)
        do {
            try await confirm(plan)
            notify("starting a hotspot on \(plan.interface)…")
            let address = try await interruption.run(
                onInterrupt: { [accessPoint] _ in accessPoint.beginStop() },
                { [accessPoint, network] in try await accessPoint.start(network) })
            let result = try await run(Hotspot(accessPoint, network: network, plan: plan, address: address), body)
            await stop(plan)
            return result
        } catch {
            await stop(plan)
            throw error
        }
    }

    private func stop(_ plan: AccessPointPlan) async {
        guard await accessPoint.stop() else { return }
        let ending = plan.replacedConnection.map { "; \(plan.interface) returns to \(TerminalText.quoted($0))" }
        notify("the hotspot is off\(ending ?? "")")
    }

    /// The end of the network is the reason for which `body` has failed, if both have.
    private func run<Result: Sendable>(
        _ hotspot: Hotspot, _ body: @Sendable (Hotspot) async throws -> Result
    ) async throws -> Result {
        let result: Result
        do {
            result = try await body(hotspot)
        } catch {
            throw hotspot.knownFailure ?? error
        }
        if let failure = hotspot.knownFailure { throw failure }
        return result
    }

    private func confirm(_ plan: AccessPointPlan) async throws(CommandFailure) {
        guard let consequences = Self.consequences(of: plan) else { return }
        switch consent {
        case .given: return
        case .unavailable:
            throw CommandFailure(
                .usage, "\(consequences); there is no terminal to ask on, and --leave-wifi goes on without a question")
        case .ask(let ask):
            guard await ask("\(consequences)\nmake the hotspot? [y]es, [n]o: ") else {
                throw CommandFailure(.declined, "no hotspot was made, and nothing was changed")
            }
        }
    }

    /// The interruptions and shared connections that a hotspot brings; nil for none.
    static func consequences(of plan: AccessPointPlan) -> String? {
        var clauses: [String] = []
        if let replaced = plan.replacedConnection.map({ TerminalText.quoted($0) }) {
            clauses.append(
                "the hotspot takes \(plan.interface) away from the Wi-Fi network \(replaced) until this command ends")
            if plan.sharedConnection == nil { clauses.append("this machine has no internet meanwhile") }
        }
        if let shared = plan.sharedConnection.map({ TerminalText.quoted($0) }) {
            clauses.append("phones that join the hotspot use the connection \(shared) of this machine as well")
        }
        return clauses.isEmpty ? nil : clauses.joined(separator: "; ")
    }
}

/// A Wi-Fi network of this machine's own that devices can join.
package struct Hotspot: Sendable {
    package let network: WiFiNetwork
    package let plan: AccessPointPlan
    /// The address of this machine in the network.
    package let address: IPAddress
    private let accessPoint: any AccessPoint
    private let failed = Promise<AccessPointError>()

    fileprivate init(_ accessPoint: any AccessPoint, network: WiFiNetwork, plan: AccessPointPlan, address: IPAddress) {
        (self.accessPoint, self.network, self.plan, self.address) = (accessPoint, network, plan, address)
    }

    fileprivate var knownFailure: AccessPointError? { failed.current }

    /// Waits until the network has ended by itself.
    /// - Returns: whether it has; false when the task is cancelled.
    package func hasFailed() async -> Bool {
        guard let error = await accessPoint.failure else { return false }
        failed.fulfil(error)
        return true
    }
}
