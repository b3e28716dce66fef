internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

extension NearshareCommand {
    /// Lists nearby peers and example commands, for a user who has typed `nearshare` alone.
    package func run() async throws {
        guard TerminalProperties.isTerminal(STDOUT_FILENO) else { throw CleanExit.helpRequest(self) }
        try await runCommand {
            let machine = try LocalMachine()
            let list = BrowsedPeers(trust: try machine.trust.read(), reporter: TextReporter())
            Console.notice("looking for peers…")
            let settings = try machine.nodeSettings(discovery: machine.discovery())
            // On the network alone: a search over Bluetooth takes longer.
            try await withNode(settings) { node in try await list.follow(node, [.network], for: .milliseconds(1500)) }
            let peers = list.proposedPeers
            let names = peers.prefix(5).map { peer in
                let isNameUnique = peers.count { $0.name == peer.name } == 1
                // The first column is the name.
                return isNameUnique ? list.row(peer)[0] : peer.name.tagged(peer.id)
            }
            let example = peers.first.map { PeerArgument.wordForAdvice($0.name, $0.id) } ?? "anna"
            let more = peers.count - names.count
            let shownNames =
                names.isEmpty ? "no peers; on another machine, run `nearshare receive`" : names.joined(separator: ", ")
            Console.writeTable([
                ["you", "\(settings.name.unquoted) (\(settings.identity.peerID))"],
                ["near", shownNames + (more > 0 ? " and \(more) more (`nearshare browse`)" : "")],
                ["send", "nearshare send photo.jpg --to \(example)"],
                ["receive", "nearshare receive"],
                ["talk", "nearshare chat \(example)"],
                ["voice note", "nearshare voice --to \(example)"],
                ["set up", "nearshare setup"],
                ["diagnose", "nearshare doctor"],
                ["help", "nearshare --help, man nearshare"],
            ])
        }
    }
}
