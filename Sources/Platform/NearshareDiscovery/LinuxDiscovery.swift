package import NearshareInterfaces

/// Chooses the engine that discovers peers on this machine.
package enum LinuxDiscovery {
    package enum Preference: String, Sendable, Hashable, CaseIterable {
        /// avahi-daemon where it answers, else the embedded responder.
        case automatic
        case embedded
        case daemon
    }

    /// - Throws: only for ``Preference/daemon``, when there is none.
    package static func make(preferring preference: Preference = .automatic) throws(DiscoveryError) -> any Discovery {
        switch preference {
        case .embedded: return EmbeddedDiscovery()
        case .daemon: return try DaemonDiscovery(timeout: .seconds(2))
        case .automatic:
            // Without a bus this fails at once; a bus answers in a millisecond or two. One that hangs is no reason to wait.
            return (try? DaemonDiscovery(timeout: .milliseconds(100))) ?? EmbeddedDiscovery()
        }
    }
}
