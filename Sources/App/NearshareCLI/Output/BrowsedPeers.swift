internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// The peers found so far, and their output.
final class BrowsedPeers: Sendable {
    private let trust: TrustStore
    private let reporter: any CommandReporter
    private let found = Mutex<[PeerID: NearbyPeer]>([:])
    private let unwritten = Mutex(PeerChangeQueue(now: SystemClock.monotonic()))

    init(trust: TrustStore, reporter: any CommandReporter) {
        self.trust = trust
        self.reporter = reporter
    }

    var peers: [NearbyPeer] { NearbyPeerTable.sorted(found.withLock { $0 }) }

    /// The peers without blocked ones, for a proposal to the user.
    var proposedPeers: [NearbyPeer] { peers.filter { !trust.isBlocked($0) } }

    /// Collects peers until the time is over, or the node stops.
    /// - Parameters:
    ///   - time: nil without a limit.
    ///   - search: runs meanwhile; its end is awaited as well.
    /// - Throws: ``SignalHandling/Interrupted`` after Ctrl-C.
    func follow(
        _ node: Node, _ media: Set<LinkAddress.Medium>, for time: Duration?, reportsChanges: Bool = false,
        during search: @escaping @Sendable () async throws -> Void = {}
    ) async throws {
        let changes = try await node.browse(media)
        let (appended, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let collect: @Sendable () async throws -> Void = {
            for try await change in changes.compactMap(\.change) {
                self.found.withLock { $0[change.peer.id] = change.isPresent ? change.peer : nil }
                guard reportsChanges else { continue }
                self.unwritten.withLock { $0.append(change, isKnown: self.trustStatus(change.peer).isKnown) }
                continuation.yield()
            }
        }
        try await SignalHandling.run(onSignal: node.beginShutdown) {
            // The tasks return whether all is over with them.
            try await withThrowingTaskGroup(of: Bool.self) { group in
                defer { group.cancelAll() }
                group.addTask {
                    try await collect()
                    return true
                }
                group.addTask {
                    for await _ in appended { try await self.writeChanges() }
                    return false
                }
                group.addTask {
                    async let searching: Void = search()
                    if let time { try? await Task.sleep(for: time) }
                    try await searching
                    return time != nil
                }
                for try await isOver in group where isOver { break }
            }
        }
    }

    private func writeChanges() async throws {
        while !unwritten.withLock(\.isEmpty) {
            guard let change = unwritten.withLock({ $0.next(now: SystemClock.monotonic()) }) else {
                // Timed: the burst is used up, and the rate of further changes is bounded.
                try await Task.sleep(for: PeerChangeQueue.interval)
                continue
            }
            write(change)
        }
    }

    private func write(_ change: PeerChangeQueue.Change) {
        guard let peer = change.after ?? change.before else { return }
        let (event, sign) =
            change.after == nil ? ("lost", "-") : change.before == nil ? ("found", "+") : ("updated", "~")
        reporter.emit(event, jsonMembers(peer)) {
            guard change.before.map(row) != change.after.map(row) else { return }
            Console.writeResult(([sign] + row(peer)).joined(separator: "  "))
        }
    }

    /// Writes all peers.
    /// - Parameter isPhoneLinked: whether the running node of this user has phones in its mesh, which are no peers of a search.
    /// - Throws: ``CommandFailure`` when there are none.
    func report(isPhoneLinked: Bool) throws {
        let peers = self.peers
        guard !peers.isEmpty else {
            throw CommandFailure(
                .peerNotFound,
                isPhoneLinked
                    ? "no peers nearby but phones in the mesh, which `nearshare mesh status` lists"
                    : "no peers nearby; `nearshare receive` advertises a machine, `nearshare doctor` looks for problems")
        }
        reporter.writeList(peers, event: "found", members: jsonMembers, row: row)
    }

    func row(_ peer: NearbyPeer) -> [String] {
        [
            trust.shownName(claiming: peer.id, named: peer.name).shown + peer.protocolNote, peer.id.hex,
            peer.addresses.first?.description ?? "",
            trust.trustText(claiming: peer.id, named: peer.name),
        ]
    }

    private func jsonMembers(_ peer: NearbyPeer) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "name": .string(peer.name.claimed), "id": .string(peer.id.hex), "trust": .string(trustStatus(peer).label),
            "addresses": .array(peer.addresses.map { .string($0.description) }),
        ]
        if MixedScripts.isFound(in: peer.name.claimed) { members["mixed_alphabets"] = .bool(true) }
        if let certificate = peer.certificate {
            (members["protocol"], members["certificate"]) = (.string("localsend"), .string(Hex.encode(certificate)))
        }
        return members
    }

    /// The trust status of the claimed id, which is not authenticated: for display only.
    private func trustStatus(_ peer: NearbyPeer) -> TrustStatus {
        trust.trustStatus(claiming: peer.id, named: peer.name)
    }
}

extension TrustStore {
    /// Whether the owner of the id that a peer announces is blocked: nothing is sent to it.
    func isBlocked(_ peer: NearbyPeer) -> Bool { trustStatus(claiming: peer.id, named: peer.name).isBlocked }
}

extension NearbyPeer {
    /// The protocol of a peer that is no nearshare peer, to be shown behind its name.
    var protocolNote: String { certificate == nil ? "" : " (LocalSend)" }
}
