internal import Nearshare
internal import NearshareAudio
internal import NearshareMesh

/// What is known, before a note is recorded, of the ways it will take.
struct VoiceReach: Sendable {
    /// What every one of them carries; nil where nothing limits it.
    private(set) var limit: NoteSizeLimit?
    /// What somebody who is about to speak should know.
    private(set) var remarks: [String] = []

    /// Looks for all receivers at once. When the note is sent they are looked for again: they may have moved while somebody
    /// spoke.
    /// - Parameter needsAll: whoever is not there is an error. Otherwise the note is recorded as for the narrowest way there
    ///   is, so that it fits whichever is found afterwards.
    static func look(for peers: [String], with locator: PeerResolver, on node: Node, needsAll: Bool) async throws -> VoiceReach
    {
        try await withThrowingTaskGroup(of: VoiceReach.self) { group in
            for peer in peers {
                group.addTask {
                    do {
                        return VoiceReach(to: try await locator.locate(peer, on: node))
                    } catch let error as PeerLookupError {
                        guard case .notFound = error, !needsAll else { throw error }
                        return VoiceReach(toAbsent: peer, via: locator.via)
                    }
                }
            }
            var all = VoiceReach()
            for try await reach in group { all.add(reach) }
            return all
        }
    }

    private init() {}

    private init(to destination: PeerResolver.Destination) {
        switch destination {
        case .direct: self.init()
        case .mesh(_, let peer): self.init(throughMeshTo: peer.name, UInt64(peer.software.contentLimit))
        case .node(let person):
            // Which phone it is only the node knows.
            let software: MeshPeer.Software = person.software == .nearshare ? .nearshare : .bitchatOnAndroid
            self.init(throughMeshTo: person.name, UInt64(software.contentLimit))
        }
    }

    private init(throughMeshTo name: DisplayName, _ most: UInt64) {
        limit = NoteSizeLimit(byteCount: most)
        let isNarrow = most < NoteSizeLimit.framePath.byteCount
        let what = isNarrow ? "'s phone takes" : " is reached through the mesh, which carries"
        remarks = ["\(name.shown)\(what) notes of at most \(most.asByteCount)"]
    }

    private init(toAbsent peer: String, via: Way?) {
        if via == nil || via == .mesh { limit = .framePath }
        let name = TerminalText.escaped(peer)
        remarks = ["\(name) is not to be found at the moment; what you say is kept, and \(name) is looked for again afterwards"]
    }

    private mutating func add(_ other: VoiceReach) {
        limit = NoteSizeLimit.smaller(limit, other.limit)
        remarks += other.remarks
    }
}
