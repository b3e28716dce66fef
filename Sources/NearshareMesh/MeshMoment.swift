public import NearshareBase

/// The present moment on both clocks: the one that never goes back, for timers, and the one on the wall, for timestamps.
public struct MeshMoment: Sendable, Hashable {
    public var monotonic: MonotonicInstant
    public var wall: WallTime

    public init(monotonic: MonotonicInstant, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

/// Names a link to a neighbour inside one node.
public struct MeshLinkID: Sendable, Hashable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }
}

/// What a link to a neighbour can carry.
public struct MeshLinkProfile: Sendable, Hashable {
    /// Frames up to this many bytes go in one write. Larger ones are cut into fragments.
    public var largestWrite: Int
    /// Between two fragments that this node sends on the link. On a radio, never less than ``radioPacing``.
    public var pacing: Duration
    public var isRadio: Bool

    /// A fragment has to hold something besides its own header.
    public static let smallestWrite = 106
    /// The least that is asked of a radio's air time.
    public static let radioPacing = Duration.milliseconds(20)

    public init(largestWrite: Int, pacing: Duration = MeshLinkProfile.radioPacing, isRadio: Bool) {
        self.largestWrite = max(largestWrite, Self.smallestWrite)
        self.pacing = isRadio ? max(pacing, Self.radioPacing) : pacing
        self.isRadio = isRadio
    }

    /// A stream to another node on the same network. Each write may be larger than a radio's, so a file takes fewer of them.
    public static let stream = MeshLinkProfile(largestWrite: 16_384, isRadio: false)
    /// What a phone takes.
    public static let radio = MeshLinkProfile(largestWrite: 512, isRadio: true)
}
