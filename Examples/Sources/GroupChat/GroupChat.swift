import Dispatch
import Nearshare

/// A group chat on one network.
///
///     GroupChat              waits for an invitation
///     GroupChat anna ben     creates a session, and invites anna and ben
@main struct GroupChat {
    static func main() async throws {
        let names = Array(CommandLine.arguments.dropFirst())
        let machine = try LocalMachine()
        try await machine.run { node in
            let listener = try node.listen(as: ServiceType("group-chat"))
            let session = try await names.isEmpty ? join(listener) : node.startSession()
            await withTaskGroup { group in
                group.addTask { await show(session) }
                group.addTask { await showMessages(of: session) }
                group.addTask { await ask(session.identityQuestions) }
                for name in names {
                    do {
                        _ = try await node.invite(name, into: session, for: ServiceType("group-chat"))
                    } catch {
                        print("\(name) did not join: \(error)")
                    }
                }
                for await line in lines() {
                    do { try await session.send(SessionMessage(text: line)) } catch { print(error) }
                }
                await session.leave()  // Ends the sequences that the tasks read, and so the tasks.
            }
        }
    }

    static func join(_ listener: Listener) async throws -> Session {
        print("waiting for an invitation on port \(listener.port)")
        for await invitation in listener.sessionInvitations {
            let code = await invitation.shortCode ?? "not agreed on"
            print("\(invitation.peer.name) invites, short code \(code). Join (y/n)?")
            if readLine() == "y" { return try invitation.accept() }
        }
        throw SessionError.cancelled
    }

    /// Answers the questions about short codes: the inviting user compares the code; members vouch for the peers they invited.
    static func ask(_ questions: AsyncStream<IdentityQuestion>) async {
        for await question in questions {
            print("does \(question.check.peer.name) see the short code \(question.check.shortCode) (y/n)?")
            question.answer(isSame: readLine() == "y")
        }
    }

    static func show(_ session: Session) async {
        for await change in session.changes {
            switch change {
            case .joined(let member): print("* \(member.name) joined")
            case .slow(let id): print("* \(id) does not read its messages")
            case .metadata(let id, let value):
                if let value { print("* \(id) says about itself: \(TerminalText.escaped("\(value)"))") }
            case .restarted(let id, let lost): print("* \(id) restarted; \(lost) messages to it are lost")
            case .left(let id, let lost): print("* \(id) left; \(lost) messages to it are lost")
            case .state(let id, let state): print("* \(id): \(state)")
            }
        }
    }

    static func showMessages(of session: Session) async {
        for await received in session.messages {
            let name = session.members.first { $0.id == received.sender }?.name.description ?? "\(received.sender)"
            print("\(name): \(TerminalText.escaped(received.message.text ?? "(no text)"))")
        }
    }

    /// Waiting for a line blocks, so it has its own thread.
    static func lines() -> AsyncStream<String> {
        AsyncStream { continuation in
            DispatchQueue(label: "standard input").async {
                while let line = readLine() { continuation.yield(line) }
                continuation.finish()
            }
        }
    }
}
