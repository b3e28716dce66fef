internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A list of the peers nearby, without blocked ones, that is updated while it is shown. The user picks one or several.
struct PeerPicker: Sendable {
    private let trust: TrustStore
    private var peers: [PeerID: NearbyPeer] = [:]
    private var list = PickerList<PeerID>(
        title: "send to (↑ ↓ Enter; Space marks several, letters search, Esc cancels):",
        placeholder: "looking… is `nearshare receive` running there?",
        // The id first, then the name: whether the peer is known stays visible.
        cutting: [1, 0])

    init(trust: TrustStore) {
        self.trust = trust
    }

    enum Reaction: Sendable, Hashable {
        case none
        case picked([NearbyPeer])
        case cancelled
    }

    mutating func update(_ change: NearbyPeerTable.Change) {
        switch change {
        case .found(let peer), .updated(let peer): peers[peer.id] = trust.isBlocked(peer) ? nil : peer
        case .lost(let peer): peers[peer.id] = nil
        }
        list.setItems(
            NearbyPeerTable.sorted(peers).map { peer in
                PickerList.Item(
                    id: peer.id,
                    cells: [
                        trust.shownName(claiming: peer.id, named: peer.name).shown(of: peer.id) + peer.protocolNote,
                        peer.id.hex,
                        trust.trustText(claiming: peer.id, named: peer.name),
                    ])
            })
    }

    mutating func handle(_ key: TerminalKey) -> Reaction {
        switch list.handle(key) {
        case .none: .none
        case .picked(let ids): .picked(ids.compactMap { peers[$0] })
        case .cancelled: .cancelled
        }
    }

    func lines(in size: TerminalSize) -> [String] { list.lines(in: size) }
}

extension PeerPicker {
    private enum Input: Sendable {
        case change(NearbyPeerTable.Change)
        case key(TerminalKey)
        /// The terminal is closed, or the node shuts down.
        case ended
        case failed(any Error)
    }

    /// Shows the list until the user has picked one peer at least.
    /// - Throws: ``CommandFailure`` when there is no terminal, or the user cancels.
    static func pick(
        on node: Node, _ media: Set<LinkAddress.Medium>, knowing trust: TrustStore
    ) async throws -> [SendOperation.Target] {
        guard let terminal = TerminalDevice() else {
            throw CommandFailure(.usage, "no terminal to pick a receiver on; give one with --to")
        }
        guard TerminalProperties.canMoveCursor else {
            throw CommandFailure(
                .usage,
                "this terminal cannot show a list to pick from; give a receiver with --to: `nearshare browse` lists them")
        }
        let (inputs, sink) = AsyncStream.makeStream(of: Input.self)
        let changes = try await node.browse(media)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                do {
                    for try await change in changes.compactMap(\.change) { sink.yield(.change(change)) }
                    sink.yield(.ended)
                } catch {
                    sink.yield(.failed(error))
                }
            }
            group.addTask {
                await terminal.readKeys { sink.yield(.key($0)) }
                sink.yield(.ended)
            }
            return try await PeerPicker(trust: trust).pick(from: inputs, on: terminal).map { SendOperation.Target.peer($0) }
        }
    }

    private consuming func pick(from inputs: AsyncStream<Input>, on terminal: TerminalDevice) async throws -> [NearbyPeer] {
        var block = LineBlock()
        defer { terminal.write(block.replace(with: [], columns: terminal.size.columns)) }
        var size = terminal.size
        terminal.write(block.replace(with: lines(in: size), columns: size.columns))
        for await input in inputs {
            switch input {
            case .change(let change): update(change)
            // After a return to the foreground; the shell has written below the list.
            case .key(.control("l")): block = LineBlock()
            case .key(let key):
                switch handle(key) {
                case .none: break
                case .picked(let peers): return peers
                case .cancelled: throw CommandFailure(.interrupted, "no receiver was picked")
                }
            case .ended: throw CommandFailure(.interrupted, "no receiver was picked")
            case .failed(let error): throw error
            }
            size = terminal.size
            terminal.write(block.replace(with: lines(in: size), columns: size.columns))
        }
        throw CommandFailure(.interrupted, "no receiver was picked")
    }
}
