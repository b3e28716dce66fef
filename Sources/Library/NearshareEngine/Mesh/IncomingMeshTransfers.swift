internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareMesh

/// The files and texts that peers of the mesh offer or send to this node.
struct IncomingMeshTransfers {
    /// A file that was accepted and is still coming.
    struct File {
        let transfer: Transfer
        let sink: AcceptedSink
        /// Size of the content, in bytes.
        let size: UInt64
    }

    /// The sink of an accepted file.
    ///
    /// Sendable, as one thread at a time uses it: the one that delivers.
    struct AcceptedSink: @unchecked Sendable {
        let sink: any ResourceSink
    }

    /// A text by the id that its sender has given it.
    struct TextKey: Hashable {
        let id: String
        let sender: PeerID
    }

    private struct WeakInvitation {
        weak var invitation: Invitation?
    }

    private var invitations: [MeshFileKey: WeakInvitation] = [:]
    private var files: [MeshFileKey: File] = [:]
    /// Public files of peers whose keys are not authenticated yet.
    private var unauthenticated: [PeerID: [MeshReceivedFile]] = [:]
    /// Texts that a person was asked about, the oldest first, and whether they were accepted: they come again until they are
    /// acknowledged.
    private var offeredTexts: [(key: TextKey, isAccepted: Bool)] = []
    /// Size of the files that came without an offer, and about which nobody has decided.
    private var undecidedByteCount = 0
    private var limiter = InvitationRateLimiter()

    /// Every transfer of an accepted file.
    var transfers: [Transfer] { files.values.map(\.transfer) }
    var openInvitations: [Invitation] { invitations.values.compactMap(\.invitation) }

    // MARK: Offered files

    subscript(key: MeshFileKey) -> File? { files[key] }

    mutating func insert(_ invitation: Invitation, _ key: MeshFileKey) {
        invitations[key] = WeakInvitation(invitation: invitation)
    }

    /// Replaces the invitation for a file that was accepted.
    mutating func accept(_ file: File, _ key: MeshFileKey) {
        invitations[key] = nil
        files[key] = file
    }

    mutating func removeFile(_ key: MeshFileKey) -> File? { files.removeValue(forKey: key) }

    /// Removes all that is known of a file.
    mutating func remove(_ key: MeshFileKey) -> (invitation: Invitation?, file: File?) {
        (invitations.removeValue(forKey: key)?.invitation, files.removeValue(forKey: key))
    }

    // MARK: Rate limit

    /// - Parameter source: whose offers count together.
    /// - Returns: false when too many were declined lately.
    mutating func allowsInvitation(from source: String, now: MonotonicInstant) -> Bool { limiter.allows(source, now: now) }

    mutating func recordRefusal(of source: String, now: MonotonicInstant) { limiter.recordRefusal(of: source, now: now) }

    // MARK: Files without an offer

    /// Keeps a file until its sender's key is authenticated.
    /// - Returns: false when there are too many.
    mutating func keepUnauthenticated(_ file: MeshReceivedFile) -> Bool {
        guard unauthenticated.values.reduce(0, { $0 + $1.count }) < Self.maximumUnauthenticatedCount else { return false }
        unauthenticated[file.sender, default: []].append(file)
        return true
    }

    mutating func removeUnauthenticated(from sender: PeerID) -> [MeshReceivedFile] {
        unauthenticated.removeValue(forKey: sender) ?? []
    }

    /// Reserves memory for a file until a person has decided.
    /// - Returns: false when too much waits already.
    mutating func reserve(_ byteCount: Int) -> Bool {
        guard undecidedByteCount + byteCount <= Self.maximumUndecidedByteCount else { return false }
        undecidedByteCount += byteCount
        return true
    }

    mutating func release(_ byteCount: Int) { undecidedByteCount -= byteCount }

    // MARK: Texts

    /// Whether a text that comes again was accepted; nil for one that was not offered yet.
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
    private static let maximumUndecidedByteCount = 12 << 20
}
