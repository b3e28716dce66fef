import Nearshare

/// The new lines of `docs/MIGRATING-FROM-MULTIPEER.md`, run: two programs on one machine meet in every way of that page, and send
/// each other messages, a stream and a file.
///
///     Ported              ends with "ported", or an error
@main struct Ported {
    struct Move: Codable, Sendable {
        var from: Int
        var to: Int
    }

    static func main() async throws {
        let machines = (try LocalMachine(identity: .ephemeral), try LocalMachine(identity: .ephemeral))
        try await machines.0.run(as: DisplayName("attic"), interface: "lo") { attic in
            try await machines.1.run(as: DisplayName("anna"), interface: "lo") { node in
                let listener = try node.listen(as: ServiceType("my-chat"), info: ["room": "attic"])
                let ours = try await meetByInvitation(attic, node, listener, inbox: machines.1.inbox("ported-inbox"))
                try await meetByPolicy(attic, node, listener, ours)
                listener.stopAdvertising()
                try await meetInRoom(attic, node)
            }
        }
        print("ported")
    }

    /// The answer of a user. Both programs are this one, so the codes are the same.
    static func ask(_ question: String) async -> Bool {
        print(question)
        return true
    }

    // MARK: Browser, advertiser, session

    /// - Returns: the fingerprints of the peers that were met.
    static func meetByInvitation(
        _ attic: Node, _ node: Node, _ listener: Listener, inbox: Inbox
    ) async throws -> [Fingerprint] {
        let bytes: [UInt8] = Array("my-chat".utf8)
        let invited = Task {
            for await invitation in listener.sessionInvitations where invitation.context == bytes {
                let session = try invitation.accept()
                return session
            }
            throw SessionError.cancelled
        }
        let (session, anna) = try await invite(from: attic, context: bytes)
        let other = try await invited.value
        try await other.waitUntilConnected(to: attic.id)
        let receiving = Task { try await receive(in: other, into: inbox) }
        try await exchange(in: session, with: anna, bytes)
        try await receiving.value
        let ours = session.members.map(\.fingerprint)
        await session.leave()
        await other.leave()
        return ours
    }

    static func invite(from node: Node, context bytes: [UInt8]) async throws -> (Session, PeerID) {
        let session = try node.startSession()
        let questions = Task {
            for await question in session.identityQuestions {
                question.answer(isSame: await ask("does \(question.check.peer.name) see \(question.check.shortCode)?"))
            }
            // a no holds as long as the session: the same key causes no further question
        }
        defer { questions.cancel() }
        for try await case .found(let peer) in try await node.browse(for: ServiceType("my-chat"))
        where peer.info["room"] == "attic" {
            do {
                let anna = try await session.invite(peer.destination, context: bytes)
                return (session, anna)
            } catch SessionError.declined { print("declined") } catch SessionError.timedOut { print("no answer") }
        }
        throw SessionError.cancelled
    }

    static func exchange(in session: Session, with anna: PeerID, _ bytes: [UInt8]) async throws {
        let (reading, move) = (["celsius": 21.5], Move(from: 12, to: 28))
        try await session.send(SessionMessage(bytes: bytes))
        try await session.send(SessionMessage(bytes: bytes), to: [anna], mode: .unreliable)
        try await session.send(SessionMessage(encoding: reading))
        try await session.channel(Move.self, named: "moves").send(move)

        let stream = try await session.openStream(named: "temperature", to: anna)
        try await stream.write(bytes)
        stream.finish()
        for try await bytes in stream { print("anna has written \(bytes.count) bytes") }

        let transfer = try await session.sendResource(at: "photo.jpg", to: [anna])[anna]!
        for await progress in transfer.progress { print(progress.done, progress.total ?? 0, progress.rate ?? 0) }
        let result = await transfer.result
        guard result.outcome == .completed else { throw SessionError.unavailable("not sent: \(result.outcome)") }
        // No effect on one that has ended.
        transfer.cancel()
    }

    /// Reads what ``exchange(in:with:_:)`` sends.
    static func receive(in session: Session, into inbox: Inbox) async throws {
        let moves = try session.channel(Move.self, named: "moves")
        // The bytes may arrive a second time, as the datagram.
        for await received in session.messages {
            if let reading = try? received.message.decode([String: Double].self), reading["celsius"] == 21.5 { break }
        }
        guard await moves.first(where: { _ in true })?.value.to == 28 else { throw SessionError.cancelled }
        for await stream in session.streams {
            for try await bytes in stream { try await stream.write(bytes) }
            stream.finish()
            break
        }
        for await invitation in session.resources {
            print(await (try invitation.accept(into: inbox)).result.delivered.map(\.path))
            break
        }
    }

    // MARK: Policies

    static func meetByPolicy(_ attic: Node, _ node: Node, _ listener: Listener, _ ours: [Fingerprint]) async throws {
        var settings = SessionSettings()
        settings.trust = .verifiedKeys
        settings.trust = TrustPolicy { check in ours.contains(check.peer.fingerprint) }
        let session = try await start(attic, settings)
        let secret = Task {
            for await session in try listener.sessions(.secret(Array("said in the room".utf8))) { return session }
            throw SessionError.cancelled
        }
        let anna = try await attic.invite(
            "anna", into: session, for: ServiceType("my-chat"), secret: Array("said in the room".utf8))
        guard anna == node.id else { throw SessionError.cancelled }
        await (try secret.value).leave()
        await session.leave()
    }

    /// Other ways, which this program does not need.
    static func answer(_ listener: Listener, room: [UInt8]) async throws {
        for await session in try listener.sessions(.friends) { await session.leave() }
        for await session in try listener.sessions(InvitationPolicy { $0.context == room }) { await session.leave() }
        for await invitation in listener.sessionInvitations {
            guard invitation.peer.trustStatus.isFriend else { continue }
            let session = try invitation.accept()
            await session.leave()
        }
    }

    static func start(_ node: Node, _ settings: SessionSettings) async throws -> Session {
        let session = try node.startSession(settings)
        return session
    }

    /// By name, in one step.
    static func inviteByName(_ node: Node, _ session: Session) async throws -> PeerID {
        let anna = try await node.invite("anna", into: session, for: ServiceType("my-chat"))
        return anna
    }

    // MARK: Advertiser and browser at once

    static func meetInRoom(_ attic: Node, _ node: Node) async throws {
        let other = try attic.join("attic", for: ServiceType("my-chat"), admission: .secret("said in the room"))
        let session = try node.join("attic", for: ServiceType("my-chat"), admission: .secret("said in the room"))
        for await case .joined(let member) in session.changes {
            print("\(member.name) is in the room")
            break
        }
        let host = session.members.filter(\.state.isConnected).map(\.id).reduce(node.id, min)
        if host == node.id { print("this node is the host") }
        await session.leave()
        await other.leave()
    }
}
