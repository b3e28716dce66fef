internal import ArgumentParser
internal import Logging
internal import Nearshare
internal import NearshareService

/// How a receiver is advertised and what it accepts; options of `receive` and `mesh run`.
struct ReceivingOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Directory for received files (default: ~/Inbox).", valueName: "dir"))
    var inbox: String?

    @Option(help: ArgumentHelp("Display name of this machine.", valueName: "name"))
    var name: NameArgument?

    @Option(
        help: ArgumentHelp(
            "Which invitations are accepted: ask, friends, all or none (default: ask on a terminal, otherwise friends).",
            valueName: "policy"))
    var accept: Configuration.Accept?

    @Option(help: ArgumentHelp("Decline larger transfers, such as 500MB.", valueName: "size"))
    var maxSize: SizeArgument?

    @Option(
        help: ArgumentHelp(
            "Limit on what is accepted from each peer without asking while this runs, such as 2GB.", valueName: "size"))
    var maxPerPeer: SizeArgument?

    @Option(help: ArgumentHelp("Listen on this TCP port instead of a free one.", valueName: "port"))
    var port: UInt16?

    @Option(help: ArgumentHelp("Be reachable on this network interface only.", valueName: "interface"))
    var interface: String?

    @OptionGroup var radio: RadioOptions

    func limits(_ machine: LocalMachine) -> InboxLimits {
        var limits = InboxLimits()
        limits.maximumSize = maxSize?.bytes ?? machine.configuration.maximumSize
        return limits
    }

    func quota(_ machine: LocalMachine) -> PeerQuota {
        PeerQuota(limit: maxPerPeer?.bytes ?? machine.configuration.maximumPerPeer)
    }

    /// The options of a node that the user runs.
    func nodeOptions(log: Logger) -> NodeOptions {
        var options = NodeOptions(purpose: .standing, interface: interface, radio: radio.radio(log: log), log: log)
        (options.inbox, options.name, options.accept, options.port) = (inbox, name?.name, accept, port)
        (options.maximumSize, options.maximumPerPeer) = (maxSize?.bytes, maxPerPeer?.bytes)
        return options
    }
}

extension Configuration.Accept: ExpressibleByArgument {}
