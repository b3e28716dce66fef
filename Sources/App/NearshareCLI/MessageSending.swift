internal import Nearshare
internal import NearshareBundles
internal import NearshareService

/// One message, from looking for whom it is for to what the person waits for.
struct MessageSending: Sendable {
    let mode: MessageMode
    let peer: String?
    let isEncrypted: Bool
    let isPrivate: Bool
    let file: String?
    /// nil for sent, where it is no failure when nobody takes it in time: it is kept.
    let wait: MessageCommand.Wait?
    let timeout: Duration
    /// How long a file may wait to be accepted.
    let filePatience: Duration

    /// How far it is, for whichever node is asked next when one ends.
    enum Stage: Sendable {
        case looking
        /// The node was asked to send it, and has not answered.
        case handing
        case waiting(Waiting)
    }

    /// A message that is on its way.
    struct Waiting: Sendable {
        let id: String
        /// Of whom it is for, as people read it.
        let name: String
        let end: MonotonicInstant
    }

    /// Sends a message and waits as long as the person wants to, from the stage on that it has come to.
    func run(_ stage: Monitor<Stage>, _ value: StructuredValue, through door: any NodeClient) async throws {
        switch stage.withLock({ $0 }) {
        case .looking: try await send(value, stage, through: door)
        case .handing:
            throw CommandFailure(
                .failure, "the node has ended just when it was given the message, which may or may not go; send it again")
        case .waiting(let waiting):
            let events = try await door.events()
            guard case .waits(true) = try await door.ask(.waits(waiting.id)) else {
                // Taken out of the store by its acknowledgement, while nobody listened.
                return Console.say("delivered to \(waiting.name)")
            }
            try await awaitState(of: waiting, events)
        }
    }

    private func send(_ value: StructuredValue, _ stage: Monitor<Stage>, through door: any NodeClient) async throws {
        let content: [UInt8]
        do {
            content = try BundleContent.structured(value).encoded()
        } catch {
            throw CommandFailure(.usage, error.description)
        }
        let events = try await door.events()
        let fileEvents = file == nil ? nil : try await door.events()
        let receiver = try await peer.asyncMap { try await find($0, through: door) }
        let order = MessageOrder(
            content: content, mode: mode.rawValue, receiver: receiver?.id, isEncrypted: isEncrypted, isPrivate: isPrivate,
            file: file, timeout: filePatience.inSeconds)
        stage.withLock { $0 = .handing }
        let id = try await door.order(.message(order))
        Console.result(id)
        let waiting = Waiting(id: id, name: receiver?.name.shown ?? "everybody", end: SystemClock.monotonic() + timeout)
        if wait != MessageCommand.Wait.none {
            stage.withLock { $0 = .waiting(waiting) }
            try await awaitState(of: waiting, events)
        }
        // It goes no longer than this process, which may be the node.
        if let fileEvents { try await awaitFile(beside: id, to: waiting.name, fileEvents) }
    }

    private func awaitState(of waiting: Waiting, _ events: AsyncStream<ControlEvent>) async throws {
        let isReached = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await follow(waiting, events)
                return true
            }
            group.addTask {
                try await Task.sleep(for: waiting.end - SystemClock.monotonic())
                return false
            }
            defer { group.cancelAll() }
            return try await group.next() ?? false
        }
        if isReached { return }
        guard mode != .direct else {
            throw CommandFailure(
                .timedOut, "\(waiting.name) has not answered, and it is not kept; come closer, or send it by mesh")
        }
        switch wait {
        case .delivered?:
            throw CommandFailure(
                .timedOut,
                "\(waiting.name) has not acknowledged it yet; it is kept, and delivered while a node runs (`nearshare mesh run`)"
            )
        case .sent?:
            throw CommandFailure(
                .timedOut, "nobody has taken it yet; it is kept, and goes when somebody is near (`nearshare mesh run`)")
        case MessageCommand.Wait.none?, nil:
            Console.say("nobody is near who could take it; it is kept, and goes when somebody is (`nearshare mesh run`)")
        }
    }

    /// Returns once it is as far as the person waits for.
    private func follow(_ waiting: Waiting, _ events: AsyncStream<ControlEvent>) async throws {
        for await event in events {
            guard case .messageChanged(waiting.id, let state, let detail) = event else { continue }
            switch state {
            case .failed: throw CommandFailure(.failure, "it won't reach \(waiting.name): \(detail ?? "no reason is known")")
            case .sent where wait == .delivered: Console.say("sent; waiting for \(waiting.name)…")
            case .sent, .delivered:
                return Console.say(state == .sent ? "sent" : "delivered to \(waiting.name)")
            }
        }
        guard mode != .direct else {
            throw CommandFailure(.failure, "the node has ended, and the message is not kept; send it again")
        }
        throw ControlFailure(.gone, "the node has ended; the message is kept, and goes when one runs again")
    }

    private func awaitFile(beside id: String, to name: String, _ events: AsyncStream<ControlEvent>) async throws {
        var isTold = false
        for await case .transfer(let line) in events where line.id == id {
            let file = TerminalText.escaped(line.name)
            guard let outcome = line.outcome else {
                if !isTold {
                    Console.say("waiting until \(name) takes \(file)\(line.detail.map { ", which takes \($0)" } ?? "")…")
                }
                isTold = true
                continue
            }
            let status = ExitStatus(outcome: outcome)
            guard status == .ok else { throw CommandFailure(status, "\(file) has not been sent: \(line.detail ?? outcome)") }
            return Console.say("\(name) has \(file)")
        }
        throw CommandFailure(.peerGone, "the node has ended before the file was sent; send it again")
    }

    private func find(_ text: String, through door: any NodeClient) async throws -> Person {
        Console.say("looking for \(TerminalText.escaped(text))…")
        guard case .people(let people) = try await door.ask(.find(text, seconds: timeout.inSeconds)), let person = people.first
        else { throw CommandFailure(.peerNotFound, "\(TerminalText.escaped(text)) is not known here, and not near") }
        guard mode == .direct, !person.isNear else { return person }
        // Known from before; whoever is in range shows up soon.
        return try await nearby(person, through: door)
    }

    private func nearby(_ person: Person, through door: any NodeClient) async throws -> Person {
        let end = SystemClock.monotonic() + timeout
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
