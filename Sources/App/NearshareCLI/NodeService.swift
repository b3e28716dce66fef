internal import Glibc
internal import Nearshare
internal import NearshareBundles
internal import NearshareService
internal import Synchronization

/// The door of the node in this process: what commands ask, answered by its ``Messenger`` and the person's files.
final class NodeService: NodeClient {
    /// What the node was started with, as ``NodeStatus`` tells it.
    struct Facts: Sendable {
        var isStanding: Bool
        /// It leaves its place to another process that asks for it.
        var handsOver = false
        var port: UInt16
        var inbox: String
        var started: MonotonicInstant
        /// As the person has named it; nil for none of their own.
        var profileName: String?
    }

    private let machine: LocalMachine
    private let node: Node
    private let messenger: Messenger
    /// From the first moment on, so that nothing that comes is told to nobody.
    private let happenings: AsyncStream<MessengerEvent>
    private let people: PeopleDirectory
    private let facts: Facts
    /// What is to be said of it.
    private let bluetooth = Mutex("not there yet")
    private let followers: Broadcast<ControlEvent>
    private let observe: @Sendable (ControlEvent) -> Void
    /// Yields once when another process is to take this one's place.
    let handOverRequests: AsyncStream<Void>
    private let handOverContinuation: AsyncStream<Void>.Continuation
    /// Files that are on their way, to be followed.
    private let transfers: AsyncStream<(line: TransferLine, transfer: Transfer)>
    private let transferContinuation: AsyncStream<(line: TransferLine, transfer: Transfer)>.Continuation

    /// Somebody is heard of a moment before messages can be handed to them.
    private static let linkTime = Duration.seconds(3)
    private static let maximumLimit = 1_000

    /// - Parameters:
    ///   - followers: receive all events.
    ///   - observe: receives them first, in this process.
    init(
        _ machine: LocalMachine, _ node: Node, _ messenger: Messenger, _ facts: Facts, followers: Broadcast<ControlEvent>,
        observe: @escaping @Sendable (ControlEvent) -> Void = { _ in }
    ) {
        self.followers = followers
        self.observe = observe
        (handOverRequests, handOverContinuation) = AsyncStream.makeStream()
        self.machine = machine
        self.node = node
        self.messenger = messenger
        happenings = messenger.events()
        self.facts = facts
        people = PeopleDirectory(machine, messenger)
        (transfers, transferContinuation) = AsyncStream.makeStream()
    }

    // MARK: Events

    /// Tells what happens in the messenger, until the node shuts down.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                await withDiscardingTaskGroup { following in
                    for await (line, transfer) in self.transfers {
                        following.addTask { await self.follow(line, transfer) }
                    }
                }
            }
            for await event in happenings { await take(event) }
            transferContinuation.finish()
        }
        followers.finish()
        handOverContinuation.finish()
    }

    func tell(_ event: ControlEvent) {
        observe(event)
        followers.publish(event)
    }

    func note(bluetooth: String) {
        self.bluetooth.withLock { $0 = bluetooth }
    }

    private func take(_ event: MessengerEvent) async {
        switch event {
        case .changed(let id, .sent): tell(.messageChanged(id: id.hex, state: .sent, detail: nil))
        case .changed(let id, .delivered): tell(.messageChanged(id: id.hex, state: .delivered, detail: nil))
        case .changed(let id, .failed(let why)): tell(.messageChanged(id: id.hex, state: .failed, detail: why))
        case .arrived(let arrival): tell(.arrived(Arrival(arrival, senderName: try? people.look().senderName(of: arrival))))
        case .entry(let entry): tell(.entry(entry))
        case .marked(let entry, let reason):
            tell(.marked(id: entry.id, conversation: entry.conversation, mark: entry.status, reason: reason))
        case .peerChanged(let id):
            do {
                try people.meet(id)
                tell(.people(try await people.all()))
            } catch {
                tell(.notice("\(error)"))
            }
        }
    }

    private func follow(_ line: TransferLine, _ transfer: Transfer) async {
        var line = line
        for await progress in transfer.progress {
            (line.done, line.total) = (progress.done, progress.total)
            tell(.transfer(line))
        }
        let result = await transfer.result
        line.outcome = result.outcome.word
        let name = (try? people.look().person(line.peer).name.shown) ?? line.peer.hex
        line.detail = result.detail ?? result.outcome.sentence(name)
        tell(.transfer(line))
    }

    func events() async -> AsyncStream<ControlEvent> { followers.subscribe() }

    // MARK: Requests

    func ask(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        do {
            return try await answer(request)
        } catch {
            throw ControlFailure(error)
        }
    }

    private func answer(_ request: ControlRequest) async throws -> ControlReply {
        switch request {
        case .status: return .status(try status())
        case .people: return .people(try await people.all())
        case .find(let text, let seconds): return .people([try await find(text, seconds)])
        case .message(let order): return .accepted(try await send(order))
        case .waits(let id):
            guard let id = BundleID(hex: id) else { return .waits(false) }
            return .waits(await messenger.waits(id))
        case .arrivals(let number, let limit):
            let arrivals = try await messenger.arrivals(after: number, limit: min(max(limit, 0), Self.maximumLimit))
            // Without the names they can still be read.
            let people = try? people.look()
            return .arrivals(arrivals.map { Arrival($0, senderName: people?.senderName(of: $0)) })
        case .say(let text, let conversation): return .accepted(try await messenger.say(text, in: conversation).id)
        case .conversations: return .conversations(try await messenger.conversations())
        case .history(let conversation, let number, let limit):
            return .entries(
                try await messenger.history(
                    of: conversation, before: number, limit: min(max(limit, 0), Self.maximumLimit)))
        case .markRead(let conversation):
            try await messenger.markRead(conversation)
            return .done
        case .sendFile(let path, let peer, let seconds):
            let source = try FileSource(paths: [path])
            try refuseTooLarge(source, to: peer)
            let transfer = try messenger.send(source, to: peer, timeout: Self.timeout(seconds))
            follow(transfer, source, to: peer, as: transfer.id.hex)
            return .accepted(transfer.id.hex)
        case .follow: return .done
        case .handOver:
            guard facts.handsOver else { throw ControlFailure(.refused, "this node does not leave its place to another one") }
            handOverContinuation.yield()
            return .done
        case .stop:
            node.beginShutdown()
            return .done
        }
    }

    private func follow(_ transfer: Transfer, _ source: FileSource, to peer: PeerID, as id: String) {
        let name = source.offer.items.first.map { String(decoding: $0.name.bytes, as: UTF8.self) } ?? ""
        let size = source.offer.totalSize
        let line = TransferLine(
            id: id, isIncoming: false, peer: peer, name: name, done: 0, total: size,
            detail: size.flatMap { remark(onSending: $0, to: peer) })
        transferContinuation.yield((line, transfer))
    }

    private static func timeout(_ seconds: Double?) -> Duration {
        .milliseconds(Int64(min(max(seconds ?? 60, 0.1), 600) * 1_000))
    }

    private func refuseTooLarge(_ source: FileSource, to peer: PeerID) throws {
        guard let size = source.offer.totalSize, let item = source.offer.items.first, item.kind != .folder,
            let limit = messenger.peers.first(where: { $0.id == peer })?.software.contentLimit, size > limit
        else { return }
        let (file, name) = (item.name.shown, try people.look().person(peer).name.shown)
        throw ControlFailure(
            .tooLarge,
            "\(file) has \(size.asByteCount), and the mesh carries at most \(UInt64(limit).asByteCount) to \(name); "
                // Never a name that somebody else has chosen, in what is to be copied to a shell.
                + "`nearshare send FILE --to \(peer.hex)` sends it directly")
    }

    /// What a person should know of a file before they wait for it.
    private func remark(onSending byteCount: UInt64, to peer: PeerID) -> String? {
        guard let (time, needsRadio) = messenger.estimate(byteCount: byteCount, to: peer), time >= .seconds(2) else {
            return nil
        }
        let limit = UInt64(MessageRule.recommendedRadioFileByteCount)
        let advice =
            needsRadio && byteCount > limit ? ", as it goes over Bluetooth; up to \(limit.asByteCount) is best there" : ""
        return "\(time.asClock) at least\(advice)"
    }

    private func find(_ text: String, _ seconds: Double) async throws -> Person {
        // Nobody waits for somebody who would not be talked with.
        if try await people.known(text) == nil, let person = try people.remembered(text), person.trustStatus == "blocked" {
            throw blocked(person)
        }
        do {
            let person = try await people.find(text, timeout: .milliseconds(Int64(min(max(seconds, 0), 600) * 1_000)))
            guard person.trustStatus != "blocked" else { throw blocked(person) }
            return person
        } catch PeerLookupError.notFound(let text, let nearby) {
            if let person = try people.remembered(text) {
                throw ControlFailure(
                    .peerNotFound,
                    "\(person.name.shown) (\(person.id)) is known here as \(person.trustStatus), but is not near, and the keys that "
                        + "messages are sealed with are missing; let `nearshare mesh run` run at both while you are near each "
                        + "other, or `nearshare keys import` theirs")
            }
            guard nearby.isEmpty else { throw PeerLookupError.notFound(text, nearby: nearby) }
            throw ControlFailure(
                .peerNotFound,
                "\(TerminalText.escaped(text)) is not known here, and nobody is near; let `nearshare mesh run` run there, or "
                    + "`nearshare keys import` the keys of somebody who is away")
        }
    }

    private func blocked(_ person: Person) -> ControlFailure {
        ControlFailure(
            .blocked, "\(person.name.shown) is blocked here; `nearshare peers unblock \(person.id.hex)` lifts that")
    }

    private func send(_ order: MessageOrder) async throws -> String {
        guard let mode = MessageMode(rawValue: order.mode) else {
            throw ControlFailure(.refused, "there is no mode \(TerminalText.escaped(order.mode))")
        }
        guard case .structured(let content) = try BundleContent(decoding: order.content[...]) else {
            throw ControlFailure(.refused, "this node doesn't know that kind of message; update it")
        }
        let route = try MessageRoute(mode, to: order.receiver)
        if let path = order.file {
            // Checked before the file is opened.
            guard case .direct(let peer) = route else { throw MessageRule.fileNeedsDirectMode(mode) }
            let source = try FileSource(paths: [path])
            let (id, transfer) = try await whenInRange { () throws(MessengerError) in
                try self.messenger.send(
                    content, with: source, to: peer, isEncrypted: order.isEncrypted, timeout: Self.timeout(order.timeout))
            }
            follow(transfer, source, to: peer, as: id.hex)
            return id.hex
        }
        return try await whenInRange { () throws(MessengerError) in
            try self.messenger.send(content, using: route, isEncrypted: order.isEncrypted, isPrivate: order.isPrivate)
        }.hex
    }

    /// Who has just been found may not be linked yet.
    private func whenInRange<Result>(_ body: () throws(MessengerError) -> Result) async throws -> Result {
        let end = SystemClock.monotonic() + Self.linkTime
        while true {
            do throws(MessengerError) {
                return try body()
            } catch {
                switch error {
                // Their keys come a moment after their name.
                case .rule(.receiverNotInRange), .rule(.receiverKeyUnknown), .rule(.receiverTakesNone): break
                default: throw error
                }
                guard SystemClock.monotonic() < end else { throw error }
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    private func status() throws -> NodeStatus {
        let profile = messenger.settings.profile
        let people = try people.look()
        let neighbours = messenger.peers.map { peer in
            NodeStatus.Neighbour(person: people.person(peer.id), isDirect: peer.isDirect)
        }
        return NodeStatus(
            id: node.id, name: node.name, process: getpid(),
            uptime: Int((SystemClock.monotonic() - facts.started).components.seconds), isStanding: facts.isStanding,
            profile: NodeStatus.Profile(
                name: profile.name ?? facts.profileName, hopLimit: profile.hopLimit, timeToLive: profile.timeToLive,
                sharingTime: profile.sharingTime, maximumPropagation: profile.maximumPropagation,
                tracklistLimit: profile.tracklistLimit),
            port: facts.port, neighbours: neighbours.sorted { $0.person.name.claimed < $1.person.name.claimed },
            carriedCount: messenger.carriedCount, sessionLifetime: Int(node.sessionLifetime.components.seconds),
            secureSessions: messenger.secureSessions, bluetooth: bluetooth.withLock { $0 }, inbox: facts.inbox)
    }
}

extension ControlFailure {
    /// What any of the layers below has thrown.
    init(_ error: any Error) {
        switch error {
        case let failure as ControlFailure: self = failure
        case let error as MessengerError:
            switch error {
            case .storage: self.init(.storage, error.description)
            case .rule(let rule): self.init(rule)
            case .file: self.init(.unavailable, error.description)
            case .nothingToSay, .tooLong: self.init(.refused, error.description)
            }
        case let rule as MessageRule:
            switch rule {
            // It is nobody's mistake that they aren't there.
            case .receiverNotInRange, .receiverKeyUnknown, .receiverTakesNone: self.init(.peerNotFound, rule.description)
            default: self.init(.refused, rule.description)
            }
        case let error as PeerLookupError: self.init(.peerNotFound, error.description)
        case let error as StorageError: self.init(.storage, error.description)
        case let error as NodeError: self.init(.unavailable, error.description)
        case is CancellationError: self.init(.gone, "the node has ended in the middle; try it again")
        default: self.init(.unavailable, "\(error)")
        }
    }
}
