package import Logging
package import NearshareBase
package import NearshareCrypto
package import NearshareDirect
package import NearshareInterfaces

/// The parameters of a node: its identity, its adapters, and functions for time, randomness and trust.
package struct NodeSettings: Sendable {
    /// Its key.
    package var identity: LocalIdentity
    /// The name that other peers see.
    package var name: DisplayName
    /// How links are opened and taken.
    package var transport: any StreamTransport
    /// nil for a node that neither advertises nor browses: addresses are given by hand.
    package var discovery: (any Discovery)?
    /// The network interface that it keeps to, listening and looking; nil for all.
    package var interface: String?
    /// Opens the radio, which may take a moment; nil for a node without one. The error says what to try.
    package var radio: (@Sendable () throws(DiscoveryError) -> Radio)?
    /// Limits on the resources that untrusted peers can use.
    package var limits = NodeLimits()
    /// For all links of this node.
    package var encryption = EncryptionPreference.required
    /// How long a session with a single peer in the mesh counts as secure; whatever comes in it renews it.
    package var meshSessionLifetime = Duration.seconds(86_400)
    /// For unreliable messages; nil where they share the links with all else.
    package var datagrams: (any DatagramTransport)?
    /// Time that only goes forward.
    package var clock: @Sendable () -> MonotonicInstant
    /// Time that people read.
    package var wallClock: @Sendable () -> WallTime
    /// Fresh random bytes from the kernel, as many as asked for.
    package var random: @Sendable (Int) -> [UInt8]
    /// How a peer stands with the local person, by the key that it has proven.
    package var trustStatus: @Sendable (AuthenticatedPeer, DisplayName?) -> TrustStatus
    /// For people who look for a fault; names of files and peers are not written there.
    package var log: Logger

    /// Puts settings together; the rest is as most nodes have it.
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
    /// 64 random bits.
    func randomInteger() -> UInt64 { random(8).reduce(0) { $0 << 8 | UInt64($1) } }

    /// For a transfer that begins.
    func freshTransferID() -> TransferID { TransferID(rawValue: randomInteger()) }
}

/// Limits on the resources that untrusted peers can use.
package struct NodeLimits: Sendable {
    /// Links that others have opened to us, in all and from one address (R3).
    package var links = 64
    /// From one address.
    package var linksPerAddress = 8
    /// On each link.
    package var connection = DirectLimits()
    /// How long one address is tried.
    package var connectTime = Duration.seconds(5)

    /// The default limits.
    package init() {}
}
