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
            let count = try ReceivedItems(of: LocalMachine()).removeRecordsOfGoneItems()
            Console.notice("\(count) \(count == 1 ? "record" : "records") removed")
        }
    }
}
