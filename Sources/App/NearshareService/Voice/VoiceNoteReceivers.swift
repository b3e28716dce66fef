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
    /// - Parameter requiresAll: whether a receiver that is not found is an error. If not, the limit is the smallest one of all
    ///   transports, so that the note fits whichever is used later.
    package static func resolve(
        _ peers: [String], with resolver: PeerResolver, on node: Node, requiresAll: Bool
    ) async throws -> VoiceNoteReceivers {
        try await withThrowingTaskGroup(of: VoiceNoteReceivers.self) { group in
            for peer in peers {
                group.addTask {
                    do {
                        let destination =
                            try await requiresAll ? resolver.resolve(peer, on: node) : resolver.resolvePeer(peer, on: node)
                        return VoiceNoteReceivers(to: destination)
                    } catch NodeError.notFound where !requiresAll {
                        return VoiceNoteReceivers(toAbsent: peer, transport: resolver.transport)
                    }
                }
            }
            var all = VoiceNoteReceivers()
            for try await receiver in group { all.add(receiver) }
            return all
        }
    }

    private init() {}

    private init(to destination: PeerResolver.Destination) {
        switch destination {
        case .direct, .everyone: self.init()
        case .mesh(_, let peer): self.init(throughMeshTo: peer.name, maximumByteCount: UInt64(peer.contentLimit))
        case .node(let contact): self.init(through: contact)
        }
    }

    /// The receiver of a note that goes through the node of this machine.
    package init(through contact: Contact) {
        // Without a path the smallest limit of all apps: the peer may come back with any of them.
        let software: MeshPeer.Software = contact.software == .nearshare ? .nearshare : .bitchatOnAndroid
        self.init(throughMeshTo: contact.name, maximumByteCount: contact.contentLimit ?? UInt64(software.contentLimit))
    }

    init(throughMeshTo name: DisplayName, maximumByteCount: UInt64) {
        limit = NoteSizeLimit(byteCount: maximumByteCount)
        let isNarrow = maximumByteCount < NoteSizeLimit.mesh.byteCount
        let path = isNarrow ? "'s phone accepts" : " is reached through the mesh, which carries"
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
