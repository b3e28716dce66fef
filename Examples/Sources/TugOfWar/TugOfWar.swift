import Dispatch
import Nearshare

/// A pull at the rope.
struct Pull: Codable, Sendable {
    var team: String
    var strength: Int
}

/// The rope: positive is red's side.
struct Rope {
    private(set) var position = 0

    mutating func apply(_ pull: Pull) {
        // Players are untrusted: no player pulls harder than the rules allow.
        position += (pull.team == "red" ? 1 : -1) * min(max(pull.strength, 0), 3)
    }

    mutating func move(to position: Int) {
        self.position = min(max(position, -20), 20)
    }

    var winner: String? { abs(position) < 20 ? nil : position > 0 ? "red" : "blue" }

    var picture: String {
        let place = min(max(position + 20, 0), 40)
        return "blue " + String(repeating: "-", count: place) + "o" + String(repeating: "-", count: 40 - place) + " red"
    }
}

@main struct TugOfWar {
    static func main() async throws {
        let words = CommandLine.arguments.dropFirst()
        guard words.count == 2, let team = words.first, let word = words.last else {
            return print("TugOfWar TEAM WORD, such as: TugOfWar red potato")
        }
        try await LocalMachine(identity: .application("org.example.tug-of-war")).run { node in
            var settings = SessionSettings()
            settings.memberLimit = 32
            let session = try node.join(
                "rope", for: ServiceType("tug-of-war"), admission: .secret(word), settings: settings)
            let pulls = try session.channel(Pull.self, named: "pulls")
            let positions = try session.channel(Position.self, named: "positions")
            try session.setMetadata(Card(team: team))
            let (ownPulls, sink) = AsyncStream.makeStream(of: Pull.self)
            print("press Enter to pull for \(team), Control-D to leave")
            await withTaskGroup { group in
                group.addTask { await showPlayers(of: session) }
                group.addTask { await watch(pulls, ownPulls, positions, in: session, as: node.id) }
                await pull(for: team, on: pulls, sink, enterKeys())
                await session.leave()
            }
        }
    }
}

struct Card: Codable, Sendable {
    var team: String
}

func showPlayers(of session: Session) async {
    for await change in session.changes {
        switch change {
        case .joined(let member): print("\(member.name) has joined")
        case .metadata(let id, let value):
            let team = try? value?.decode(Card.self).team
            print("\(id) pulls for \(TerminalText.escaped(team ?? "nobody"))")
        case .left(let id, _): print("\(id) has left")
        default: break
        }
    }
}

func pull(
    for team: String, on pulls: Session.Channel<Pull>, _ ownPulls: AsyncStream<Pull>.Continuation, _ lines: AsyncStream<Void>
) async {
    for await _ in lines {
        let pull = Pull(team: team, strength: .random(in: 1...3))
        ownPulls.yield(pull)
        do {
            try await pulls.send(pull)
        } catch {
            print("nobody else has a hand on the rope: \(error)")
        }
    }
    ownPulls.finish()
}

/// Reading a line blocks, so it has a thread of its own.
func enterKeys() -> AsyncStream<Void> {
    AsyncStream { continuation in
        DispatchQueue(label: "standard input").async {
            while readLine() != nil { continuation.yield() }
            continuation.finish()
        }
    }
}

struct Position: Codable, Sendable {
    var position: Int
    var winner: String?
}

func referee(_ session: Session, _ own: PeerID) -> PeerID {
    session.members.filter(\.state.isConnected).map(\.id).reduce(own, min)
}

/// The rope as this player sees it.
actor Match {
    private var rope = Rope()
    private let positions: Session.Channel<Position>
    private let session: Session
    private let own: PeerID

    init(_ positions: Session.Channel<Position>, in session: Session, as own: PeerID) {
        (self.positions, self.session, self.own) = (positions, session, own)
    }

    /// Only the referee counts.
    func apply(_ pull: Pull) async {
        guard referee(session, own) == own else { return }
        rope.apply(pull)
        print(rope.picture)
        let position = Position(position: rope.position, winner: rope.winner)
        if let winner = position.winner { print("\(winner) has won") }
        _ = try? await positions.send(position, mode: position.winner == nil ? .unreliable : .reliable)
    }

    /// Only the referee is believed.
    func follow(_ position: Position, from sender: PeerID) {
        guard sender == referee(session, own) else { return }
        rope.move(to: position.position)
        print("the rope is at \(rope.position)")
        if let winner = position.winner { print("\(TerminalText.escaped(winner)) has won") }
    }
}

func watch(
    _ pulls: Session.Channel<Pull>, _ ownPulls: AsyncStream<Pull>, _ positions: Session.Channel<Position>,
    in session: Session, as own: PeerID
) async {
    let match = Match(positions, in: session, as: own)
    await withTaskGroup { group in
        group.addTask { for await pull in ownPulls { await match.apply(pull) } }
        group.addTask { for await (pull, _) in pulls { await match.apply(pull) } }
        group.addTask { for await (position, sender) in positions { await match.follow(position, from: sender) } }
    }
}
