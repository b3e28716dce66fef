internal import Logging
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

// Nodes on one network keep links to each other, over which frames go from one network to the next.
extension MeshDriver {
    /// Who connects to whom.
    enum Initiative: Sendable {
        /// Of two who both wait for others, the one with the lower id connects.
        case lowerID
        /// A node that nobody can find connects to all.
        case always
    }

    private static let maximumOwnLinks = 8
    private static let shortestPause = Duration.seconds(1)
    private static let longestPause = Duration.seconds(60)

    /// Follows who is nearby, and keeps a link to each, until the node stops or discovery breaks.
    func keepNeighbours(_ changes: NearbyChanges, _ initiative: Initiative) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.follow(changes, initiative) }
            group.addTask { _ = await self.stopping.value }
            await group.next()
            group.cancelAll()
        }
    }

    private func follow(_ changes: NearbyChanges, _ initiative: Initiative) async {
        let neighbours = Neighbours()
        await withDiscardingTaskGroup { group in
            do {
                for try await case .change(let change) in changes {
                    let peer = change.peer
                    guard change.isThere else {
                        neighbours.lose(peer.id)
                        continue
                    }
                    let isOurs = initiative == .always || settings.identity.peerID.hex < peer.id.hex
                    guard !peer.frameAddresses.isEmpty, isOurs else { continue }
                    guard neighbours.claim(peer, limit: Self.maximumOwnLinks) else { continue }
                    group.addTask { await self.keepLink(to: peer.id, among: neighbours) }
                }
            } catch is CancellationError {
                return
            } catch {
                settings.log.error("the mesh finds no neighbours on the network: \(error)")
            }
        }
    }

    /// Connects again and again, with longer and longer pauses, as long as the peer is nearby.
    private func keepLink(to id: PeerID, among neighbours: Neighbours) async {
        var pause = Self.shortestPause
        while !Task.isCancelled, !isStopping, let (peer, news) = neighbours.peerOrRelease(id) {
            let began = settings.clock()
            if hasRoomForLinks { await connect(to: peer) }
            // A link that held for a while was a good one.
            if settings.clock() - began > Self.longestPause { pause = Self.shortestPause }
            if await Self.happens(news, within: pause) {
                // They went, or came back as another process, as each command without a node does: that is no reason to avoid them.
                // Whoever announces themselves all the time is still not called more often than others.
                pause = Self.shortestPause
                let rest = Self.shortestPause - (settings.clock() - began)
                if neighbours.isNearby(id), rest > .zero { try? await Task.sleep(for: rest) }
            } else {
                pause = min(pause * 2, Self.longestPause)
            }
        }
    }

    private static func happens(_ event: Promise<Bool>, within time: Duration) async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask { await event.value != nil }
            group.addTask {
                try? await Task.sleep(for: time)
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    private func connect(to peer: NearbyPeer) async {
        // Over the radio frames need no channel: the radio brings those links itself.
        for address in peer.frameAddresses where address.medium == .network {
            let (transport, time) = (settings.transport, settings.limits.connectTime)
            let opened = await BlockingThread.run { Result { try transport.connect(to: address, timeout: time) } }
            guard case .success(let link) = opened else { continue }
            do {
                try await LinkDemultiplexer.openFrames(link, timeout: settings.limits.connectTime)
            } catch {
                settings.log.debug("\(error)")
                link.close()
                return
            }
            // By itself, so that it can still say goodbye when looking for others has ended.
            let ended = Promise<Bool>()
            start {
                await self.carry(link)
                ended.fulfil(true)
            }
            _ = await ended.value
            return
        }
    }
}

/// Who is nearby, and to whom a link is being kept.
private final class Neighbours: Sendable {
    private struct State {
        var nearby: [PeerID: NearbyPeer] = [:]
        /// With what happens when the one to whom a link is kept goes, or is found elsewhere.
        var claimed: [PeerID: Promise<Bool>] = [:]
    }

    private let state = Mutex(State())

    /// Whom to connect to, and what happens when there is news of them. For somebody who is gone the claim ends: at once, so that
    /// nobody who comes in this moment is left without a link.
    func peerOrRelease(_ id: PeerID) -> (peer: NearbyPeer, news: Promise<Bool>)? {
        state.withLock { state in
            guard let peer = state.nearby[id] else {
                state.claimed[id] = nil
                return nil
            }
            let news = Promise<Bool>()
            state.claimed[id] = news
            return (peer, news)
        }
    }

    func isNearby(_ id: PeerID) -> Bool { state.withLock { $0.nearby[id] != nil } }

    func lose(_ id: PeerID) {
        state.withLock { state in
            state.nearby[id] = nil
            return state.claimed[id]
        }?.fulfil(true)
    }

    /// - Returns: whether the caller is to keep a link to it: nobody does, and there are not too many.
    func claim(_ peer: NearbyPeer, limit: Int) -> Bool {
        let (isNew, news) = state.withLock { state -> (Bool, Promise<Bool>?) in
            let known = state.nearby.updateValue(peer, forKey: peer.id)
            if let news = state.claimed[peer.id] { return (false, known?.addresses == peer.addresses ? nil : news) }
            guard state.claimed.count < limit else { return (false, nil) }
            state.claimed[peer.id] = Promise()
            return (true, nil)
        }
        news?.fulfil(true)
        return isNew
    }
}
