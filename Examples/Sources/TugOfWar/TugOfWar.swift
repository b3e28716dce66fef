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
            print("press Enter to pull for \(team), Control-D to leave")
            await withTaskGroup { group in
                group.addTask { await showPlayers(of: session) }
                group.addTask { await watch(pulls, positions, in: session, as: node.id) }
                await pull(for: team, on: pulls, enterKeys())
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

func pull(for team: String, on pulls: Session.Channel<Pull>, _ lines: AsyncStream<Void>) async {
    for await _ in lines {
        do {
            try await pulls.send(Pull(team: team, strength: .random(in: 1...3)))
        } catch {
            print("nobody else has a hand on the rope: \(error)")
        }
    }
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

func referee(_ session: Session, _ own: PeerID) -> PeerID { session.members.map(\.id).reduce(own, min) }

func watch(_ pulls: Session.Channel<Pull>, _ positions: Session.Channel<Position>, in session: Session, as own: PeerID) async {
    await withTaskGroup { group in
        group.addTask {
            var rope = Rope()
            for await (pull, _) in pulls where referee(session, own) == own {
                rope.apply(pull)
                print(rope.picture)
                let position = Position(position: rope.position, winner: rope.winner)
                _ = try? await positions.send(position, mode: position.winner == nil ? .unreliable : .reliable)
                if let winner = rope.winner { print("\(winner) has won") }
            }
        }
        group.addTask {
            // Only the referee is believed.
            for await (position, sender) in positions where sender == referee(session, own) {
                print("the rope is at \(position.position)")
                if let winner = position.winner { print("\(TerminalText.escaped(winner)) has won") }
            }
        }
    }
}
