package import NearshareInterfaces

/// Selects the discovery engine of this machine.
package enum LinuxDiscovery {
    package enum Preference: String, Sendable, Hashable, CaseIterable {
        /// avahi-daemon where it answers at the start, with the embedded responder while it is away; otherwise the embedded
        /// responder alone.
        case automatic
        case embedded
        case daemon
    }

    /// - Parameter report: receives a message for the user when avahi-daemon stops, and when it is back.
    /// - Throws: only for ``Preference/daemon``, when it does not answer.
    package static func make(
        preferring preference: Preference = .automatic, environment: DiscoveryEnvironment = .system,
        report: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(DiscoveryError) -> any Discovery {
        switch preference {
        case .embedded: return EmbeddedDiscovery(environment: environment)
        case .daemon: return try DaemonDiscovery(timeout: .seconds(2), environment: environment)
        case .automatic:
            let fallback: @Sendable () -> any Discovery = { EmbeddedDiscovery(environment: environment) }
            // Fails at once without a bus; a bus answers within two milliseconds unless it hangs.
            return
                (try? FallbackDiscovery(
                    timeout: .milliseconds(100), environment: environment, makeFallback: fallback, report: report))
                ?? fallback()
        }
    }
}
