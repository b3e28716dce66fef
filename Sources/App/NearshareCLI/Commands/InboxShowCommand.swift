internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct InboxShowCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show a received picture in the terminal.",
        discussion: """
            chafa (Debian: chafa) draws it: with the graphics of the terminal, or with characters. It runs in a process that can read \
            no other file, change none and use no network.
            """)

    @Argument(
        help: ArgumentHelp("A path or a name; by default the item received last.", valueName: "item"),
        completion: .custom(ReceivedItemArgument.completions))
    var item: String?

    @OptionGroup var global: GlobalOptions

    func prepare() throws -> @Sendable () async throws -> Void {
        guard TerminalProperties.isTerminal(STDOUT_FILENO) else {
            throw CommandFailure(.usage, "standard output is not a terminal, where a picture can be shown")
        }
        guard TerminalProperties.canMoveCursor else {
            throw CommandFailure(.usage, "this terminal shows no pictures (TERM=dumb, or none); use `nearshare inbox open`")
        }
        let viewer = try PictureViewer.start()
        return { try await show(by: viewer) }
    }

    private func show(by viewer: PictureViewer) async throws {
        let entry = try ReceivedItems(of: LocalMachine()).findPicture(item)
        var size = TerminalProperties.size(of: STDOUT_FILENO)
        // The last row is the shell's.
        size.rows -= 1
        let picture = try await viewer.draw(entry.path, in: size)
        // A process that ends within a sequence leaves a terminal that hides what follows. A second signal ends it all the same.
        let finish: @Sendable () -> Void = {}
        do {
            try await SignalHandling.run(onSignal: finish) {
                try await BlockingThread.run { DescriptorOutput.write(picture.bytes, to: STDOUT_FILENO) }
            }
        } catch {
            DescriptorOutput.write(DrawnPicture.end, to: STDOUT_FILENO)
            throw error
        }
    }
}
