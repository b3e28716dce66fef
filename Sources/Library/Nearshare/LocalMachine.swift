internal import Glibc
package import Logging
package import NearshareBase
package import NearshareBundles
package import NearshareCrypto
internal import NearshareDiscovery
package import NearshareEngine
public import NearshareInterfaces
public import NearshareStorage
internal import NearshareTCP
internal import Synchronization

#if Bluetooth
    internal import NearshareBluetooth
#endif

/// This Linux machine, put together from its parts: the user's files, the network, the clocks.
///
///     try await LocalMachine().run { node in … }
public final class LocalMachine: Sendable {
    /// The directories of the user's files.
    package let directories: Directories
    /// The directories of keys and settings, in which no file of a peer is stored.
    private let privateDirectories: [String]
    /// The user's configuration file.
    package let configuration: Configuration
    /// The state directory: key, names and spool.
    package let state: StateDirectory
    /// The trust store of known peers.
    package let trust: TrustFile
    /// The keys of contacts, for messages to contacts that are away.
    package let contacts: ContactFile
    /// Asks libmagic what content is.
    package let detector: MediaTypeDetector
    /// Starts workers; nil for a program without a helper process, which uses libmagic itself.
    package let launcher: (any WorkerLauncher)?
    /// The state of an ephemeral identity, for as long as the machine and its nodes use it.
    private let ephemeral: EphemeralState?
    /// Whether only one process at a time runs nodes with the identity.
    private let isApplication: Bool
    /// Whether only one process at a time takes part in sessions with the identity, which others use beside it.
    private let isUser: Bool

    /// - Parameters:
    ///   - identity: the key and contacts to use.
    ///   - environment: contains the XDG variables; nil for that of the process.
    /// - Throws: ``StorageError`` when the state directory cannot be used or the configuration is wrong.
    public init(
        identity: MachineIdentity = .user, environment: [String: String]? = nil
    ) throws(StorageError) {
        let environment = environment ?? Self.environment
        var directories = Directories(environment: environment, home: Self.home)
        try directories.check()
        // The user's own state contains that of every application.
        let userState = directories.state
        if let path = try identity.stateDirectory(in: directories) {
            ephemeral = nil
            directories.state = path
        } else {
            let created = try EphemeralState(in: directories.runtime, suffix: Hex.encode(Self.randomBytes(8)))
            ephemeral = created
            directories.state = created.state.path
        }
        isApplication = if case .application = identity { true } else { false }
        isUser = identity == .user
        self.directories = directories
        configuration = try Configuration.read(
            path: directories.configurationFile, home: environment["HOME"] ?? Self.home)
        state = if let ephemeral { ephemeral.state } else { try StateDirectory(path: directories.state) }
        privateDirectories = [userState, directories.configuration, directories.state, state.spoolPath]
        trust = TrustFile(in: state)
        contacts = ContactFile(in: state)
        detector = MediaTypeDetector()
        launcher = nil
    }

    /// The same machine with a helper process.
    /// - Parameter warn: reports that a worker has failed.
    package init(
        _ machine: LocalMachine, launcher: any WorkerLauncher, warn: @escaping @Sendable (String) -> Void
    ) {
        directories = machine.directories
        privateDirectories = machine.privateDirectories
        configuration = machine.configuration
        state = machine.state
        trust = machine.trust
        contacts = machine.contacts
        detector = MediaTypeDetector(launcher: launcher, warn: warn)
        self.launcher = launcher
        ephemeral = machine.ephemeral
        isApplication = machine.isApplication
        isUser = machine.isUser
    }

    /// The name that peers see: the given one, or else the chosen, the configured or the host's name.
    package func name(_ given: DisplayName? = nil) throws(StorageError) -> DisplayName {
        if let name = given ?? configuration.name { return name }
        if let name = try state.read(OwnName.self, from: OwnName.fileName)?.name { return name }
        return Self.hostName
    }

    /// Stores a name, which the configuration's takes precedence over.
    package func rename(to name: DisplayName) throws(StorageError) {
        try state.update(OwnName.fileName, startingWith: OwnName(name: name)) { $0.name = name }
    }

    private struct OwnName: Codable {
        static let fileName = "name.json"
        var name: DisplayName
    }

    /// The discovery of this machine: avahi-daemon where and while it answers, else the embedded responder.
    /// - Parameter log: has a line when avahi-daemon stops, and when it is back.
    package func discovery(log: Logger? = nil) throws(DiscoveryError) -> any Discovery {
        try LinuxDiscovery.make { log?.warning("\($0)") }
    }

    /// Opens a Bluetooth adapter of this machine; nil in a build without Bluetooth.
    /// - Parameter adapter: such as "hci0"; nil for the first that is powered on.
    package static func bluetoothOpener(adapter: String? = nil, log: Logger) -> RadioOpener? {
        #if Bluetooth
            return { () throws(DiscoveryError) in
                do throws(BluetoothError) {
                    return try BluetoothRadio.open(
                        adapter: adapter, log: { log.debug("Bluetooth: \($0)") }, warn: { log.warning("\($0)") })
                } catch {
                    throw DiscoveryError(error.description)
                }
            }
        #else
            return nil
        #endif
    }

    /// Whether this build has Bluetooth.
    package static var hasBluetooth: Bool {
        #if Bluetooth
            return true
        #else
            return false
        #endif
    }

    /// The kernel's names of this machine's Bluetooth adapters, such as "hci0"; powered off ones too.
    package static var bluetoothAdapters: [String] {
        #if Bluetooth
            return BluetoothRadio.adapterNames
        #else
            return []
        #endif
    }

    /// Diagnoses this machine's Bluetooth.
    package static func diagnoseBluetooth(adapter: String? = nil) -> [BluetoothFinding] {
        #if Bluetooth
            return BluetoothDiagnosis.collect(adapter: adapter)
        #else
            return [BluetoothFinding(.notice, "this nearshare was built without Bluetooth")]
        #endif
    }

    /// The settings of a node with this machine's identity, contacts and transports.
    /// - Parameters:
    ///   - name: the name that peers see; nil for that of ``name(_:)``.
    ///   - interface: the only network interface that the node uses; nil for the configured one, or all.
    ///   - discovery: nil for a node that needs none, which starts faster.
    ///   - radio: opened when it is first needed; nil for a node that stays on the network.
    ///   - identity: nil for that of the user, which the first call generates.
    /// - Throws: `StorageError` also while another process runs a node with the identity of an application, and where discovery would
    ///   use a configured interface that does not exist.
    package func nodeSettings(
        name: DisplayName? = nil, interface: String? = nil, discovery: (any Discovery)?,
        radio: RadioOpener? = nil, identity: LocalIdentity? = nil,
        log: Logger = Logger(label: "nearshare")
    ) throws(StorageError) -> NodeSettings {
        if interface == nil, discovery != nil { try requireConfiguredInterface() }
        let trust = self.trust
        let use = isApplication ? try IdentityUse(state, for: .nodes) : nil
        // A damaged store fails here, and not at the first offer.
        _ = try trust.read()
        let reported = Mutex<MonotonicInstant?>(nil)
        let showsClaims = isApplication
        let own: LocalIdentity = if let identity { identity } else { try state.identity() }
        var settings = NodeSettings(
            identity: own, name: try self.name(name), transport: TCPTransport(),
            discovery: discovery,
            clock: { SystemClock.monotonic() }, wallClock: { SystemClock.wall() }, random: { Self.randomBytes($0) },
            trustStatus: { peer, name in
                do {
                    return Self.trustStatus(of: peer, claiming: name, try trust.read(), showsClaims: showsClaims)
                } catch {
                    let now = SystemClock.monotonic()
                    let isDue = reported.withLock { last in
                        if let time = last, now - time < Self.trustErrorInterval { return false }
                        last = now
                        return true
                    }
                    if isDue { log.error("\(error)") }
                    // A blocked peer must not become new: what was read last counts, and no peer is served without it.
                    return trust.latestValue.map {
                        Self.trustStatus(of: peer, claiming: name, $0, showsClaims: showsClaims)
                    } ?? .known(.blocked, isFriend: false)
                }
            },
            log: log)
        settings.deviceTrustStatus = { fingerprint, name in
            // The file is checked for each link with a key, which reports its failures.
            let store = (try? trust.read()) ?? trust.latestValue
            guard let store else { return .known(.blocked, isFriend: false) }
            let status = store.trustStatus(of: fingerprint, claiming: name)
            // A certificate that no user has compared makes no friend (K14).
            return status.isFriend && !status.isVerified ? .known(.seen, isFriend: false) : status
        }
        let contacts = self.contacts
        settings.contacts = {
            do {
                // A session with an unknown peer, which costs it nothing, proves keys as well.
                let store = try trust.read()
                let known = try contacts.read().entries.values.filter { entry in
                    entry.areKeysProven && (entry.origin == .imported || store.isContact(entry.fingerprint))
                }
                return Dictionary(known.map { ($0.id, $0.signingKey) }) { first, _ in first }
            } catch {
                // Without the contacts no peer is known, which makes every decision stricter.
                log.error("\(error)")
                return [:]
            }
        }
        settings.contactMonitor = { [state] in ContactMonitor(of: state) }
        settings.friends = { [ephemeral] in
            let known = (try? trust.read()) ?? trust.latestValue
            // A node may live longer than its machine.
            withExtendedLifetime((ephemeral, use)) {}
            return Set(known?.entries.filter { $0.value.isFriend && $0.value.trust != .blocked }.keys.map(\.peerID) ?? [])
        }
        if isUser {
            settings.claimSessions = { [state] () throws(NodeError) in
                do throws(StorageError) {
                    return try IdentityUse(state, for: .sessions)
                } catch {
                    throw .unavailable(error.description)
                }
            }
        }
        settings.interface = interface ?? configuration.interface
        settings.radio = radio
        settings.datagrams = UDPTransport()
        settings.groups = UDPGroupTransport()
        settings.networkMonitor = { Self.openNetworkMonitor() }
        if let lifetime = configuration.sessionLifetime { settings.meshSessionLifetime = lifetime }
        return settings
    }

    /// Checks that the network interface which the configuration names exists.
    package func requireConfiguredInterface() throws(StorageError) {
        guard let name = configuration.interface, if_nametoindex(name) == 0 else { return }
        throw StorageError(
            .notFound,
            "\(TerminalText.path(directories.configurationFile)): interface: \(MissingInterface.text(for: name))")
    }

    /// The trust in a peer. An application shows the name that a peer claims, so a friend or verified peer under the name of
    /// another one stands out there (K2).
    private static func trustStatus(
        of peer: AuthenticatedPeer, claiming name: DisplayName?, _ trust: TrustStore, showsClaims: Bool
    ) -> TrustStatus {
        let status = trust.trustStatus(of: peer, claiming: name)
        guard showsClaims, status.isKnown, let name, trust.name(of: peer.fingerprint, claiming: name) != name,
            let owner = trust.otherOwner(of: name, claimedBy: peer.fingerprint), let entry = trust[owner],
            entry.isTrusted || entry.givenName != nil
        else { return status }
        return .nameClash(knownAs: owner)
    }

    /// Opens a monitor of this machine's addresses.
    /// - Returns: nil where the kernel offers none.
    package static func openNetworkMonitor() -> (any NetworkMonitor)? { LinuxNetworkMonitor() }

    /// Interval of log messages about a trust store that cannot be read.
    private static let trustErrorInterval = Duration.seconds(60)

    /// The limits on distance and lifetime of messages: a named profile, the configured one, or the standard one.
    /// - Parameter name: one of nearshare's or of the configuration; nil for the configured one.
    /// - Throws: `StorageError` for an unknown name, and for numbers that are out of bounds.
    package func propagationProfile(_ name: String? = nil) throws(StorageError) -> PropagationProfile {
        let given = name
        let name = given ?? configuration.profile ?? PropagationProfile.standardName
        let path = TerminalText.escaped(directories.configurationFile, columns: 4096)
        guard let own = configuration.profiles[name] else {
            if let profile = PropagationProfile(name: name) { return profile }
            let names = PropagationProfile.named.map(\.name) + configuration.profiles.keys.sorted()
            throw StorageError(
                .failed,
                "\(given == nil ? "\(path): profile: " : "")there is no profile \(TerminalText.escaped(name)); choose one of "
                    + TerminalText.escaped(names.joined(separator: ", "), columns: 400))
        }
        let standard = PropagationProfile.standard
        do {
            return try PropagationProfile(
                hopLimit: own.hopLimit ?? standard.hopLimit, timeToLiveSeconds: own.timeToLive ?? standard.timeToLiveSeconds,
                sharingTimeMilliseconds: own.sharingTime ?? standard.sharingTimeMilliseconds,
                maximumPropagation: own.maximumPropagation ?? standard.maximumPropagation,
                tracklistLimit: own.tracklistLimit ?? standard.tracklistLimit)
        } catch {
            throw StorageError(.failed, "\(path): profiles.\(TerminalText.escaped(name)): \(error)")
        }
    }

    /// The path of the socket at which the user's node listens for other commands.
    package var controlSocketPath: String { "\(directories.runtime)/node.sock" }

    /// Creates the directory of the socket.
    /// - Returns: ``controlSocketPath``.
    /// - Throws: `StorageError` when it cannot be created.
    package func makeControlSocketDirectory() throws(StorageError) -> String {
        try StateDirectory.makeDirectories(directories.runtime)
        return controlSocketPath
    }

    /// Opens an inbox: the directory where accepted files and folders are stored.
    ///
    /// When it becomes unusable later, such as by the removal of a disk, what arrives waits in the state directory, at the paths
    /// in ``TransferResult/delivered``. With ``MachineIdentity/ephemeral``, whose state directory does not last, no offer is
    /// accepted then, and what is being received stays in the folder `.nearshare` of the inbox.
    /// - Parameters:
    ///   - path: nil for the configured inbox, or `Inbox` in the home directory.
    ///   - maximumSize: limit on one transfer, in bytes; nil for none.
    /// - Throws: ``StorageError`` when the directory can neither be used nor made, such as where the path is that of a file, or
    ///   where it has to do with the directories of keys and settings. It is made when something arrives.
    public func inbox(_ path: String? = nil, maximumSize: UInt64? = nil) throws(StorageError) -> Inbox {
        var limits = InboxLimits()
        limits.maximumSize = maximumSize
        let inbox = try inbox(path, limits: limits)
        _ = try inbox.check()
        return inbox
    }

    /// The inbox at a path, with this machine's spool behind it. An ephemeral identity has none: what a program was told is
    /// complete outlives the state directory.
    package func inbox(_ path: String?, limits: InboxLimits) throws(StorageError) -> Inbox {
        try requireInbox(path)
        return try Inbox(
            path: inboxPath(path), home: directories.home,
            spoolPath: ephemeral == nil ? state.spoolPath : nil, limits: limits, detector: detector, launcher: launcher)
    }

    private func inboxPath(_ path: String?) -> String { path ?? configuration.inbox ?? directories.defaultInbox }

    /// Checks that files of peers cannot become keys or settings: the inbox is not one of their directories, is not inside one,
    /// and contains none (P17). A path that does not decide this yet is refused.
    /// - Parameter path: nil for the configured inbox, which the error then names with its file and key.
    package func requireInbox(_ path: String?) throws(StorageError) {
        let inbox = inboxPath(path)
        try LocalPath.check(inbox)
        let location = DirectoryLocation(path: try AbsolutePath.absolute(inbox))
        let isConfigured = path == nil && configuration.inbox != nil
        let origin = isConfigured ? "\(TerminalText.path(directories.configurationFile)): inbox: " : ""
        guard !location.isUndecided else {
            throw StorageError(
                .unsuitable,
                "\(origin)the inbox \(TerminalText.path(inbox)) contains .. behind a folder that does not exist; write it without .."
            )
        }
        for directory in privateDirectories {
            let own = DirectoryLocation(path: directory)
            let relation: String? =
                own.contains(location)
                ? location.contains(own) ? "is" : "is inside" : location.contains(own) ? "contains" : nil
            guard let relation else { continue }
            throw StorageError(
                .unsuitable,
                "\(origin)the inbox \(TerminalText.path(inbox)) \(relation) nearshare's own directory "
                    + "\(TerminalText.path(directory)), where peers could replace keys and settings; choose another folder")
        }
    }

    /// A fresh key that is not stored.
    package static func temporaryIdentity() -> LocalIdentity {
        LocalIdentity(seed: randomBytes(LocalIdentity.seedByteCount))
    }

    /// Fresh random bytes from the kernel.
    package static func randomBytes(_ count: Int) -> [UInt8] {
        // On Linux: getrandom(2), which waits until the kernel's generator is ready.
        var generator = SystemRandomNumberGenerator()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        while bytes.count < count {
            withUnsafeBytes(of: generator.next()) { bytes += $0.prefix(count - bytes.count) }
        }
        return bytes
    }

    /// The environment variables that nearshare reads.
    package static var environment: [String: String] {
        var values: [String: String] = [:]
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
            if let value = getenv(name) { values[name] = String(cString: value) }
        }
        return values
    }

    /// The home folder of the user.
    package static var home: String { getpwuid(getuid()).map { String(cString: $0.pointee.pw_dir) } ?? "/" }

    /// The host's name, as far as it is a valid display name.
    package static var hostName: DisplayName {
        var buffer = [CChar](repeating: 0, count: 256)
        gethostname(&buffer, buffer.count - 1)
        let text = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // Safe: the fallback is a valid name.
        return DisplayName(truncating: text) ?? DisplayName(truncating: "nearshare")!
    }
}
