public import NearshareBase
public import NearshareWire

/// What a carrier wants done, in this order: what is kept must be durable before what follows it is done, for a receipt is a
/// promise.
public enum CarryAction: Sendable {
    /// Keep a copy, so that it can be forwarded later, also after a restart.
    case keep(KeptMessage)
    /// These are done with.
    case drop([CarriedID])
    /// The ids of messages for us that were delivered, to be remembered until they expire, so that they never are again.
    case remember(CarriedID, until: WallTime)
    /// Send a kept copy on, with these words on its way; what ``CarriedMessage/goesInSession`` inside a session and not otherwise.
    case forward(CarriedID, to: CarriedAddress, hops: Int, way: CarriedCopy.Way, carriers: [UInt32])
    /// Send a report or a receipt to a neighbour.
    case send(CarryPacket, to: CarriedAddress)
    case tell(CarryEvent)
}

/// What becomes of messages.
public enum CarryEvent: Sendable, Hashable {
    /// Somebody has taken our message.
    case sent(CarriedID)
    /// The receiver has it.
    case delivered(CarriedID)
    /// Nobody has acknowledged our message within its time to live.
    case expired(CarriedID)
    /// A message for us.
    case received(IncomingMessage)
    /// Messages that claim to come from the future can't be carried: the sender's clock is wrong, or ours.
    case clockDiffers(by: Duration)
}

/// A copy as it is kept.
public struct KeptMessage: Sendable, Hashable {
    public var id: CarriedID
    public var copy: CarriedCopy
    /// Who handed it to us; nil for our own.
    public var depositor: CarriedAddress?
    /// How often this node has forwarded it.
    public var forwards: Int

    public init(id: CarriedID, copy: CarriedCopy, depositor: CarriedAddress?, forwards: Int = 0) {
        self.id = id
        self.copy = copy
        self.depositor = depositor
        self.forwards = forwards
    }
}

/// The present moment on both clocks.
public struct CarryMoment: Sendable, Hashable {
    public var monotonic: MonotonicInstant
    public var wall: WallTime

    public init(monotonic: MonotonicInstant, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

/// What connects two carriers.
public struct CarryLink: Sendable, Hashable {
    /// Only messages of ``CarriedMessage/maximumRadioBodyByteCount`` go over it.
    public var isRadio: Bool
    /// What is written arrives while the link stands. Else the other end confirms what has come.
    public var isReliable: Bool

    public init(isRadio: Bool, isReliable: Bool) {
        self.isRadio = isRadio
        self.isReliable = isReliable
    }
}
