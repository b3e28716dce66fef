/// The capacity of a link to a neighbour.
package struct MeshLinkProfile: Sendable, Hashable {
    /// Size of the largest frame in one write, in bytes. Larger frames are cut into fragments.
    package var maximumFrameByteCount: Int
    /// Interval between two fragments that this node sends on the link; at least ``radioPacing`` on a radio.
    package var pacing: Duration
    package var isRadio: Bool

    /// Least size of a write, so that a fragment holds more than its own header.
    package static let smallestWrite = 106
    /// Least interval between fragments on a radio, which limits its use of air time.
    package static let radioPacing = Duration.milliseconds(20)

    package init(maximumFrameByteCount: Int, pacing: Duration = MeshLinkProfile.radioPacing, isRadio: Bool) {
        self.maximumFrameByteCount = max(maximumFrameByteCount, Self.smallestWrite)
        self.pacing = isRadio ? max(pacing, Self.radioPacing) : pacing
        self.isRadio = isRadio
    }

    /// A stream to another node on the same network. Its writes are larger than a radio's, so a file takes fewer of them.
    package static let stream = MeshLinkProfile(maximumFrameByteCount: 16_384, isRadio: false)
    /// A radio link to a phone.
    package static let radio = MeshLinkProfile(maximumFrameByteCount: 512, isRadio: true)
}
