internal import NearshareBase
internal import NearshareMesh

/// The transfers of files and texts that this node sends through the mesh.
struct OutgoingMeshTransfers {
    struct File {
        let transfer: Transfer
        /// The receiver's name, for a terminal.
        let receiver: String
        /// Size of the content, in bytes.
        let size: UInt64
        /// Withdrawn because it was not accepted in time.
        var isExpired = false
    }

    /// A text in one or several messages.
    struct Text {
        let transfer: Transfer
        let receiver: PeerID
        /// The receiver's name, for a terminal.
        let receiverName: String
        /// Ids of the messages without a receipt.
        var unacknowledgedIDs: Set<String>
    }

    private var files: [MeshFileKey: File] = [:]
    private var texts: [Text] = []

    /// All transfers that have not ended.
    var transfers: [Transfer] { files.values.map(\.transfer) + texts.map(\.transfer) }

    // MARK: Files

    subscript(key: MeshFileKey) -> File? { files[key] }

    mutating func insert(_ file: File, _ key: MeshFileKey) { files[key] = file }

    mutating func removeFile(_ key: MeshFileKey) -> File? { files.removeValue(forKey: key) }

    // MARK: Texts

    mutating func insert(_ text: Text) { texts.append(text) }

    mutating func removeText(of transfer: Transfer) { texts.removeAll { $0.transfer === transfer } }

    /// Records the receipt of one message from a peer. No peer acknowledges what was sent to another (B5).
    /// - Returns: the text, when this was its last missing receipt.
    mutating func recordReceipt(_ messageID: String, from peer: PeerID) -> Text? {
        guard let index = texts.firstIndex(where: { $0.receiver == peer && $0.unacknowledgedIDs.contains(messageID) }) else {
            return nil
        }
        texts[index].unacknowledgedIDs.remove(messageID)
        return texts[index].unacknowledgedIDs.isEmpty ? texts.remove(at: index) : nil
    }

    /// Removes the text to which a message belongs.
    mutating func removeText(withMessage messageID: String) -> Text? {
        texts.firstIndex { $0.unacknowledgedIDs.contains(messageID) }.map { texts.remove(at: $0) }
    }

    // MARK: Expiry

    /// Expires a transfer that was not accepted in time. A text is removed.
    /// - Returns: the key of the file to cancel; nil for a text, and for a file that was not sent yet.
    mutating func expire(_ transfer: Transfer) -> MeshFileKey? {
        removeText(of: transfer)
        guard let key = files.first(where: { $0.value.transfer === transfer })?.key else { return nil }
        files[key]?.isExpired = true
        return key
    }
}
