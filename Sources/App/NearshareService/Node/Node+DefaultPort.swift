package import Nearshare

extension Node {
    /// The TCP port of a node of the tool, so that a firewall has to be opened once: a user port (RFC 6335) that IANA has not
    /// assigned, below the ports that Linux gives to outgoing connections (docs/decisions/default-port.md).
    package static let defaultPort: UInt16 = 29742

    /// Listens on the chosen port; without one on ``defaultPort``, or on a free one when another process has it.
    package func listen(
        onPort chosen: UInt16?, usesRadio: Bool = true, joinsMesh: Bool = true
    ) throws(NodeError) -> Listener {
        if let chosen { return try listen(port: chosen, usesRadio: usesRadio, joinsMesh: joinsMesh) }
        do {
            return try listen(port: Self.defaultPort, usesRadio: usesRadio, joinsMesh: joinsMesh)
        } catch {
            guard case .unavailable = error else { throw error }
            return try listen(port: 0, usesRadio: usesRadio, joinsMesh: joinsMesh)
        }
    }
}
