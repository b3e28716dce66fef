internal import Logging
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// Maintains the links to nodes on the same network, over which frames travel from one network to the next, and serves those of
/// the radio.
final class NeighbourConnector: Sendable {
    /// The rule for which end of a link connects.
    enum Initiator: Sendable {
        /// The node with the lower id, where both accept links; the other one where that has not succeeded after a while.
        case lowerID
        /// The local node: it does not advertise, so no other node can find it.
        case local
    }

    private let settings: NodeSettings
    private let router: RouterDriver
    private let tasks: OwnedTasks
    /// Whether the links of the radio are served.
    private let servesRadio = Mutex(false)

    /// The peers to which ``connect(to:at:)`` connects.
    private let called = Mutex<Set<PeerID>>([])

    private static let maximumOutgoingLinkCount = 8
    /// The same with those to contacts: a hostile host can announce any number of other nodes.
    private static let maximumOutgoingLinkCountWithContacts = 16
    private static let maximumCallCount = 8
    private static let minimumBackOff = Duration.seconds(1)
    private static let maximumBackOff = Duration.seconds(60)
    /// Limit on the back-off for this time after a link was lost: the network may be back at any moment.
    private static let maximumBackOffAfterLoss = Duration.seconds(4)
    private static let lossTime = Duration.seconds(120)
    /// Time in which the node with the lower id connects, before the other one does.
    private static let initiatorTime = Duration.seconds(3)
    /// Time in which the node at the other end proves that it is the one that was announced: longer than a link may wait there for
    /// the rate of its address and for a slot.
    private static let proofTime = Duration.seconds(22)

    init(_ settings: NodeSettings, _ router: RouterDriver, _ tasks: OwnedTasks) {
        (self.settings, self.router, self.tasks) = (settings, router, tasks)
    }

    // MARK: The network

    /// Maintains a link to each nearby node, until this node stops or discovery fails.
    func maintainLinks(to changes: NearbyChanges, _ initiator: Initiator) async {
        await firstResult(of: { await self.follow(changes, initiator) }, { _ = await self.tasks.stopping.value })
    }

    private func follow(_ changes: NearbyChanges, _ initiator: Initiator) async {
        // The nodes to which this one connects first, and those that connect first.
        let (own, others) = (NearbyNeighbours(), NearbyNeighbours())
        await withDiscardingTaskGroup { group in
            do {
                for try await change in changes.compactMap(\.change) {
                    let peer = change.peer
                    let isFirst = initiator == .local || settings.identity.peerID.hex < peer.id.hex
                    let neighbours = isFirst ? own : others
                    guard change.isPresent else {
                        neighbours.remove(peer.id)
                        continue
                    }
                    guard !peer.meshAddresses.isEmpty else { continue }
                    let limit =
                        router.read { $0.isContact(peer.id) }
                        ? Self.maximumOutgoingLinkCountWithContacts : Self.maximumOutgoingLinkCount
                    guard neighbours.claim(peer, limit: limit) else { continue }
                    group.addTask { await self.maintainLink(to: peer.id, among: neighbours, isFirst: isFirst) }
                }
            } catch is CancellationError {
                return
            } catch {
                settings.log.error("mesh: cannot discover neighbours on the network: \(error)")
            }
        }
    }

    /// Connects to a peer whenever there is no link, with exponential back-off, as long as it is nearby.
    /// - Parameter isFirst: false where the peer is to connect, so that this node waits, and does so only without a link.
    private func maintainLink(to id: PeerID, among neighbours: NearbyNeighbours, isFirst: Bool) async {
        var (backOff, lastLink) = (Self.minimumBackOff, MonotonicInstant?.none)
        var failures = NeighbourFailures()
        // Any host can announce an address of its own as that of another node.
        var suspects: Set<LinkAddress> = []
        if !isFirst { await neighbours.claimedPeer(id)?.change.isFulfilled(within: Self.initiatorTime) }
        while !Task.isCancelled, !router.isStopping, let (peer, change) = neighbours.claimedPeer(id) {
            let start = settings.clock()
            if router.read({ $0.isNeighbour(id) }) { failures.recordLink() }
            // After a link the back-off starts again: the peer may have been restarted at the same address.
            if isFirst || !router.read({ $0.isNeighbour(id) }), router.hasRoomForLinks {
                // The radio provides its frame links itself.
                let addresses = peer.meshAddresses.filter { $0.medium == .network }
                let end = await runLink(
                    to: id, at: addresses.filter { !suspects.contains($0) } + addresses.filter(suspects.contains))
                switch end {
                case .proven:
                    (backOff, lastLink) = (Self.minimumBackOff, settings.clock())
                    failures.recordLink()
                case .unproven(let address): suspects = suspects.intersection(addresses).union([address])
                // A node that answers without the proof is not behind a firewall.
                case nil:
                    if !router.read({ $0.isNeighbour(id) }), failures.recordFailure(since: start, now: settings.clock()) {
                        settings.reportUnreachable(peer)
                    }
                }
            }
            if await change.isFulfilled(within: backOff) {
                // The peer left, or returned as another process, as each command without a node does: no reason to avoid it. Its
                // announcements still cause at most one attempt in each minimum back-off.
                backOff = Self.minimumBackOff
                failures.recordChange()
                let rest = Self.minimumBackOff - (settings.clock() - start)
                if neighbours.isNearby(id), rest > .zero { try? await Task.sleep(for: rest) }
            } else {
                let isLost = lastLink.map { settings.clock() - $0 < Self.lossTime } ?? false
                backOff = min(backOff * 2, isLost ? Self.maximumBackOffAfterLoss : Self.maximumBackOff)
            }
        }
    }

    private enum LinkEnd: Hashable {
        /// The link has ended after the peer had proven its id.
        case proven
        case unproven(LinkAddress)
    }

    /// Connects to a peer at the address at which it was reached last: the announcements of some networks do not get through.
    /// Returns at once. No effect while there is a link.
    func connect(to id: PeerID, at address: LinkAddress) {
        guard address.medium == .network, router.hasRoomForLinks, !router.read({ $0.isNeighbour(id) }),
            called.withLock({ $0.count < Self.maximumCallCount && $0.insert(id).inserted })
        else { return }
        tasks.start { [self] in
            // A node that stops does not wait for a peer that answers late, or not at all.
            await firstResult(
                of: { _ = await self.runLink(to: id, at: [address]) }, { _ = await self.tasks.stopping.value })
            called.withLock { _ = $0.remove(id) }
        }
    }

    /// Runs a link to a peer until it ends, or the peer proves its id on no link.
    /// - Returns: nil where there was none.
    private func runLink(to id: PeerID, at addresses: [LinkAddress]) async -> LinkEnd? {
        let (transport, timeout) = (settings.transport, settings.limits.connectTimeout)
        let opened = try? await AddressRace.first(
            over: addresses, discarding: { $0.link.close() },
            { address throws(NodeError) in (address: address, link: try await transport.openLink(to: address, timeout: timeout))
            })
        guard let (address, link) = opened else { return nil }
        do {
            try await LinkDemultiplexer.openFrames(link, timeout: timeout)
        } catch {
            settings.log.debug("\(error)")
            link.close()
            return nil
        }
        // In a task of the mesh, so that its last frames still go out after discovery has ended.
        let ended = Promise<Void>()
        let isStarted = tasks.start {
            await self.router.run(over: link)
            ended.fulfil()
        }
        // The node has stopped while the peer answered: nothing would fulfil the promise.
        guard isStarted else {
            link.close()
            return nil
        }
        if await !ended.isFulfilled(within: Self.proofTime), !router.read({ $0.isNeighbour(id) }) {
            link.close()
            _ = await ended.value
            return .unproven(address)
        }
        _ = await ended.value
        return .proven
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
                        if !self.tasks.start({ await self.router.run(over: link) }) { link.close() }
                    }
                }, { _ = await self.tasks.stopping.value })
        }
    }
}
