internal import ArgumentParser
internal import Logging
internal import Nearshare
internal import NearshareService

/// How a receiver is advertised and what it accepts; options of `receive` and `mesh run`.
struct ReceivingOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("Directory for received files (default: the configured one, or ~/Inbox).", valueName: "dir"),
        completion: .directory, transform: PathArgument.expanded)
    var inbox: String?

    @Option(
        help: ArgumentHelp(
            "Display name of this machine (default: the configured or chosen one, or the host's).", valueName: "name"),
        transform: NameArgument.expected)
    var name: NameArgument?

    @Option(
        help: ArgumentHelp(
            "Which invitations are accepted (default: the configured policy, or ask; with ask and no terminal, those of friends are "
                + "accepted).",
            valueName: "policy"))
    var accept: Configuration.Accept?

    @Option(
        help: ArgumentHelp(
            "Maximum size of a transfer, such as 500MB; larger ones are declined (default: the configured one, or none).",
            valueName: "size"),
        transform: SizeArgument.expected)
    var maxSize: SizeArgument?

    @Option(
        help: ArgumentHelp(
            "Maximum size accepted from one peer without asking, until the program ends, such as 2GB (default: the configured one, "
                + "or none).", valueName: "size"),
        transform: SizeArgument.expected)
    var maxPerPeer: SizeArgument?

    @Flag(help: "Keep executable bits that the sender has set; otherwise no received file is executable.")
    var keepExecutable = false

    @Flag(help: "Merge into folders of the same name, and replace files that are older than the received ones.")
    var update = false

    @Flag(help: "Merge into folders of the same name, and replace all files of the same path.")
    var overwrite = false

    @Option(
        help: ArgumentHelp(
            "Listen on this TCP port, 0 for any free one (default: the configured one, or else 29742, or a free one when "
                + "that is taken).",
            valueName: "port"),
        transform: UInt16.expecting("a port from 0 to 65535, where 0 is any free one"))
    var port: UInt16?

    @OptionGroup var nearby: NearbyOptions

    func validate() throws {
        if update, overwrite { throw ValidationError("--update and --overwrite exclude each other; choose one") }
        if let inbox, LocalPath(inbox).isExistingNonDirectory {
            throw ValidationError("--inbox expects a folder; \(TerminalText.escaped(inbox, columns: 400)) is not one")
        }
    }

    /// Refuses an inbox, of the option or the configuration, that is no folder: no item can be moved there.
    func requireInboxFolder() throws {
        let path = try LocalMachine().inbox(inbox, limits: InboxLimits()).path
        guard LocalPath(path).isExistingNonDirectory else { return }
        throw CommandFailure(
            .usage, "the inbox must be a folder; \(TerminalText.escaped(path, columns: 400)) is not one: choose another path")
    }

    /// nil where neither option is given.
    var existing: ExistingFilePolicy? { overwrite ? .overwrite : update ? .update : nil }

    func makeLimits(for machine: LocalMachine) -> InboxLimits {
        machine.configuration.inboxLimits(
            maximumSize: maxSize?.bytes, keepsExecutable: keepExecutable, existing: existing)
    }

    func makeQuota(for machine: LocalMachine) -> PeerQuota {
        machine.configuration.peerQuota(maximumPerPeer: maxPerPeer?.bytes)
    }

    /// The options for a node, such as that of `nearshare mesh run`.
    func nodeOptions(log: Logger) -> NodeOptions {
        var options = NodeOptions(
            purpose: .daemon, interface: nearby.interface, radio: nearby.bluetooth.makeOpener(log: log), log: log)
        (options.inbox, options.name, options.accept, options.port) = (inbox, name?.name, accept, port)
        (options.maximumSize, options.maximumPerPeer) = (maxSize?.bytes, maxPerPeer?.bytes)
        (options.keepsExecutable, options.existing) = (keepExecutable, existing)
        return options
    }
}

extension Configuration.Accept: ExpressibleByArgument {}
