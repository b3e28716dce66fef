internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareMesh

/// The files and texts that peers of the mesh offer or send to this node.
struct IncomingMeshTransfers {
    /// An accepted file that is still being received.
    struct File {
        let transfer: Transfer
        /// Used by the thread that delivers content.
        let sink: SingleThreaded<any ResourceSink>
        /// Size of the content, in bytes.
        let size: UInt64
    }

    /// The key of a text: its sender and the sender's id for it.
    struct TextKey: Hashable {
        let id: String
        let sender: PeerID
    }

    private var invitations: [MeshFileKey: WeakReference<Invitation>] = [:]
    private var files: [MeshFileKey: File] = [:]
    /// Public files whose senders' keys are not proven yet, the oldest first.
    private var unauthenticated: [MeshReceivedFile] = []
    /// Texts that were offered to the user, the oldest first, and whether they were accepted. Senders repeat a text until it is
    /// acknowledged.
    private var offeredTexts: [(key: TextKey, isAccepted: Bool)] = []

    /// The transfers of all accepted files.
    var transfers: [Transfer] { files.values.map(\.transfer) }
    var openInvitations: [Invitation] { invitations.values.compactMap(\.object) }
    /// The keys of the offers that are not answered yet.
    var openOffers: [MeshFileKey] { Array(invitations.keys) }

    // MARK: Offered files

    subscript(key: MeshFileKey) -> File? { files[key] }

    mutating func insert(_ invitation: Invitation, _ key: MeshFileKey) {
        invitations[key] = WeakReference(object: invitation)
    }

    /// Replaces the invitation for a file by the accepted file.
    mutating func accept(_ file: File, _ key: MeshFileKey) {
        invitations[key] = nil
        files[key] = file
    }

    mutating func removeFile(_ key: MeshFileKey) -> File? { files.removeValue(forKey: key) }

    /// Removes the invitation and the transfer of a file.
    mutating func remove(_ key: MeshFileKey) -> (invitation: Invitation?, file: File?) {
        (invitations.removeValue(forKey: key)?.object, files.removeValue(forKey: key))
    }

    // MARK: Files without an offer

    var unauthenticatedSenders: Set<PeerID> { Set(unauthenticated.map(\.sender)) }

    /// Keeps a file until its sender's keys are proven. At the limit it takes the place of the oldest, so that files of senders
    /// that never prove anything keep out no others.
    mutating func keepUnauthenticated(_ file: MeshReceivedFile) {
        unauthenticated.append(file)
        if unauthenticated.count > Self.maximumUnauthenticatedCount { unauthenticated.removeFirst() }
    }

    mutating func removeUnauthenticated(from sender: PeerID) -> [MeshReceivedFile] {
        let files = unauthenticated.filter { $0.sender == sender }
        unauthenticated.removeAll { $0.sender == sender }
        return files
    }

    // MARK: Texts

    /// Whether a repeated text was accepted; nil for a text that was not offered yet.
    func isAccepted(_ key: TextKey) -> Bool? { offeredTexts.first { $0.key == key }?.isAccepted }

    mutating func recordOffer(_ key: TextKey) {
        offeredTexts.append((key, isAccepted: false))
        if offeredTexts.count > Self.maximumOfferedTextCount { offeredTexts.removeFirst() }
    }

    mutating func recordAcceptance(_ key: TextKey) {
        guard let index = offeredTexts.firstIndex(where: { $0.key == key }) else { return }
        offeredTexts[index].isAccepted = true
    }

    private static let maximumUnauthenticatedCount = 4
    private static let maximumOfferedTextCount = 1_024
}
