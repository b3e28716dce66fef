internal import ArgumentParser
internal import Nearshare
internal import NearshareService

/// A received item, as named on the command line.
enum ReceivedItemArgument {
    @Sendable static func completions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        guard let machine = try? LocalMachine(), let names = try? ReceivedItems(of: machine).fileNames() else { return [] }
        // A shell would give a meaning to characters of other names (T8).
        let shell = CompletionShell.requesting
        return names.filter { PeerArgument.isQuotable($0, for: shell) }.sorted()
    }
}
