internal import ArgumentParser
internal import Nearshare
internal import NearshareService

struct InboxCleanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clean",
        abstract: "Remove the records of items that are gone, also from the history; no file is touched.")

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let state = try LocalMachine().state
            var senders: Set<PeerID> = []
            let count = try ReceiveHistory(in: state).remove { entry in
                guard entry.isRemoved == true || entry.isGone else { return false }
                senders.insert(entry.peer.peerID)
                return true
            }
            // Without the record of its completion, a resumed transfer would be listed as interrupted. The records of attempts lack
            // the path of the item, so all resumed ones of its sender are removed.
            try TransferLog(of: .notReceived, in: state).removeResumedAttempts { senders.contains($0) }
            Console.notice("\(count) \(count == 1 ? "record" : "records") removed")
        }
    }
}
