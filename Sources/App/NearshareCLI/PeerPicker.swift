internal import Nearshare

/// A live list of who is nearby, to pick from with the arrow keys.
enum PeerPicker {
    static func pick(
        on node: Node, _ media: Set<LinkAddress.Medium>, knowing book: TrustStore
    ) async throws -> SendOperation.Target {
        guard let terminal = TerminalDevice() else {
            throw CommandFailure(.usage, "say to whom with --to; without a terminal nobody can be picked from a list")
        }
        let list = PickerList(terminal, book)
        await list.draw()
        let peer: NearbyPeer? = try await withThrowingTaskGroup(of: NearbyPeer?.self) { group in
            defer { group.cancelAll() }
            let changes = try await node.browse(media)
            group.addTask {
                for try await case .change(let change) in changes { await list.take(change) }
                return nil
            }
            group.addTask {
                for await keys in terminal.keys() {
                    switch await list.press(keys) {
                    case .goOn: break
                    case .chosen(let peer): return peer
                    case .left: return nil
                    }
                }
                return nil
            }
            return try await group.next() ?? nil
        }
        await list.clear()
        guard let peer else { throw CommandFailure(.interrupted, "nobody was picked") }
        return .peer(peer)
    }
}

private actor PickerList {
    enum Verdict: Sendable {
        case goOn
        case chosen(NearbyPeer)
        case left
    }

    private let terminal: TerminalDevice
    private let book: TrustStore
    private var peers: [PeerID: NearbyPeer] = [:]
    private var selected: PeerID?
    private var drawn = 0

    init(_ terminal: TerminalDevice, _ book: TrustStore) {
        self.terminal = terminal
        self.book = book
    }

    private var sorted: [NearbyPeer] {
        PeerTable.sorted(peers)
    }

    func take(_ change: PeerTable.Change) {
        switch change {
        case .found(let peer), .updated(let peer): peers[peer.id] = peer
        case .lost(let peer): peers[peer.id] = nil
        }
        if selected.flatMap({ peers[$0] }) == nil { selected = sorted.first?.id }
        draw()
    }

    func press(_ keys: [UInt8]) -> Verdict {
        switch keys {
        case [0x0d], [0x0a]: return selected.flatMap { peers[$0] }.map { .chosen($0) } ?? .goOn
        case [0x1b], [0x71], [0x03]: return .left
        case [0x1b, 0x5b, 0x41], [0x6b]: move(-1)
        case [0x1b, 0x5b, 0x42], [0x6a]: move(1)
        default: break
        }
        return .goOn
    }

    private func move(_ step: Int) {
        let list = sorted
        guard let index = list.firstIndex(where: { $0.id == selected }) else { return }
        selected = list[min(max(0, index + step), list.count - 1)].id
        draw()
    }

    func draw() {
        var lines = ["send to whom? (↑ ↓ and Enter, q to leave)"]
        let shown = Array(sorted.prefix(16))
        let rows = Table.lines(
            shown.map { [$0.name.shown, $0.id.hex, book.trustStatus(claiming: $0.id, named: $0.name).label] })
        for (peer, row) in zip(shown, rows) { lines.append("\(peer.id == selected ? "▸" : " ") \(row)") }
        if peers.isEmpty { lines.append("  looking…") }
        let erase = String(repeating: "\u{1b}[1A\u{1b}[2K", count: drawn)
        terminal.write(erase + lines.map { $0 + "\n" }.joined())
        drawn = lines.count
    }

    func clear() {
        terminal.write(String(repeating: "\u{1b}[1A\u{1b}[2K", count: drawn))
        drawn = 0
    }
}
