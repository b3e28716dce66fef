public import NearshareBase
public import NearshareWire

/// Our own choices for carrying; what other carriers must keep to stands where it is used.
public struct CarrySettings: Sendable {
    /// The profile of this node: of what it sends, and the most that it does for others.
    public var profile = PropagationProfile.standard
    public var quota = CarryQuota()
    /// Carries for others. Without, a node only sends and receives.
    public var isCarrying = true
    /// How often the root of the tree counts up, and so how often neighbours tell each other what has changed.
    public var roundInterval = Duration.seconds(60)
    /// A message that goes towards its receiver, and whose acknowledgement does not come back in this time, is spread. Up to half
    /// as much is added by chance, so that not all carriers on a way do it at once.
    public var patience = Duration.seconds(30)
    /// Checking a signature costs us more than making one up costs others (M2, R9).
    public var signaturesPerSecond = 100.0
    public var signatureBurst = 1_000.0
    /// Whether a signature is good. A simulation of many nodes in one process checks each once.
    public var isSigned: @Sendable (CarriedCopy, CarriedID) -> Bool = { copy, _ in copy.message.isValid(copy.signature) }

    public init() {}
}

/// How much is kept for others (M6).
public struct CarryQuota: Sendable, Hashable {
    public var messageCount = 2_000
    public var byteCount = 4 << 20
    /// Of one neighbour's: who fills the store pushes out only what came from them.
    public var messageCountPerDepositor = 1_000
    public var byteCountPerDepositor = 2 << 20
    /// Of our own, which nothing pushes out.
    public var ownMessageCount = 1_000

    public init() {}
}
