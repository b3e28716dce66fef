package import NearshareInterfaces

/// Selects the discovery engine of this machine.
package enum LinuxDiscovery {
    package enum Preference: String, Sendable, Hashable, CaseIterable {
        /// avahi-daemon where it answers, otherwise the embedded responder.
        case automatic
        case embedded
        case daemon
    }

    /// - Throws: only for ``Preference/daemon``, when it does not answer.
    package static func make(
        preferring preference: Preference = .automatic, environment: DiscoveryEnvironment = .system
    ) throws(DiscoveryError) -> any Discovery {
        switch preference {
        case .embedded: return EmbeddedDiscovery(environment: environment)
        case .daemon: return try DaemonDiscovery(timeout: .seconds(2), environment: environment)
        case .automatic:
            // Fails at once without a bus; a bus answers within two milliseconds unless it hangs.
            return (try? DaemonDiscovery(timeout: .milliseconds(100), environment: environment))
                ?? EmbeddedDiscovery(environment: environment)
        }
    }
}
