package import Nearshare

/// The name under which the running node of this user is known to peers, which a node reads when it starts.
package enum RunningName {
    /// The sentence about the running node that keeps its former name.
    /// - Parameter name: the new name.
    /// - Returns: nil where no node runs, and for one that has the new name.
    package static func notice(on machine: LocalMachine, after name: DisplayName) async -> String? {
        // Without a reply only this sentence is missing.
        let running = try? await withRunningNode(of: machine) { try await $0.status() }
        return running.flatMap { notice(about: $0, after: name) }
    }

    static func notice(about status: NodeStatus, after name: DisplayName) -> String? {
        guard status.name != name else { return nil }
        let command = status.isDaemon ? "`nearshare mesh run`" : "`nearshare receive` or `chat`"
        return
            "\(command) (process \(status.process)) is still called \(status.name.unquoted) for others, until you end it and start it "
            + "again\(status.isDaemon ? " (`systemctl --user restart nearshare`, where the service runs it)" : "")"
    }
}
