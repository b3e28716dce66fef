internal import NearshareBase

/// Names a link to a neighbour inside one node.
package struct MeshLinkID: Sendable, Hashable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }
}

/// What a link to a neighbour can carry.
package struct MeshLinkProfile: Sendable, Hashable {
    /// Frames up to this many bytes go in one write. Larger ones are cut into fragments.
    package var largestWrite: Int
    /// Between two fragments that this node sends on the link. On a radio, never less than ``radioPacing``.
    package var pacing: Duration
    package var isRadio: Bool

    /// A fragment has to hold something besides its own header.
    package static let smallestWrite = 106
    /// The least that is asked of a radio's air time.
    package static let radioPacing = Duration.milliseconds(20)

    package init(largestWrite: Int, pacing: Duration = MeshLinkProfile.radioPacing, isRadio: Bool) {
        self.largestWrite = max(largestWrite, Self.smallestWrite)
        self.pacing = isRadio ? max(pacing, Self.radioPacing) : pacing
        self.isRadio = isRadio
    }

    /// A stream to another node on the same network. Each write may be larger than a radio's, so a file takes fewer of them.
    package static let stream = MeshLinkProfile(largestWrite: 16_384, isRadio: false)
    /// What a phone takes.
    package static let radio = MeshLinkProfile(largestWrite: 512, isRadio: true)
}
