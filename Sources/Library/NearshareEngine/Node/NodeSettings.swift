package import Logging
package import NearshareBase
package import NearshareCrypto
package import NearshareDirect
package import NearshareInterfaces
internal import NearshareMesh

/// The parameters of a node: its identity, its adapters, and functions for time, randomness and trust.
package struct NodeSettings: Sendable {
    /// The node's key pairs.
    package var identity: LocalIdentity
    /// The name that other peers see.
    package var name: DisplayName
    /// The transport that opens and accepts stream links.
    package var transport: any StreamTransport
    /// The discovery adapter; nil for a node that neither advertises nor browses, and uses given addresses only.
    package var discovery: (any Discovery)?
    /// The network interface to which listening and browsing are restricted; nil for all.
    package var interface: String?
    /// Opens a monitor of this machine's addresses for sessions; nil for a node that is reached at given addresses only.
    package var networkMonitor: (@Sendable () -> (any NetworkMonitor)?)?
    /// Opens the radio, which may take a moment; nil for a node without one. The error suggests what to try.
    package var radio: RadioOpener?
    /// Limits on the resources that untrusted peers can use.
    package var limits = NodeLimits()
    /// The encryption preference of all links.
    package var encryption = EncryptionPreference.required
    /// Lifetime of a secure session with a peer in the mesh; each received message renews it.
    package var meshSessionLifetime = defaultMeshSessionLifetime
    package static let defaultMeshSessionLifetime = MeshRouter.Settings().sessionLifetime
    /// Time for the user's decision about a file or text that a peer which the user does not know sent without an offer, as
    /// bitchat does.
    var undecidedContentTimeout = Duration.seconds(300)
    /// The transport of unreliable messages; nil to send them over the stream links.
    package var datagrams: (any DatagramTransport)?
    /// The multicast groups of LocalSend; nil for a node without them.
    package var groups: (any GroupTransport)?
    /// Whether invitations into sessions are delivered; otherwise they are refused on arrival.
    package var acceptsSessions = true
    /// Claims the node's key for sessions of this process, until the returned value is released; nil where no claim is needed. Throws
    /// while another process takes part in sessions with the key.
    package var claimSessions: @Sendable () throws(NodeError) -> (any Sendable)? = { nil }
    /// Receives each node that is announced nearby, but with which there is no link of the mesh after some seconds of attempts.
    package var reportUnreachable: @Sendable (NearbyPeer) -> Void = { _ in }
    /// The monotonic clock.
    package var clock: @Sendable () -> MonotonicInstant
    /// The wall clock, for timestamps that users see.
    package var wallClock: @Sendable () -> WallTime
    /// Returns the given number of random bytes from the kernel.
    package var random: @Sendable (Int) -> [UInt8]
    /// Returns the local user's trust in a proven key and in a claimed name.
    package var trustStatus: @Sendable (AuthenticatedPeer, DisplayName?) -> TrustStatus
    /// Returns the local user's trust in a LocalSend device that has proven its certificate, by the certificate's fingerprint.
    package var deviceTrustStatus: @Sendable (Fingerprint, DisplayName) -> TrustStatus = { _, _ in .new }
    /// Returns the signing keys of the contacts that have proven them, or whose keys were imported: peers that the user knows. The
    /// mesh never lets others take their ids, and keeps room for them. Called at the start, and when ``contactMonitor`` reports a
    /// change.
    package var contacts: @Sendable () -> [PeerID: SigningPublicKey] = { [:] }
    /// Opens a monitor of the files that ``contacts`` reads; nil where they do not change.
    package var contactMonitor: (@Sendable () -> (any FileMonitor)?)?
    /// Returns the ids of the friends: their links in the mesh never give way. A contact's may: under `--accept all` a file makes one.
    package var friends: @Sendable () -> Set<PeerID> = { [] }
    /// The log for diagnosis; it contains no names of files or peers.
    package var log: Logger

    /// Creates settings with defaults for the other properties.
    package init(
        identity: LocalIdentity, name: DisplayName, transport: any StreamTransport, discovery: (any Discovery)?,
        clock: @escaping @Sendable () -> MonotonicInstant, wallClock: @escaping @Sendable () -> WallTime,
        random: @escaping @Sendable (Int) -> [UInt8],
        trustStatus: @escaping @Sendable (AuthenticatedPeer, DisplayName?) -> TrustStatus, log: Logger
    ) {
        self.identity = identity
        self.name = name
        self.transport = transport
        self.discovery = discovery
        self.clock = clock
        self.wallClock = wallClock
        self.random = random
        self.trustStatus = trustStatus
        self.log = log
    }
}

extension NodeSettings {
    /// Reads both clocks.
    var moment: @Sendable () -> Moment { { [clock, wallClock] in Moment(monotonic: clock(), wall: wallClock()) } }

    /// Opens a monitor of the network in which the node looks for peers.
    /// - Returns: nil for a node that uses no network, or loopback only, and where there is no monitor.
    package func openNetworkMonitor() -> (any NetworkMonitor)? {
        discovery == nil || interface == "lo" ? nil : networkMonitor?()
    }

    /// Returns 64 random bits.
    func randomInteger() -> UInt64 { UInt64(truncatingBigEndian: random(8)) }

    /// Returns the identifier of a new transfer.
    func freshTransferID() -> TransferID { TransferID(rawValue: randomInteger()) }
}

/// Limits on the resources that untrusted peers can use.
public struct NodeLimits: Sendable {
    /// Limit on incoming links in total, at least 1; those of a session's members do not count (R3).
    public var links = 64 { didSet { links = max(links, 1) } }
    /// Links among them that are kept for friends (Q6).
    package var linksKeptForFriends = 16
    /// Limit on incoming links from one IPv4 address or device, at least 1. Those of friends and of a session's members do not
    /// count (R3), the latter from when they have joined. Where more programs at one address, on one machine or behind one router,
    /// connect to this node at the same moment, those beyond the limit are refused and try again, so that their session takes
    /// longer to form; twice their number avoids that.
    public var linksPerAddress = 8 { didSet { linksPerAddress = max(linksPerAddress, 1) } }
    /// Limit on incoming links from one IPv6 network of 64 bits, friends' excepted: the peers of a whole room may be in it.
    package var linksPerNetwork = 24
    /// Limit on links of one member of a session that come through relays (Q8).
    package var relayedLinksPerMember = 2
    /// Limit on links of one member that have joined a session and do not count for its address.
    package var joinedLinksPerMember = 4
    /// The time after which an untrusted peer's link without transfer, question and session is closed (Q6).
    package var unusedLinkTimeout = Duration.seconds(60)
    /// Limits of each link's protocol.
    package var connection = DirectLimits()
    /// Timeout of a connection attempt to one address.
    package var connectTimeout = Duration.seconds(5)

    /// The default limits: 64 links, 8 of them from one address.
    public init() {}

    /// Limit on incoming links from one source.
    func links(from source: LinkSource) -> Int {
        switch source {
        case .loopback, .otherLoopback, .host: linksPerAddress
        case .network: linksPerNetwork
        case .member: relayedLinksPerMember
        case .joined: joinedLinksPerMember
        }
    }
}
