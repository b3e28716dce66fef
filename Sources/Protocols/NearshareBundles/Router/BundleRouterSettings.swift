package import NearshareBase

/// Our own choices for carrying; what other carriers must keep to stands where it is used.
package struct BundleRouterSettings: Sendable {
    /// The profile of this node: of what it sends, and the most that it does for others.
    package var profile = PropagationProfile.standard
    package var quota = BundleQuota()
    /// Carries for others. Without, a node only sends and receives.
    package var isCarrying = true
    /// How often the root of the tree counts up, and so how often neighbours tell each other what has changed.
    package var roundInterval = Duration.seconds(60)
    /// A message that goes towards its receiver, and whose acknowledgement does not come back in this time, is spread. Up to half
    /// as much is added by chance, so that not all carriers on a way do it at once.
    package var timeout = Duration.seconds(30)
    /// Checking a signature costs us more than making one up costs others (M2, R9).
    package var signaturesPerSecond = 100.0
    package var signatureBurst = 1_000.0
    /// Whether a signature is good. A simulation of many nodes in one process checks each once.
    package var isSigned: @Sendable (BundleCopy, BundleID) -> Bool = { copy, _ in copy.message.isValid(copy.signature) }

    package init() {}
}

/// How much is kept for others (M6).
package struct BundleQuota: Sendable, Hashable {
    package var messageCount = 2_000
    package var byteCount = 4 << 20
    /// Of one neighbour's: who fills the store pushes out only what came from them.
    package var messageCountPerDepositor = 1_000
    package var byteCountPerDepositor = 2 << 20
    /// Of our own, which nothing pushes out.
    package var ownMessageCount = 1_000

    package init() {}
}
