package import Nearshare
package import NearshareAudio
internal import NearshareMesh

/// The receivers of a voice note and the limits of their transports, determined before it is recorded.
package struct VoiceNoteReceivers: Sendable {
    /// Limit on the note's size that fits all paths; nil for none.
    package private(set) var limit: NoteSizeLimit?
    /// The sentence about the receiver with this limit; nil for a limit without a known receiver.
    package private(set) var limitText: String?
    /// Messages for the user before the recording.
    package private(set) var notices: [String] = []

    /// Searches for all receivers at once. They are searched for again when the note is sent.
    /// - Parameter requiresAll: whether a receiver that is not found is an error. If not, the limit for an absent one is that
    ///   of the mesh, which fits every transport; a phone may accept less.
    package static func resolve(
        _ peers: [String], with resolver: PeerResolver, on node: Node, requiresAll: Bool
    ) async throws -> VoiceNoteReceivers {
        try await withThrowingTaskGroup(of: (rank: Int, receivers: VoiceNoteReceivers).self) { group in
            for (rank, peer) in peers.enumerated() {
                group.addTask {
                    do {
                        let destination =
                            try await requiresAll ? resolver.resolve(peer, on: node) : resolver.resolvePeer(peer, on: node)
                        return (rank, VoiceNoteReceivers(to: destination))
                    } catch NodeError.notFound where !requiresAll {
                        return (rank, VoiceNoteReceivers(toAbsent: peer, transport: resolver.transport))
                    }
                }
            }
            var found: [(rank: Int, receivers: VoiceNoteReceivers)] = []
            for try await one in group { found.append(one) }
            // In the order in which the user has named them, whichever is found first.
            var all = VoiceNoteReceivers()
            for one in found.sorted(by: { $0.rank < $1.rank }) { all.add(one.receivers) }
            return all
        }
    }

    private init() {}

    private init(to destination: PeerResolver.Destination) {
        switch destination {
        // Everyone is never the result for a name.
        case .direct, .everyone: self.init()
        case .mesh(_, let peer): self.init(throughMeshTo: peer.name, maximumByteCount: UInt64(peer.contentLimit))
        case .node(let contact): self.init(through: contact)
        }
    }

    /// The receiver of a note that goes through the node of this machine.
    package init(through contact: Contact) {
        // Without a path the smallest limit of all apps: the peer may come back with any of them.
        let software: MeshPeer.Software = contact.software == .nearshare ? .nearshare : .bitchatOnAndroid
        self.init(
            throughMeshTo: contact.name, maximumByteCount: contact.contentLimit ?? UInt64(software.contentLimit),
            isAppKnown: contact.software != .unknown)
    }

    init(throughMeshTo name: DisplayName, maximumByteCount: UInt64, isAppKnown: Bool = true) {
        limit = NoteSizeLimit(byteCount: maximumByteCount)
        let isNarrow = maximumByteCount < NoteSizeLimit.mesh.byteCount
        let narrowPath = isAppKnown ? "'s phone accepts" : "'s app is not known, and phones accept"
        let path = isNarrow ? narrowPath : " is reached through the mesh, which carries"
        let text = "\(name.shown)\(path) notes of at most \(maximumByteCount.formattedByteCount)"
        (limitText, notices) = (text, [text])
    }

    init(toAbsent peer: String, transport: Transport?) {
        if transport == nil || transport == .mesh { limit = .mesh }
        let name = TerminalText.escaped(peer)
        notices = ["\(name) was not found; the note is kept, and \(name) is searched for again afterwards"]
    }

    mutating func add(_ other: VoiceNoteReceivers) {
        let smaller = NoteSizeLimit.smaller(limit, other.limit)
        if smaller != limit { limitText = other.limitText }
        limit = smaller
        notices += other.notices
    }
}
