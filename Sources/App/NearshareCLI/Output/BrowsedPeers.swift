internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// The peers found so far, and their output.
final class BrowsedPeers: Sendable {
    private let book: TrustStore
    private let isJSON: Bool
    private let found = Mutex<[PeerID: NearbyPeer]>([:])
    private let stopping: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)

    init(book: TrustStore, isJSON: Bool) {
        self.book = book
        self.isJSON = isJSON
        stopping = AsyncStream.makeStream(of: Void.self)
    }

    var peers: [NearbyPeer] { PeerTable.sorted(found.withLock { $0 }) }

    /// Collects peers until the time is over, or Ctrl-C.
    /// - Parameter time: nil without a limit.
    func follow(
        _ node: Node, _ media: Set<LinkAddress.Medium>, for time: Duration?, reportsChanges: Bool = false
    ) async throws {
        let changes = try await node.browse(media)
        let stop: @Sendable () -> Void = {
            node.beginShutdown()
            self.stopping.continuation.finish()
        }
        try await SignalHandling.run(onSignal: stop) {
            try await firstResult(
                of: { for try await case .change(let change) in changes { self.update(change, isReported: reportsChanges) } },
                { await self.stopped(after: time) })
        }
    }

    /// Returns after Ctrl-C or a timeout.
    private func stopped(after time: Duration?) async {
        await withTaskGroup(of: Void.self) { group in
            if let time { group.addTask { try? await Task.sleep(for: time) } }
            group.addTask { for await _ in self.stopping.stream {} }
            await group.next()
            group.cancelAll()
        }
    }

    private func update(_ change: PeerTable.Change, isReported: Bool) {
        let (event, sign, peer): (String, String, NearbyPeer) =
            switch change {
            case .found(let peer): ("found", "+", peer)
            case .updated(let peer): ("updated", "~", peer)
            case .lost(let peer): ("lost", "-", peer)
            }
        let before = found.withLock { found in
            defer { found[peer.id] = event == "lost" ? nil : peer }
            return found[peer.id]
        }
        guard isReported else { return }
        if isJSON {
            JSONEvents.emit(event, describe(peer))
        } else if event != "updated" || before.map(row) != row(peer) {
            Console.writeResult(([sign] + row(peer)).joined(separator: "  "))
        }
    }

    /// Writes all peers.
    /// - Throws: ``CommandFailure`` when there are none.
    func report() throws {
        let peers = self.peers
        guard !peers.isEmpty else {
            throw CommandFailure(
                .peerNotFound,
                "no peers nearby; `nearshare receive` advertises a machine, `nearshare doctor` looks for problems")
        }
        if isJSON {
            for peer in peers { JSONEvents.emit("found", describe(peer)) }
        } else {
            Console.writeTable(peers.map(row))
        }
    }

    func row(_ peer: NearbyPeer) -> [String] {
        [
            book.shownName(claiming: peer.id, named: peer.name).shown + peer.protocolNote, peer.id.hex,
            peer.addresses.first?.description ?? "",
            trustStatus(peer),
        ]
    }

    private func describe(_ peer: NearbyPeer) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "name": .string(peer.name.claimed), "id": .string(peer.id.hex), "trust": .string(trustStatus(peer)),
            "addresses": .array(peer.addresses.map { .string($0.description) }),
        ]
        if let certificate = peer.certificate {
            (members["protocol"], members["certificate"]) = (.string("localsend"), .string(Hex.encode(certificate)))
        }
        return members
    }

    /// The trust status of the claimed id, which is not authenticated: for display only.
    private func trustStatus(_ peer: NearbyPeer) -> String {
        book.trustStatus(claiming: peer.id, named: peer.name).label
    }
}

extension NearbyPeer {
    /// The protocol of a peer that is no nearshare peer, to be shown behind its name.
    var protocolNote: String { certificate == nil ? "" : " (LocalSend)" }
}
