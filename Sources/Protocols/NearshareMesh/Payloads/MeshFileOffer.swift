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

extension MeshFileOffer {
    /// Describes a file of this node.
    init(of file: MeshFile, id: MeshFileControl.FileID, fragmentCount: UInt16, fragmentID: MeshFragment.ID) {
        let type = file.mediaType ?? Self.unknownType
        self.init(
            id: id, size: UInt32(clamping: file.content.count), fragmentCount: fragmentCount, fragmentID: fragmentID,
            name: file.claimedName, mediaType: type.utf8.count <= 127 ? type : Self.unknownType)
    }

    /// Whether a file is the one that was offered, by id, size, name and type.
    func describes(_ file: MeshFile) -> Bool {
        isEquivalent(to: MeshFileOffer(of: file, id: id, fragmentCount: fragmentCount, fragmentID: fragmentID))
    }

    /// Whether both offers look the same to the user, however the file is cut.
    func isEquivalent(to other: MeshFileOffer) -> Bool {
        id == other.id && size == other.size && name == other.name && mediaType == other.mediaType
    }

    private static let unknownType = "application/octet-stream"
}
