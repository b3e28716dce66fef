package import NearshareBase
package import NearshareCrypto

/// Parameters of this node's router. Values on which all nodes must agree are declared where they are used.
package struct BundleRouterSettings: Sendable {
    /// Limits of this node, for its own bundles and for others'.
    package var profile = PropagationProfile.standard
    package var quota = BundleQuota()
    /// Stores and forwards bundles of others. Otherwise the node only sends and receives.
    package var isForwarding = true
    /// Interval at which the root of the spanning tree increments the epoch, and neighbours report changes.
    package var epochInterval = Duration.seconds(60)
    /// Time for which a routed bundle waits for its acknowledgement before epidemic forwarding begins. Up to half as much is
    /// added at random, so that the nodes of a path do not start at once.
    package var acknowledgementTimeout = Duration.seconds(30)
    /// Token-bucket rate of signature checks for all neighbours that are no contacts together, and for each contact. Checking costs
    /// more than forging, and keys cost nothing (B2, B11).
    package var signaturesPerSecond = 100.0
    package var signatureBurst = 100.0
    /// Token-bucket rate of bytes that are stored or delivered, for the same neighbours. Each bundle is written to the disk (B5).
    package var storedBytesPerSecond = 65_536.0
    package var storedByteBurst = 524_288.0
    /// Token-bucket rate of reports of the neighbours of one host, and of each contact. A report costs one token, and another one for each
    /// ``reportByteCount`` bytes of its filters, because reading them costs more than writing them (B9).
    package var reportsPerSecond = 2.0
    package var reportBurst = 40.0
    package var reportByteCount = 4_096
    /// Whether an endpoint is a contact of the user, whose bundles are the last to be evicted.
    package var isContact: @Sendable (EndpointID) -> Bool = { _ in false }
    /// Whether messages of a sender are dropped, and not acknowledged.
    package var isBlocked: @Sendable (AuthenticatedPeer) -> Bool = { _ in false }
    /// Verifies a signature. A simulation of many nodes in one process verifies each once.
    package var isSigned: @Sendable (BundleCopy, BundleID) -> Bool = { copy, _ in copy.bundle.isValid(copy.signature) }

    package init() {}
}

/// Limits of the bundles that are stored for other nodes (B5). On disk they take up to twice as much, with the log and with records of
/// deliveries 4 MiB: of some sizes only one fits into a page of the file.
package struct BundleQuota: Sendable, Hashable {
    package var bundleCount = 2_000
    package var byteCount = 3 << 19
    /// Share of one host: one that fills the store, under however many keys, displaces only bundles that it has sent itself.
    package var bundleCountPerHost = 1_000
    package var byteCountPerHost = 3 << 18
    /// Limit of this node's own bundles, which are never displaced.
    package var ownBundleCount = 1_000
    /// Limit of this node's acknowledgements, which any sender can cause; beyond it the oldest of the host that has caused most is
    /// deleted, those for known contacts last.
    package var acknowledgementCount = 500

    package init() {}
}
