package import NearshareBase

/// The description of a file before it is sent.
package struct MeshFileOffer: Sendable, Hashable {
    package var id: MeshFileControl.FileID
    /// Size of the content, in bytes.
    package var size: UInt32
    /// Number of fragments, so that the receiver can show progress.
    package var fragmentCount: UInt16
    /// Id of the fragments that will follow.
    package var fragmentID: MeshFragment.ID
    /// The file name, at most 255 bytes of any value.
    package var name: ClaimedFileName
    /// The media type, at most 127 bytes.
    package var mediaType: String

    package init(
        id: MeshFileControl.FileID, size: UInt32, fragmentCount: UInt16, fragmentID: MeshFragment.ID, name: ClaimedFileName,
        mediaType: String
    ) {
        self.id = id
        self.size = size
        self.fragmentCount = fragmentCount
        self.fragmentID = fragmentID
        self.name = name
        self.mediaType = mediaType
    }
}
