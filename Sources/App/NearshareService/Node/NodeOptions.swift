package import Logging
package import Nearshare

/// The options of a node; nil means the configuration's value.
package struct NodeOptions: Sendable {
    /// The purpose for which a node runs.
    package enum Purpose: Sendable {
        /// `mesh run`: runs until it is stopped, and asks on the terminal.
        case daemon
        /// `receive`: hands its role over to a daemon, and receives on.
        case receiver
        /// Any other command: serves that command while it runs, and asks no questions. Hands its role over to a daemon, which the
        /// command uses from then on.
        case command
    }

    package var purpose: Purpose
    /// A profile's name.
    package var profile: String?
    package var inbox: String?
    package var name: DisplayName?
    package var accept: Configuration.Accept?
    /// Bytes.
    package var maximumSize: UInt64?
    /// Bytes.
    package var maximumPerPeer: UInt64?
    package var keepsExecutable = false
    package var existing: ExistingFilePolicy?
    package var port: UInt16?
    package var interface: String?
    /// nil for no Bluetooth.
    package var radio: RadioOpener?
    package var log: Logger

    package init(
        purpose: Purpose = .command, interface: String? = nil,
        radio: RadioOpener?, log: Logger
    ) {
        self.purpose = purpose
        self.interface = interface
        self.radio = radio
        self.log = log
    }
}

/// The functions of the command line for a node in its process.
package struct NodeEnvironment: Sendable {
    package var interruption: any InterruptionHandler
    /// The display for questions to the user; nil when the user cannot be asked.
    package var display: (any PromptDisplay)?
    /// Prepares this machine for a Wi-Fi network for a transfer, on the interface that the node uses.
    package var makeHotspot: @Sendable (_ interface: String?) -> HotspotPreparer = { HotspotPreparer(interface: $0) }
    /// Creates the reporter of received files. The argument publishes an event to the commands that use the node.
    package var makeReporter: @Sendable (_ publish: @escaping @Sendable (ControlEvent) -> Void) -> any Reporter

    package init(
        interruption: any InterruptionHandler, display: (any PromptDisplay)? = nil,
        makeReporter: @escaping @Sendable (_ publish: @escaping @Sendable (ControlEvent) -> Void) -> any Reporter
    ) {
        self.interruption = interruption
        self.display = display
        self.makeReporter = makeReporter
    }
}
