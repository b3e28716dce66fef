internal import ArgumentParser
internal import Logging
internal import Nearshare
internal import NearshareService

/// How a machine is visible, and what it takes: of `receive` and of `mesh run`.
struct ReceivingOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Where received files go (default: ~/Inbox).", valueName: "dir"))
    var inbox: String?

    @Option(help: ArgumentHelp("What others see this machine as.", valueName: "name"))
    var name: NameArgument?

    @Option(
        help: ArgumentHelp(
            "Who is accepted: ask, friends, all or none (default: ask on a terminal, else friends).", valueName: "policy"))
    var accept: Configuration.Accept?

    @Option(help: ArgumentHelp("Decline what is larger, such as 500MB.", valueName: "size"))
    var maxSize: SizeArgument?

    @Option(
        help: ArgumentHelp(
            "Without asking, take no more than this from each peer while this runs, such as 2GB.", valueName: "size"))
    var maxPerPeer: SizeArgument?

    @Option(help: ArgumentHelp("Listen on this TCP port instead of a free one.", valueName: "port"))
    var port: UInt16?

    @Option(help: ArgumentHelp("Be reachable through this network interface only.", valueName: "interface"))
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
