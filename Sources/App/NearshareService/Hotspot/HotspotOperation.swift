package import Nearshare

/// Runs an operation while this machine is a Wi-Fi access point, with the user's consent.
package struct HotspotOperation: Sendable {
    /// The user's consent to what a hotspot interrupts.
    package enum Consent: Sendable {
        case given
        /// Asks a question.
        case ask(@Sendable (String) async -> Bool)
        /// The user cannot be asked, because there is no terminal.
        case unavailable
    }

    private let connection: any WiFiConnection
    private let network: WiFiNetwork
    private let interface: String?
    private let consent: Consent
    private let reporter: any Reporter

    /// - Parameters:
    ///   - network: a fresh one.
    ///   - interface: the device to use; nil for any.
    package init(
        _ connection: any WiFiConnection, network: WiFiNetwork, interface: String?, consent: Consent,
        reporter: any Reporter
    ) {
        (self.connection, self.network, self.interface) = (connection, network, interface)
        (self.consent, self.reporter) = (consent, reporter)
    }

    /// Asks the user, starts the access point, runs `body`, and puts everything back.
    /// - Parameter body: ends soon after ``Hotspot/waitForFailure()`` has returned true.
    /// - Throws: ``CommandFailure`` when the user says no, or there is no network, or it has ended; and the errors of `body`.
    package func run<Value: Sendable>(
        interruption: any InterruptionHandler, _ body: @Sendable (Hotspot) async throws -> Value
    ) async throws -> Value {
        let plan: WiFiPlan
        do {
            plan = try await connection.prepare(on: interface)
        } catch {
            // The failure ends the command, which says it.
            report(HotspotStep(.abandoned, because: .unavailable))
            throw error
        }
        do {
            try await confirm(plan)
            report(HotspotStep(.starting, interface: plan.interface, "starting a hotspot on \(plan.interface)…"))
            let address: IPAddress
            do {
                address = try await interruption.run(
                    onInterrupt: { [connection] _ in connection.beginStop() },
                    { [connection, network] in try await connection.start(network) })
            } catch {
                if error as? WiFiError != .stopped {
                    report(HotspotStep(.abandoned, interface: plan.interface, because: .failed))
                }
                throw error
            }
            let result = try await run(Hotspot(connection, network: network, plan: plan, address: address), body)
            await stop(plan)
            return result
        } catch {
            await stop(plan)
            throw error
        }
    }

    private func stop(_ plan: WiFiPlan) async {
        guard await connection.stop() else { return }
        report(.ended(plan, "the hotspot is off"))
    }

    private func report(_ step: HotspotStep) { reporter.report(.hotspot(step)) }

    /// The end of the network is the reason for which `body` has failed, if both have.
    private func run<Value: Sendable>(
        _ hotspot: Hotspot, _ body: @Sendable (Hotspot) async throws -> Value
    ) async throws -> Value {
        async let _ = hotspot.watchNetwork()
        defer {
            // The failure ends the command, which says it.
            if hotspot.knownFailure != nil { report(.ended(hotspot.plan, because: .failed, nil)) }
        }
        let result: Value
        do {
            result = try await body(hotspot)
        } catch {
            throw hotspot.knownFailure ?? error
        }
        if let failure = hotspot.knownFailure { throw failure }
        return result
    }

    private func confirm(_ plan: WiFiPlan) async throws(CommandFailure) {
        guard let consequences = Self.consequences(of: plan) else { return }
        switch consent {
        case .given: return
        case .unavailable:
            throw CommandFailure(
                .usage, "\(consequences); there is no terminal to ask on, and --leave-wifi goes on without a question")
        case .ask(let ask):
            report(HotspotStep(.asking, interface: plan.interface))
            guard await ask("\(consequences)\nmake the hotspot? [y]es, [n]o: ") else {
                report(HotspotStep(.abandoned, interface: plan.interface, because: .declined))
                throw CommandFailure(.declined, "no hotspot was made, and nothing was changed")
            }
        }
    }

    /// The interruptions and shared connections that a hotspot brings; nil for none.
    static func consequences(of plan: WiFiPlan) -> String? {
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
    package let plan: WiFiPlan
    /// The address of this machine in the network.
    package let address: IPAddress
    private let connection: any WiFiConnection
    private let failed = Promise<WiFiError>()

    fileprivate init(_ connection: any WiFiConnection, network: WiFiNetwork, plan: WiFiPlan, address: IPAddress) {
        (self.connection, self.network, self.plan, self.address) = (connection, network, plan, address)
    }

    fileprivate var knownFailure: WiFiError? { failed.current }

    /// Records the failure when the network ends by itself.
    fileprivate func watchNetwork() async {
        if let error = await connection.failure { failed.fulfil(error) }
    }

    /// Waits until the network has ended by itself.
    /// - Returns: whether it has; false when the task is cancelled.
    package func waitForFailure() async -> Bool { await failed.value != nil }
}
