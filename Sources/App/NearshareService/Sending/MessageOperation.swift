package import Nearshare
package import NearshareBundles

/// Sends one message, from the search for the receiver to the requested delivery state. It can continue through another node.
package final class MessageOperation: Sendable {
    /// The state for which the user waits.
    package enum Goal: String, Sendable, Hashable, CaseIterable {
        /// Accepted by the node. The raw values are those of `--wait`.
        case submitted = "none"
        case sent, delivered

        /// The status of a message that has reached it.
        package var requiredStatus: MessageStatus {
            switch self {
            case .submitted: .waiting
            case .sent: .sent
            case .delivered: .delivered
            }
        }
    }

    /// The progress of the operation, from which the next node continues after one has ended.
    private enum Stage: Sendable {
        case searching
        /// The node was asked to send it, and has not replied yet.
        case submitting
        case waiting(PendingMessage)
    }

    private struct PendingMessage: Sendable {
        let id: BundleID
        /// nil for everyone.
        let receiver: Contact?
        /// The receiver's display name, escaped.
        let name: String
        let end: MonotonicInstant
    }

    private let value: StructuredValue
    private let mode: MessageMode
    private let peer: String?
    private let isEncrypted: Bool
    private let isPrivate: Bool
    private let file: String?
    private let goal: Goal?
    private let timeout: Duration
    private let fileTimeout: Duration
    private let requiresSession: Bool
    private let reporter: any Reporter
    /// Reads the known keys; nil where they cannot be read.
    private let readTrust: @Sendable () -> TrustStore?
    private let stage = Monitor(Stage.searching)
    private let hasReportedSharedName = Monitor(false)

    /// Default timeout of the search for the receiver, and then of the wait for the goal. A peer in range is found and answers
    /// within it, also over Bluetooth; a message to another peer is stored, so waiting longer gains little.
    package static let defaultTimeout = Duration.seconds(10)
    private static let namesakeTimeout = Duration.seconds(2)

    /// - Parameters:
    ///   - peer: the receiver's name, the beginning of it, or its id; nil for a broadcast.
    ///   - file: an absolute path.
    ///   - goal: nil for ``Goal/sent``, for which a timeout is not a failure because the message is stored.
    ///   - fileTimeout: timeout of the receiver's answer to the file.
    ///   - requiresSession: whether it is refused without a secure session with the receiver.
    ///   - readTrust: reads the known keys, for what is said about a receiver with the name of another peer.
    package init(
        _ value: StructuredValue, mode: MessageMode, to peer: String?, isEncrypted: Bool, isPrivate: Bool, file: String?,
        goal: Goal?, timeout: Duration, fileTimeout: Duration, requiresSession: Bool = false, reporter: any Reporter,
        readTrust: @escaping @Sendable () -> TrustStore?
    ) {
        self.requiresSession = requiresSession
        self.value = value
        self.mode = mode
        self.peer = peer
        self.isEncrypted = isEncrypted
        self.isPrivate = isPrivate
        self.file = file
        self.goal = goal
        self.timeout = timeout
        self.fileTimeout = fileTimeout
        self.reporter = reporter
        self.readTrust = readTrust
    }

    /// Sends the message and waits for the goal, from the stage that an earlier node has reached.
    package func run(through client: any NodeClient) async throws {
        switch stage.withLock({ $0 }) {
        case .searching: try await send(through: client)
        case .submitting:
            throw CommandFailure(
                .failure, "the node ended before it confirmed the message, which may or may not be sent; send it again")
        case .waiting(let message):
            let events = try await client.events()
            guard try await client.isPending(message.id) else {
                // The acknowledgement has removed it from the store.
                return reporter.report(.notice("delivered to \(message.name)"))
            }
            try await awaitGoal(of: message, events)
        }
    }

    private func send(through client: any NodeClient) async throws {
        let content = BundleContent.structured(value)
        do {
            _ = try content.encoded()
        } catch {
            throw CommandFailure(.usage, error.description)
        }
        let events = try await client.events()
        let fileEvents = file == nil ? nil : try await client.events()
        var receiver: Contact?
        if let peer { receiver = try await find(peer, through: client) }
        stage.withLock { $0 = .submitting }
        let id: BundleID
        do {
            id = try await client.sendMessage(
                MessageSubmission(
                    content: content, mode: mode, receiver: receiver?.id, isEncrypted: isEncrypted, isPrivate: isPrivate,
                    file: file, timeout: fileTimeout, requiresSession: requiresSession))
        } catch {
            // The keys that are missing may be those of a device that has a new key now.
            if let receiver, !receiver.isNear { await reportLaterNamesake(of: receiver, events) }
            throw error
        }
        reporter.report(.result(id.hex))
        let message = PendingMessage(
            id: id, receiver: receiver, name: receiver?.name.shown ?? "everyone", end: SystemClock.monotonic() + timeout)
        if goal != .submitted {
            stage.withLock { $0 = .waiting(message) }
            try await awaitGoal(of: message, events)
        }
        // The file is sent only while this process runs, which may be the node.
        if let fileEvents { try await awaitFile(beside: id, to: message.name, fileEvents) }
    }

    // MARK: Searching for the receiver

    private func find(_ name: String, through client: any NodeClient) async throws -> Contact {
        reporter.report(.notice("looking for \(TerminalText.escaped(name))…"))
        let contact = try await client.find(name, timeout: timeout)
        // An id means one peer.
        if PeerID(hex: name) == nil {
            try contact.refuseNameClash(in: readTrust())
            reportSharedName(of: contact, among: (try? await client.contacts()) ?? [])
        }
        guard mode == .direct, !contact.isNear else { return contact }
        // A known receiver that is in range appears soon.
        return try await awaitRange(of: contact, through: client)
    }

    /// Tells the user once which of several peers with the receiver's name is used (K2). A node that has just started sees the
    /// others only after the receiver, which the user knows, was found.
    private func reportSharedName(of receiver: Contact, among contacts: [Contact]) {
        guard let peer, PeerID(hex: peer) == nil else { return }
        let current = contacts.first { $0.id == receiver.id } ?? receiver
        guard let notice = SharedName.notice(for: current, among: contacts) else { return }
        let isFirst = hasReportedSharedName.withLock { hasReported in
            defer { hasReported = true }
            return !hasReported
        }
        if isFirst { reporter.report(.notice(notice)) }
    }

    /// Tells the user of a peer with the receiver's name that a node which has just started sees a moment later.
    private func reportLaterNamesake(of receiver: Contact, _ events: AsyncStream<ControlEvent>) async {
        _ = await withTimeout(Self.namesakeTimeout) { () -> Void in
            for await case .contacts(let contacts) in events where !self.hasReportedSharedName.withLock({ $0 }) {
                self.reportSharedName(of: receiver, among: contacts)
                if self.hasReportedSharedName.withLock({ $0 }) { return }
            }
        }
    }

    private func awaitRange(of contact: Contact, through client: any NodeClient) async throws -> Contact {
        let events = try await client.events()
        if let contact = try await client.contacts().first(where: { $0.id == contact.id && $0.isNear }) { return contact }
        let found = await withTimeout(timeout) { () -> Contact? in
            for await case .contacts(let contacts) in events {
                if let contact = contacts.first(where: { $0.id == contact.id && $0.isNear }) { return contact }
            }
            return nil
        }
        try Task.checkCancellation()
        guard let found = found ?? nil else { throw CommandFailure(.peerNotFound, MessageError.receiverNotInRange.description) }
        return found
    }

    // MARK: Waiting for the goal

    private func awaitGoal(of message: PendingMessage, _ events: AsyncStream<ControlEvent>) async throws {
        let isReached: Void? = try await withTimeout(message.end - SystemClock.monotonic()) {
            try await self.follow(message, events)
        }
        try Task.checkCancellation()
        guard isReached == nil else { return }
        guard mode != .direct else {
            throw CommandFailure(
                .timedOut, "\(message.name) has not answered, and the message is not kept; come closer, or send it by mesh")
        }
        switch goal {
        case .delivered?:
            throw CommandFailure(
                .timedOut,
                "\(message.name) has not acknowledged it yet; it is kept, and delivered while a node runs (`nearshare mesh run`)"
            )
        case .sent?:
            throw CommandFailure(
                .timedOut, "no peer has received it yet; it is kept, and sent when a peer is near (`nearshare mesh run`)")
        case .submitted, nil:
            reporter.report(
                .notice("no peer in range can relay it; it is kept, and sent when one can (`nearshare mesh run`)"))
        }
    }

    /// Returns once the goal is reached.
    private func follow(_ message: PendingMessage, _ events: AsyncStream<ControlEvent>) async throws {
        for await event in events {
            if case .contacts(let contacts) = event, let receiver = message.receiver {
                reportSharedName(of: receiver, among: contacts)
            }
            guard case .messageChanged(message.id, let state, let detail) = event else { continue }
            switch state {
            case .failed:
                throw CommandFailure(
                    .failure, "could not be delivered to \(message.name)\(detail.map { ": \($0)" } ?? "")")
            case .sent where goal == .delivered: reporter.report(.notice("sent; waiting for \(message.name)…"))
            case .sent: return reporter.report(.notice("sent"))
            case .delivered: return reporter.report(.notice("delivered to \(message.name)"))
            }
        }
        guard mode != .direct else {
            throw CommandFailure(.failure, "the node has ended, and the message is not kept; send it again")
        }
        throw ControlFailure(.gone, "the node has ended; the message is kept, and sent when one runs again")
    }

    private func awaitFile(beside id: BundleID, to name: String, _ events: AsyncStream<ControlEvent>) async throws {
        var isReported = false
        for await case .transfer(let status) in events where status.id == .message(id) {
            let file = TerminalText.escaped(status.name)
            guard let outcome = status.outcome else {
                let time = status.detail.map { ", which takes \($0)" } ?? ""
                if !isReported { reporter.report(.notice("waiting until \(name) accepts \(file)\(time)…")) }
                isReported = true
                continue
            }
            guard outcome == .completed else {
                throw CommandFailure(
                    ExitStatus(atNode: outcome), "\(file) has not been sent: \(status.detail ?? outcome.word)")
            }
            return reporter.report(.notice("\(name) has \(file)"))
        }
        throw CommandFailure(.peerGone, "the node ended before the file was sent; send it again")
    }
}
