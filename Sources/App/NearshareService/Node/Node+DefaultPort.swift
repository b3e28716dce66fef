package import Nearshare
internal import NearshareDiscovery

extension Node {
    /// The TCP port of a node of the tool, so that a firewall has to be opened once: a user port (RFC 6335) that IANA has not
    /// assigned, below the ports that Linux gives to outgoing connections (docs/decisions/default-port.md).
    package static let defaultPort: UInt16 = 29742

    /// The preferred TCP port of a page for browsers.
    package static let defaultPagePort: UInt16 = 29743

    /// Listens on the chosen port; without one on ``defaultPort``, or on a free one when another process has it.
    package func listen(
        onPort chosen: UInt16?, usesRadio: Bool = true, joinsMesh: Bool = true
    ) throws(NodeError) -> Listener {
        let listener = makeListener(joinsMesh: joinsMesh)
        try openPort(chosen: chosen, of: listener)
        if usesRadio { startRadio(for: listener) }
        return listener
    }

    /// Opens the chosen port for a listener; without one ``defaultPort``, or a free one when another process has it.
    func openPort(chosen: UInt16?, of listener: Listener) throws(NodeError) {
        if try openPort(chosen ?? Self.defaultPort, of: listener) { return }
        if let chosen, chosen != 0 { throw .unavailable("port \(chosen) is in use; choose another one with --port") }
        guard try openPort(0, of: listener) else { throw .unavailable("no TCP port is free; end a program that uses many") }
    }

    /// Listens like ``listen(onPort:usesRadio:joinsMesh:)``, but first waits up to `timeout` for a `receive` of this user, which
    /// gives up its port when it sees this node in `directory` (``ReceiverPort``).
    func listen(
        onPort chosen: UInt16?, watching directory: String, timeout: Duration
    ) async throws -> Listener {
        let listener = makeListener(joinsMesh: true)
        let watch = DirectoryWatch(directory)
        let end = SystemClock.monotonic() + timeout
        while try !openPort(chosen ?? Self.defaultPort, of: listener) {
            let remaining = end - SystemClock.monotonic()
            guard let watch, remaining > .zero else {
                try openPort(chosen: chosen, of: listener)
                break
            }
            try await watch.awaitChange(timeout: remaining)
        }
        startRadio(for: listener)
        return listener
    }

    /// A message about a port that is not the usual one, because another process has that; nil otherwise.
    /// - Parameter chosen: the port that the user has chosen.
    package static func fallbackNotice(port: UInt16, chosen: UInt16?) -> String? {
        guard chosen == nil, port != defaultPort, port != 0 else { return nil }
        return fallbackText(port: port, usedBy: NetworkDiagnosis.nodeProcess(onTCPPort: defaultPort))
    }

    /// - Parameter process: the id of the nearshare of this user that has the usual port; nil where another
    ///   program has it, or one whose sockets this process cannot see.
    static func fallbackText(port: UInt16, usedBy process: Int32?) -> String {
        let (user, other) =
            process.map { (" by another nearshare of this user (process \($0))", "that process") }
            ?? (", by another nearshare or by another program", "the other program")
        return
            "port \(defaultPort) is in use\(user); listening on \(port), which peers find: open it in the firewall, or end \(other) "
            + "and start again"
    }
}
