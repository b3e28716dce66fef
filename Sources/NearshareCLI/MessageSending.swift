internal import Nearshare
internal import NearshareControl

/// One message, from looking for whom it is for to what the person waits for.
struct MessageSending: Sendable {
    let mode: MessageMode
    let peer: String?
    let isEncrypted: Bool
    let isPrivate: Bool
    let file: String?
    /// nil for sent, where it is no failure when nobody takes it in time: it is kept.
    let wait: MessageCommand.Wait?
    let patience: Duration

    func run(_ value: StructuredValue, through door: any ControlDoor) async throws {
        let content: [UInt8]
        do {
            content = try CarriedContent.structured(value).encoded()
        } catch {
            throw CommandFailure(.usage, error.description)
        }
        let events = try await door.events()
        let fileEvents = file == nil ? nil : try await door.events()
        let receiver = try await peer.asyncMap { try await find($0, through: door) }
        let order = MessageOrder(
            content: content, mode: mode.rawValue, receiver: receiver?.id, isEncrypted: isEncrypted, isPrivate: isPrivate,
            file: file)
        guard case .accepted(let id) = try await door.ask(.message(order)) else {
            throw CommandFailure(.failure, "the node answers something else than was asked; update nearshare, or end the node")
        }
        Console.result(id)
        let name = receiver?.name.shown ?? "everybody"
        if wait != MessageCommand.Wait.none { try await awaitState(of: id, to: name, events) }
        // It goes no longer than this process, which may be the node.
        if let fileEvents { try await awaitFile(beside: id, to: name, fileEvents) }
    }

    private func awaitState(of id: String, to name: String, _ events: AsyncStream<ControlEvent>) async throws {
        let reached = try await withThrowingTaskGroup(of: MessageState?.self) { group in
            group.addTask { try await follow(id, to: name, events) }
            group.addTask {
                try await Task.sleep(for: patience)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
        guard reached == nil else { return }
        guard mode != .direct else {
            throw CommandFailure(.timedOut, "\(name) has not answered, and it is not kept; come closer, or send it by mesh")
        }
        switch wait {
        case .delivered?:
            throw CommandFailure(
                .timedOut,
                "\(name) has not acknowledged it yet; it is kept, and delivered while a node runs (`nearshare mesh run`)")
        case .sent?:
            throw CommandFailure(
                .timedOut, "nobody has taken it yet; it is kept, and goes when somebody is near (`nearshare mesh run`)")
        case MessageCommand.Wait.none?, nil:
            Console.say("nobody is near who could take it; it is kept, and goes when somebody is (`nearshare mesh run`)")
        }
    }

    /// - Returns: how far it is, once that is as far as the person waits for.
    private func follow(_ id: String, to name: String, _ events: AsyncStream<ControlEvent>) async throws -> MessageState {
        for await event in events {
            guard case .messageChanged(id, let state, let detail) = event else { continue }
            switch state {
            case .failed: throw CommandFailure(.failure, "it won't reach \(name): \(detail ?? "no reason is known")")
            case .sent where wait == .delivered: Console.say("sent; waiting for \(name)…")
            case .sent, .delivered:
                Console.say(state == .sent ? "sent" : "delivered to \(name)")
                return state
            }
        }
        throw CommandFailure(.failure, "the node has ended; the message is kept, and goes when one runs again")
    }

    private func awaitFile(beside id: String, to name: String, _ events: AsyncStream<ControlEvent>) async throws {
        var remark: String?
        for await case .transfer(let line) in events where line.id == id {
            let file = TerminalText.escaped(line.name)
            guard let outcome = line.outcome else {
                if let detail = line.detail, remark == nil { Console.say("sending \(file), \(detail)") }
                remark = line.detail
                continue
            }
            let status = ExitStatus(outcome: outcome)
            guard status == .ok else { throw CommandFailure(status, "\(file) has not been sent: \(line.detail ?? outcome)") }
            return Console.say("\(name) has \(file)")
        }
        throw CommandFailure(.peerGone, "the node has ended before the file was sent; send it again")
    }

    private func find(_ text: String, through door: any ControlDoor) async throws -> Person {
        Console.say("looking for \(TerminalText.escaped(text))…")
        guard case .people(let people) = try await door.ask(.find(text, seconds: patience.inSeconds)), let person = people.first
        else { throw CommandFailure(.peerNotFound, "\(TerminalText.escaped(text)) is not known here, and not near") }
        guard mode == .direct, !person.isNear else { return person }
        // Known from before; whoever is in range shows up soon.
        return try await nearby(person, through: door)
    }

    private func nearby(_ person: Person, through door: any ControlDoor) async throws -> Person {
        let end = SystemClock.monotonic() + patience
        while SystemClock.monotonic() < end {
            if case .people(let people) = try await door.ask(.people), let found = people.first(where: { $0.id == person.id }),
                found.isNear
            {
                return found
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw CommandFailure(.peerNotFound, MessageRule.receiverNotInRange.description)
    }
}

extension Optional {
    fileprivate func asyncMap<Result>(_ body: (Wrapped) async throws -> Result) async rethrows -> Result? {
        if let self { try await body(self) } else { nil }
    }
}
