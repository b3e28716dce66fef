package import NearshareInterfaces

/// Selects the discovery engine of this machine.
package enum LinuxDiscovery {
    package enum Preference: String, Sendable, Hashable, CaseIterable {
        /// avahi-daemon where and while it answers, otherwise the embedded responder.
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
            // Fails at once without a bus; a bus answers within two milliseconds unless it hangs.
            let fallback: @Sendable () -> any Discovery = { EmbeddedDiscovery(environment: environment) }
            return
                (try? FallbackDiscovery(
                    timeout: .milliseconds(100), environment: environment, makeFallback: fallback, report: report))
                ?? fallback()
        }
    }
}
