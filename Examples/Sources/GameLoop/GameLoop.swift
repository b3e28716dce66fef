import Nearshare
import Synchronization

/// A game at 60 frames a second, of any number of players on one network. Each frame sends the player's state to all others
/// without waiting: a state that is lost is replaced by the next one.
///
///     GameLoop attic 16 10        plays in the room called attic for 10 seconds, once 16 players are there
@main struct GameLoop {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let count = Int(arguments[2]), let seconds = Int(arguments[3]) else {
            return print("GameLoop ROOM PLAYERS SECONDS, such as: GameLoop attic 16 10")
        }
        var settings = SessionSettings()
        settings.memberLimit = count
        // Packets take the direct way to each player, also in a large session.
        settings.topology = .mesh
        // All players may be on one machine.
        var limits = NodeLimits()
        limits.linksPerAddress = 2 * count
        try await LocalMachine(identity: .ephemeral).run(limits: limits) { [settings] node in
            let session = try node.join(arguments[1], for: try ServiceType("game-loop"), admission: .open, settings: settings)
            await waitForPlayers(count - 1, in: session)
            try await play(in: session, frames: seconds * framesPerSecond)
        }
    }

    static let framesPerSecond = 60

    static func waitForPlayers(_ count: Int, in session: Session) async {
        var changes = session.changes.makeAsyncIterator()
        while session.members.count(where: { $0.state == .connected(via: nil) }) < count {
            guard await changes.next() != nil else { return }
        }
    }

    static func play(in session: Session, frames: Int) async throws {
        let channel = try session.channel(Player.self, named: "players")
        let arena = Arena()
        try await withThrowingTaskGroup { group in
            group.addTask { for await (player, sender) in channel { arena.update(sender, to: player) } }
            var player = Player(frame: 0, x: 0, y: 0)
            var latest = Duration.zero
            let start = ContinuousClock.now
            for frame in 1...max(frames, 1) {
                let due = start + .seconds(frame) / framesPerSecond
                try await Task.sleep(until: due, clock: .continuous)
                latest = max(latest, .now - due)
                player.move(to: frame)
                // A real game would draw the others here: `arena.players`.
                if !session.members.isEmpty { try await channel.send(player, mode: .unreliable) }
            }
            // The others may be some frames behind.
            try await Task.sleep(for: .seconds(1))
            group.cancelAll()
            let (received, missed) = arena.counts
            print("\(arena.players.count) other players, \(received) states, \(missed) missed, latest frame \(latest) late")
        }
        await session.leave()
    }
}

/// The content of a frame, for the other players.
struct Player: Codable, Sendable {
    var frame: Int
    var x: Double
    var y: Double

    mutating func move(to frame: Int) {
        self.frame = frame
        x += 0.5
        y += frame.isMultiple(of: 2) ? 0.25 : -0.25
    }
}

/// The other players, as far as they are known. The task that receives changes them, and the one that draws reads them.
final class Arena: Sendable {
    private struct State {
        var players: [PeerID: Player] = [:]
        var receivedCount = 0
        var missedCount = 0
    }

    private let state = Mutex(State())

    var players: [PeerID: Player] { state.withLock { $0.players } }
    var counts: (received: Int, missed: Int) { state.withLock { ($0.receivedCount, $0.missedCount) } }

    func update(_ id: PeerID, to player: Player) {
        state.withLock { state in
            let last = state.players[id]?.frame
            // Packets can overtake each other: only the newest state counts.
            guard player.frame > last ?? 0 else { return }
            state.players[id] = player
            state.receivedCount += 1
            if let last { state.missedCount += player.frame - last - 1 }
        }
    }
}
