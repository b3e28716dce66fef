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
                state.withLock({ $0.relays.begin(path) })
            else { return stream.refuse() }
            guard let onward = next.driver.openStream(.relay, RelayName.from(link.peer).streamName, with: target) else {
                state.withLock { $0.relays.end(path) }
                return stream.refuse()
            }
            node.start { [self] in
                await Self.relayBytes(between: stream, and: onward)
                state.withLock { $0.relays.end(path) }
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

    /// Moves bytes both ways; each direction waits for its reader. Where one of the streams is lost, what has arrived on it is still
    /// passed on; the far end sees by the encryption whether it is all.
    private static func relayBytes(between one: ByteStream, and other: ByteStream) async {
        await withDiscardingTaskGroup { group in
            for (source, target) in [(one, other), (other, one)] {
                group.addTask {
                    do {
                        for try await bytes in source { try await target.write(bytes) }
                    } catch {
                        // The other direction sees it too, and ends.
                    }
                    target.finish()
                }
            }
        }
    }
}
