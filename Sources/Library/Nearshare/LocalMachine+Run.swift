internal import Glibc
package import Logging
public import NearshareBase
public import NearshareDirect
public import NearshareEngine
package import NearshareInterfaces

extension LocalMachine {
    /// Runs a node for as long as `body` runs. When `body` returns or throws, the node ends its links and advertisements, and
    /// waits for its threads.
    ///
    ///     try await LocalMachine().run { node in
    ///         let anna = try await node.find("anna", timeout: .seconds(5))
    ///         …
    ///     }
    /// - Parameters:
    ///   - name: the name that peers see; nil for the configured one, or the host's.
    ///   - interface: the only network interface to use; nil for the configured one, or all.
    ///   - findsOthers: false for a node that neither advertises nor browses, which starts faster.
    ///   - usesBluetooth: also advertises, browses and connects over Bluetooth, where this machine has it.
    ///   - encryption: the preference for all links.
    ///   - limits: on the links that peers open.
    ///   - log: receives lines for diagnosis, without names of files and peers; nil drops them.
    ///   - body: uses the node.
    /// - Throws: ``StorageError`` when the node cannot start, also because another process has a node with the same
    ///   ``MachineIdentity/application(_:)``; ``NodeError/unavailable(_:)`` when discovery cannot start,
    ///   ``NodeError/invalidParameter(_:)`` for an interface that does not exist; and errors of `body`.
    public func run<Result: Sendable>(
        as name: DisplayName? = nil, interface: String? = nil, findsOthers: Bool = true, usesBluetooth: Bool = false,
        encryption: EncryptionPreference = .required, limits: NodeLimits = NodeLimits(),
        log: (@Sendable (String) -> Void)? = nil,
        body: @Sendable (Node) async throws -> Result
    ) async throws -> Result {
        let settings = try nodeSettings(
            as: name, interface: interface, findsOthers: findsOthers, usesBluetooth: usesBluetooth, encryption: encryption,
            limits: limits, log: log)
        return try await withNode(settings, body: body)
    }

    /// Starts a node that runs until ``Node/stop()``, for objects that live longer than a function, such as a view model. Where
    /// a scope will do, ``run(as:interface:findsOthers:usesBluetooth:encryption:limits:log:body:)`` cannot forget to stop it.
    ///
    ///     let node = try LocalMachine().startNode()
    ///     …
    ///     await node.stop()
    ///
    /// The parameters are those of `run`.
    /// - Throws: ``StorageError`` and ``NodeError`` as `run`, when the node cannot start.
    public func startNode(
        as name: DisplayName? = nil, interface: String? = nil, findsOthers: Bool = true, usesBluetooth: Bool = false,
        encryption: EncryptionPreference = .required, limits: NodeLimits = NodeLimits(),
        log: (@Sendable (String) -> Void)? = nil
    ) throws -> Node {
        Node.start(
            try nodeSettings(
                as: name, interface: interface, findsOthers: findsOthers, usesBluetooth: usesBluetooth, encryption: encryption,
                limits: limits, log: log))
    }

    /// The settings of a program's node, whose parts all log to the program's closure.
    /// - Parameter makeRadio: the opener of the radio that logs to the given logger.
    package func nodeSettings(
        as name: DisplayName?, interface: String?, findsOthers: Bool, usesBluetooth: Bool,
        encryption: EncryptionPreference, limits: NodeLimits, log: (@Sendable (String) -> Void)?,
        makeRadio: (Logger) -> RadioOpener? = { LocalMachine.bluetoothOpener(log: $0) }
    ) throws -> NodeSettings {
        if let interface, interface.utf8.contains(0) || if_nametoindex(interface) == 0 {
            throw NodeError.invalidParameter(MissingInterface.text(for: interface))
        }
        let logger = Logger(label: "nearshare") { _ in ClosureLogHandler(write: log) }
        let discovery: (any Discovery)?
        do throws(DiscoveryError) {
            discovery = try findsOthers ? self.discovery(log: logger) : nil
        } catch {
            throw NodeError.unavailable(error.description)
        }
        var settings = try nodeSettings(
            name: name, interface: interface, discovery: discovery, radio: usesBluetooth ? makeRadio(logger) : nil,
            log: logger)
        settings.encryption = encryption
        settings.limits = limits
        return settings
    }
}
