internal import NearshareBase
public import NearshareEngine
public import NearshareInterfaces
internal import Synchronization

extension Node {
    /// Lets the user pick a peer at the terminal: peers are listed as they are found, each with a number that the user types.
    /// - Parameter service: the type that the peers advertise.
    /// - Returns: nil when the user has typed something else, or there is no terminal.
    /// - Throws: as ``browse(for:)``.
    public func pickPeer(for service: ServiceType = .nearshare) async throws -> NearbyPeer? {
        let events = try await browse(for: service)
        let list = PickerEntries()
        return try await firstResult(
            of: {
                for try await event in events {
                    for line in list.apply(event) { TerminalPrompt.shared.show(line) }
                }
                // Discovery has ended, but a listed peer can still be picked.
                _ = await Promise<Void>().value
                try Task.checkCancellation()
                return nil
            },
            {
                let line = await TerminalPrompt.shared.readLine(after: "peers nearby; type the number of one, or q:\n")
                return line.flatMap(list.peer(at:))
            })
    }
}

/// The peers of a list with numbers, which stay the same while peers come and go.
final class PickerEntries: Sendable {
    private let peers = Mutex<[(peer: NearbyPeer, isPresent: Bool)]>([])

    /// Records an event of browsing.
    /// - Returns: lines to show.
    func apply(_ event: BrowseEvent) -> [String] {
        peers.withLock { peers in
            switch event {
            case .found(let peer), .updated(let peer):
                if let index = peers.firstIndex(where: { $0.peer.id == peer.id }) {
                    let isNew = !peers[index].isPresent || peers[index].peer.name != peer.name
                    peers[index] = (peer, true)
                    return isNew ? [Self.line(index, peer)] : []
                }
                guard peers.count < Self.maximumCount else { return [] }
                peers.append((peer, true))
                return [Self.line(peers.count - 1, peer)]
            case .lost(let peer):
                guard let index = peers.firstIndex(where: { $0.peer.id == peer.id }) else { return [] }
                peers[index].isPresent = false
                return ["\(index + 1)  \(peer.name.shown) has gone"]
            case .settled:
                return peers.isEmpty ? ["no peers yet"] : []
            }
        }
    }

    /// - Parameter text: what the user has typed.
    func peer(at text: String) -> NearbyPeer? {
        peers.withLock { peers in
            guard let number = Int(text.filter { !$0.isWhitespace }), peers.indices.contains(number - 1) else { return nil }
            return peers[number - 1].isPresent ? peers[number - 1].peer : nil
        }
    }

    private static func line(_ index: Int, _ peer: NearbyPeer) -> String {
        "\(index + 1)  \(peer.name.shown)  \(peer.id.hex)"
    }

    /// Limit on listed peers: names can be invented without end.
    private static let maximumCount = 256
}
