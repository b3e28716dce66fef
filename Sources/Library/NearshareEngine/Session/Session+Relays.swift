internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

// The links between members that have no direct one.
extension Session {
    func openRelay(to member: PeerID, through relay: PeerID) -> RelayedLink? {
        let links = completeLinksTo(relay)
        guard let link = links.first(where: { $0.relay == nil }) ?? links.last,
            let stream = link.driver.openStream(.relay, RelayName.to(member).streamName, with: relay)
        else { return nil }
        return RelayedLink(stream, to: member, through: relay)
    }

    func handleRelay(_ stream: ByteStream, from link: SessionLink) {
        switch RelayName(stream.streamName) {
        case .to(let target)?:
            let path = RelayPath(origin: link.peer, target: target)
            guard target != link.peer, isMember(target), let next = completeLinksTo(target).first(where: { $0.relay == nil }),
                state.withLock({ !$0.isLeaving && $0.relays.begin(path) })
            else { return stream.refuse() }
            guard let onward = next.driver.openStream(.relay, RelayName.from(link.peer).streamName, with: target) else {
                state.withLock { $0.relays.end(path) }
                return stream.refuse()
            }
            node.start { [self] in
                await relayBytes(between: stream, and: onward)
                let isLeaving = state.withLock { state in
                    state.relays.end(path)
                    return state.isLeaving
                }
                // A leave waits for it.
                if isLeaving { progress.notifyAll() }
            }
        case .from(let origin)?:
            guard origin != link.peer, isMember(origin) else { return stream.refuse() }
            let end = RelayedLink(stream, to: origin, through: link.peer)
            guard let slot = node.admit(member: origin, end) else { return stream.refuse() }
            node.start { [node] in
                await node.serve(end, slot, queues: nil, expecting: origin)
                node.release(slot)
            }
        case nil: stream.refuse()
        }
    }

    /// Moves bytes both ways; each direction waits for its reader. When the peer resets one of the streams, the other one is reset as
    /// well. Where the link of one has ended, what has arrived on it is still passed on: its far end may have left in order, and the
    /// other one sees by the encryption whether it is all.
    private func relayBytes(between one: ByteStream, and other: ByteStream) async {
        let directions = [(one, other), (other, one)]
        await withDiscardingTaskGroup { resetting in
            for (source, target) in directions {
                // Also while both directions wait, for a reader and for bytes.
                resetting.addTask { if await source.waitUntilReset() { target.cut() } }
            }
            await withDiscardingTaskGroup { copying in
                for (source, target) in directions { copying.addTask { await self.copyBytes(from: source, to: target) } }
            }
            resetting.cancelAll()
        }
    }

    /// Copies bytes until the end of the source, or of the link of one of both.
    private func copyBytes(from source: ByteStream, to target: ByteStream) async {
        do {
            for try await bytes in source {
                recordRelayedBytes()
                try await target.write(bytes)
                // The target may have waited for its reader.
                recordRelayedBytes()
            }
        } catch let error as StreamError where error != .notOpen {
            // The peer has reset one of them.
            source.cut()
            target.cut()
        } catch {
            // The other direction ends by itself.
        }
        target.finish()
    }

    private func recordRelayedBytes() {
        let now = node.settings.clock()
        state.withLock { $0.relays.recordBytes(at: now) }
    }

    /// Waits until the links that this node relays have carried nothing for a while, or have ended: two members that leave as well
    /// close theirs when they are done. Members that stay look for another way when this node has gone.
    func waitUntilRelaysAreQuiet() async {
        let haveEnded = { @Sendable in self.state.withLock { $0.isOver || $0.relays.quietInstant == nil } }
        while !Task.isCancelled, !haveEnded(), let instant = state.withLock({ $0.relays.quietInstant }) {
            let rest = instant - node.settings.clock()
            guard rest > .zero else { return }
            // Bytes that are relayed meanwhile postpone the time.
            await withTimeout(rest) { await self.progress.wait(until: haveEnded) }
        }
    }
}
