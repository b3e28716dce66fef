internal import Logging
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// Maintains the links to nodes on the same network, over which frames travel from one network to the next, and serves those of
/// the radio.
final class NeighbourConnector: Sendable {
    /// The rule for which end of a link connects.
    enum Initiator: Sendable {
        /// The node with the lower id, where both accept links.
        case lowerID
        /// The local node: it does not advertise, so no other node can find it.
        case local
    }

    private let settings: NodeSettings
    private let router: RouterDriver
    private let tasks: OwnedTasks
    /// Whether the links of the radio are served.
    private let servesRadio = Mutex(false)

    private static let maximumOutgoingLinkCount = 8
    private static let minimumBackOff = Duration.seconds(1)
    private static let maximumBackOff = Duration.seconds(60)
    /// Limit on the back-off for this time after a link was lost: the network may be back at any moment.
    private static let maximumBackOffAfterLoss = Duration.seconds(4)
    private static let lossTime = Duration.seconds(120)

    init(_ settings: NodeSettings, _ router: RouterDriver, _ tasks: OwnedTasks) {
        (self.settings, self.router, self.tasks) = (settings, router, tasks)
    }

    // MARK: The network

    /// Maintains a link to each nearby node, until this node stops or discovery fails.
    func maintainLinks(to changes: NearbyChanges, _ initiator: Initiator) async {
        await firstResult(of: { await self.follow(changes, initiator) }, { _ = await self.tasks.stopping.value })
    }

    private func follow(_ changes: NearbyChanges, _ initiator: Initiator) async {
        let neighbours = NearbyNeighbours()
        await withDiscardingTaskGroup { group in
            do {
                for try await change in changes.compactMap(\.change) {
                    let peer = change.peer
                    guard change.isPresent else {
                        neighbours.remove(peer.id)
                        continue
                    }
                    let connects = initiator == .local || settings.identity.peerID.hex < peer.id.hex
                    guard !peer.frameAddresses.isEmpty, connects else { continue }
                    guard neighbours.claim(peer, limit: Self.maximumOutgoingLinkCount) else { continue }
                    group.addTask { await self.maintainLink(to: peer.id, among: neighbours) }
                }
            } catch is CancellationError {
                return
            } catch {
                settings.log.error("mesh: cannot discover neighbours on the network: \(error)")
            }
        }
    }

    /// Connects to a peer whenever there is no link, with exponential back-off, as long as it is nearby.
    private func maintainLink(to id: PeerID, among neighbours: NearbyNeighbours) async {
        var (backOff, lastLink) = (Self.minimumBackOff, MonotonicInstant?.none)
        while !Task.isCancelled, !router.isStopping, let (peer, change) = neighbours.claimedPeer(id) {
            let start = settings.clock()
            // After a link the back-off starts again: the peer may have been restarted at the same address.
            if router.hasRoomForLinks, await connect(to: peer) {
                backOff = Self.minimumBackOff
                lastLink = settings.clock()
            }
            if await change.isFulfilled(within: backOff) {
                // The peer left, or returned as another process, as each command without a node does: no reason to avoid it. Its
                // announcements still cause at most one attempt in each minimum back-off.
                backOff = Self.minimumBackOff
                let rest = Self.minimumBackOff - (settings.clock() - start)
                if neighbours.isNearby(id), rest > .zero { try? await Task.sleep(for: rest) }
            } else {
                let isLost = lastLink.map { settings.clock() - $0 < Self.lossTime } ?? false
                backOff = min(backOff * 2, isLost ? Self.maximumBackOffAfterLoss : Self.maximumBackOff)
            }
        }
    }

    /// Runs a link to a peer until it ends.
    /// - Returns: whether there was one.
    private func connect(to peer: NearbyPeer) async -> Bool {
        // The radio provides its frame links itself.
        let addresses = peer.frameAddresses.filter { $0.medium == .network }
        let (transport, timeout) = (settings.transport, settings.limits.connectTimeout)
        let link = try? await AddressRace.first(
            over: addresses, discarding: { $0.close() },
            { address throws(NodeError) in try await transport.openLink(to: address, timeout: timeout) })
        guard let link else { return false }
        do {
            try await LinkDemultiplexer.openFrames(link, timeout: timeout)
        } catch {
            settings.log.debug("\(error)")
            link.close()
            return false
        }
        // In a task of the mesh, so that its last frames still go out after discovery has ended.
        let ended = Promise<Void>()
        tasks.start {
            await self.router.run(over: link, .stream, isIncoming: false)
            ended.fulfil()
        }
        _ = await ended.value
        return true
    }

    // MARK: The radio

    /// Exchanges frames over every link of the radio, until the node stops. No effect a second time: the links are one stream.
    func runLinks(of radio: any FrameRadio) {
        let isFirst = servesRadio.withLock { serves in
            defer { serves = true }
            return !serves
        }
        guard isFirst else { return }
        tasks.start { [self] in
            await firstResult(
                of: {
                    for await link in radio.links() {
                        // In a task of its own, so that its last frames still go out when no more links are accepted.
                        self.tasks.start { await self.router.run(over: link) }
                    }
                }, { _ = await self.tasks.stopping.value })
        }
    }
}
