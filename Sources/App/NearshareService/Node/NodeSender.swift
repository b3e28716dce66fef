internal import Nearshare
internal import NearshareBundles
internal import NearshareMesh

/// Sends the messages and files that commands submit to a node.
struct NodeSender: Sendable {
    private let messenger: Messenger
    private let contacts: ContactDirectory
    private let detector: MediaTypeDetector
    private let transfers: FileTransferFollower

    /// Timeout of the first message to a peer, which appears shortly before it can be reached.
    private static let reachabilityTimeout = Duration.seconds(3)
    /// Timeout of the answer to an offered file, where the request has none.
    private static let answerTimeout = Duration.seconds(60)
    private static let allowedAnswerTimeouts = Duration.milliseconds(100)...Duration.seconds(600)

    init(_ messenger: Messenger, _ contacts: ContactDirectory, _ detector: MediaTypeDetector) {
        (self.messenger, self.contacts, self.detector) = (messenger, contacts, detector)
        transfers = FileTransferFollower(contacts)
    }

    // MARK: Transfers

    /// Starts to send no more files, unless one is being sent.
    /// - Returns: whether no file will be sent any more.
    func closeIfIdle() -> Bool { transfers.closeIfIdle() }

    /// Cancels a transfer at both ends. No effect on one that has ended.
    func cancel(_ id: TransferStatus.ID) { transfers.cancel(id) }

    /// Publishes the states of transfers, until ``finish()`` was called and all of them have ended.
    func run(_ publish: @escaping @Sendable (TransferStatus) -> Void) async { await transfers.run(publish) }

    /// Records that no more transfers will be started.
    func finish() { transfers.finish() }

    // MARK: Files

    /// Starts to send a file to a peer in the mesh.
    /// - Returns: the id of its transfer.
    func startFile(_ path: String, to peer: PeerID, isEncrypted: Bool, timeout: Duration?) async throws -> TransferID {
        try await transfers.performStart {
            let source = try FileSource(paths: [path], detector: detector)
            try refuseTooLarge(source, to: peer)
            let transfer = try messenger.send(
                source, to: peer, isEncrypted: isEncrypted, timeout: Self.clampedAnswerTimeout(timeout))
            follow(transfer, source, to: peer, as: .transfer(transfer.id))
            return transfer.id
        }
    }

    private func follow(_ transfer: Transfer, _ source: FileSource, to peer: PeerID, as id: TransferStatus.ID) {
        let name = source.offer.items.first.map { String(decoding: $0.name.bytes, as: UTF8.self) } ?? ""
        let size = source.offer.totalSize
        transfers.add(
            transfer,
            TransferStatus(
                id: id, isIncoming: false, peer: peer, name: name, done: 0, total: size,
                detail: size.flatMap { notice(aboutSending: $0, to: peer) }))
    }

    /// A message for the user while a file is sent; nil for none.
    private func notice(aboutSending byteCount: UInt64, to peer: PeerID) -> String? {
        peer == .broadcast
            ? MeshAdvice.forFileToEveryone(byteCount: byteCount, among: messenger.peers)
            : durationText(forSending: byteCount, to: peer)
    }

    private func refuseTooLarge(_ source: FileSource, to peer: PeerID) throws {
        guard let size = source.offer.totalSize, let item = source.offer.items.first, item.kind != .folder,
            let known = messenger.peers.first(where: { $0.id == peer }), size > known.contentLimit
        else { return }
        let contact = try contacts.snapshot().contact(peer)
        let (file, name, limit) = (item.name.shown, contact.name.shown, known.contentLimit)
        // A smaller one would not arrive either.
        guard known.isReachable else { throw ControlFailure(.peerNotFound, "\(name) is not in range") }
        throw ControlFailure(
            .tooLarge,
            "\(file) has \(size.formattedByteCount), and the mesh carries at most \(UInt64(limit).formattedByteCount) to \(name); "
                + MeshAdvice.forLargeFile(to: contact.software))
    }

    /// A message about the duration of a file transfer; nil for a short one.
    private func durationText(forSending byteCount: UInt64, to peer: PeerID) -> String? {
        guard let (time, needsRadio) = messenger.estimate(byteCount: byteCount, to: peer), time >= .seconds(2) else {
            return nil
        }
        let limit = UInt64(MessageRequest.recommendedRadioFileByteCount)
        let advice =
            needsRadio && byteCount > limit
            ? ", as it goes over Bluetooth; up to \(limit.formattedByteCount) is best with Bluetooth" : ""
        return "\(time.asClock) at least\(advice)"
    }

    /// The timeout of the answer to an offered file.
    private static func clampedAnswerTimeout(_ timeout: Duration?) -> Duration {
        min(max(timeout ?? answerTimeout, allowedAnswerTimeouts.lowerBound), allowedAnswerTimeouts.upperBound)
    }

    // MARK: Messages

    /// Sends a message, and starts to send its file.
    func send(_ message: MessageSubmission) async throws -> BundleID {
        guard case .structured(let content) = message.content else {
            throw ControlFailure(.refused, "this node does not support that kind of message; update it")
        }
        let route = try MessageRoute(message.mode, to: message.receiver)
        if message.requiresSession, let receiver = message.receiver, !messenger.secureSessions.contains(receiver) {
            throw ControlFailure(
                .unavailable,
                "there is no secure session with \(try contacts.snapshot().contact(receiver).name.shown), or it has expired")
        }
        guard let path = message.file else {
            return try await retryUntilReachable { () throws(MessengerError) in
                try self.messenger.send(
                    content, using: route, isEncrypted: message.isEncrypted, isPrivate: message.isPrivate)
            }
        }
        // Checked before the file is opened.
        guard case .direct(let peer) = route else { throw MessageError.fileNeedsDirectMode(message.mode) }
        return try await transfers.performStart {
            let source = try FileSource(paths: [path], detector: detector)
            let (id, transfer) = try await retryUntilReachable { () throws(MessengerError) in
                try self.messenger.send(
                    content, with: source, to: peer, isEncrypted: message.isEncrypted,
                    timeout: Self.clampedAnswerTimeout(message.timeout))
            }
            follow(transfer, source, to: peer, as: .message(id))
            return id
        }
    }

    /// Repeats `body` at each event of the messenger while the receiver's keys are missing: these arrive shortly after the
    /// name.
    private func retryUntilReachable<Result: Sendable>(
        _ body: @escaping @Sendable () throws(MessengerError) -> Result
    ) async throws -> Result {
        let events = messenger.events()
        @Sendable func attempt() throws(MessengerError) -> Result? {
            do throws(MessengerError) {
                return try body()
            } catch {
                switch error {
                case .rule(.receiverNotInRange), .rule(.receiverKeyUnknown), .rule(.receiverTakesNone): return nil
                default: throw error
                }
            }
        }
        if let result = try attempt() { return result }
        let result = try await withTimeout(Self.reachabilityTimeout) { () throws -> Result? in
            for await _ in events { if let result = try attempt() { return result } }
            return nil
        }
        try Task.checkCancellation()
        return try (result ?? nil) ?? body()
    }
}
