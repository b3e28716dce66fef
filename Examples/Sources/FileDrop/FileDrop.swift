import Nearshare

/// Sends files to a machine nearby. It is compatible with the `nearshare` tool.
///
///     FileDrop --into inbox                  waits for files
///     FileDrop [--to anna] photo.jpg trip    to anna, or to the first peer found
@main struct FileDrop {
    static func main() async throws {
        var words = Array(CommandLine.arguments.dropFirst())
        let option = words.first?.hasPrefix("--") == true && words.count > 1 ? words.removeFirst() : nil
        let value = option.map { _ in words.removeFirst() }
        let machine = try LocalMachine()
        try await machine.run { [words] node in
            if option == "--into" {
                try await receive(into: machine.inbox(value), on: node)
            } else {
                try await send(words, to: value, from: node)
            }
        }
    }

    static func receive(into inbox: Inbox, on node: Node) async throws {
        let listener = try node.listen()
        print("waiting for files as \(node.name)")
        for await invitation in listener.invitations {
            let names = invitation.offer.items.map(\.name.description).joined(separator: ", ")
            let code = await invitation.shortCode ?? "not agreed on"
            print("\(invitation.peer.name) offers \(names); short code \(code). Accept it (y/n)?")
            guard readLine() == "y" else { continue }  // A released invitation is declined.
            let result = await (try invitation.accept(into: inbox)).result
            print(result.outcome == .completed ? result.delivered.map(\.path) : "not received: \(result.outcome)")
        }
    }

    static func send(_ paths: [String], to name: String?, from node: Node) async throws {
        for try await case .found(let peer) in try await node.browse()
        where name == nil || name == peer.name.claimed {
            return try await node.withConnection(to: peer.destination) { connection in
                // Any peer can claim a name. Its key, which this link has proven, may be known.
                let key =
                    switch connection.trustStatus {
                    case .known(.verified, _): "a verified key"
                    case .known: "a known key"
                    case .new: "a new key"
                    case .nameClash: "another key than the peer that is known by this name"
                    }
                let code = try await connection.shortCode
                print("\(peer.name) has \(key); its screen will show the short code \(code). Send (y/n)?")
                guard readLine() == "y" else { return }
                let transfer = try connection.send(paths: paths)
                for await progress in transfer.progress { print("\(progress.done) of \(progress.total ?? 0) bytes") }
                print(await transfer.result.outcome)
            }
        }
    }
}
