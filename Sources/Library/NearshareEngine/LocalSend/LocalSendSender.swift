internal import Logging
package import NearshareBase
internal import NearshareDirect
internal import NearshareHTTP
package import NearshareInterfaces
internal import NearshareLocalSend

/// A LocalSend device that has shown its certificate.
package struct LocalSendTarget: Sendable, Hashable {
    /// The address of its server.
    package let address: LinkAddress
    package let foreign: ForeignPeer
    /// The claimed name.
    package let name: DisplayName

    package var peer: Peer { Peer(foreign: foreign, name: name, address: address) }
}

/// Sends content to one LocalSend device.
final class LocalSendSender: Sendable {
    /// Returns the PIN that the user gives; nil when there is none. The argument says whether an earlier one was wrong.
    typealias PINPrompt = @Sendable (Bool) async -> String?

    struct State {
        var ending: TransferResult?
        var links: [ObjectIdentifier: any StreamLink] = [:]
        /// The end of the time for the next step of the peer.
        var deadline: MonotonicInstant
        var session: String?
        var files = LocalSendFiles(accepted: [:])
    }

    /// The time without progress after which a transfer ends (R5).
    static let silenceTimeout = Duration.seconds(60)
    /// Limit on the PINs that the user gives: the device rejects others.
    private static let maximumPINCount = 3

    let transfer: Transfer
    let node: Node
    private let server: LocalSendServer
    let target: LocalSendTarget
    let source: any ResourceSource
    private let timeout: Duration
    let rateLimit: TransmissionLimit?
    private let pinPrompt: PINPrompt
    let state: Monitor<State>
    /// Fulfilled when the transfer ends, also while the user is asked.
    private let ended = Promise<Void>()

    init(
        _ source: any ResourceSource, to target: LocalSendTarget, by server: LocalSendServer, timeout: Duration,
        rateLimit: TransmissionLimit?, pinPrompt: @escaping PINPrompt
    ) {
        let settings = server.node.settings
        (self.source, self.target, self.server, node) = (source, target, server, server.node)
        (self.timeout, self.rateLimit, self.pinPrompt) = (timeout, rateLimit, pinPrompt)
        state = Monitor(State(deadline: settings.clock() + Self.silenceTimeout))
        transfer = Transfer(
            progress: TransferProgress(
                id: settings.freshTransferID(), direction: .outgoing, total: source.offer.totalSize,
                totalEntries: source.offer.entryCount), clock: settings.clock)
    }

    /// Sends; returns when the transfer has ended.
    func run() async {
        transfer.onCancel { [weak self] in self?.end(TransferResult(outcome: .cancelled(by: .local))) }
        if let contents = await list(), await offer(contents) { await upload(contents) }
        let (result, session) = state.withLock { ($0.ending ?? TransferResult(outcome: .interrupted), $0.session) }
        if let session {
            server.unfollow(session)
            if !result.isStored, result.outcome != .cancelled(by: .remote) {
                await server.sendCancel(of: session, to: target.address, expecting: target.foreign.certificate)
            }
        }
        transfer.end(result)
    }

    /// Ends the transfer. No effect on one that has ended.
    func end(_ result: TransferResult) {
        let links = state.update { state in
            if state.ending == nil { state.ending = result }
            return Array(state.links.values)
        }
        ended.fulfil()
        for link in links { link.close() }
    }

    /// Asks the user for the device's PIN.
    /// - Returns: nil also when the transfer ends before, which withdraws the question.
    private func askForPIN(wasWrong: Bool) async -> String? {
        await firstResult(
            of: { [self] in await pinPrompt(wasWrong) },
            { [self] () -> String? in
                _ = await ended.value
                return nil
            })
    }

    var isEnded: Bool { state.withLock { $0.ending != nil } }

    // MARK: Content

    /// Lists the entries of the source.
    /// - Returns: nil when the transfer has ended.
    private func list() async -> LocalSendContents? {
        let found = Monitor<LocalSendContents?>(nil)
        let blocking: @Sendable () -> Void = { [self] in
            do {
                let contents = try Self.contents(of: source)
                found.update { $0 = contents }
            } catch let error as StorageError {
                end(TransferResult(outcome: .failed(TransferFailure(error), at: .local), detail: error.description))
            } catch {
                end(TransferResult(outcome: .failed(.refused, at: .local), detail: "\(error)"))
            }
        }
        do throws(ThreadError) {
            try await BlockingThread.run(blocking)
        } catch {
            end(TransferResult(outcome: .interrupted, detail: error.description))
        }
        guard let contents = found.withLock(\.self), !isEnded else { return nil }
        transfer.setTotal(entries: UInt64(contents.files.count))
        if contents.leftOutCount > 0 {
            let count = contents.leftOutCount
            node.settings.log.warning(
                "\(count) \(count == 1 ? "link or empty folder is" : "links and empty folders are") left out: LocalSend has none"
            )
        }
        guard contents.files.isEmpty else { return contents }
        end(
            TransferResult(
                outcome: .failed(.refused, at: .local), detail: "there is no file to send: LocalSend has no empty folders"))
        return nil
    }

    private static func contents(of source: any ResourceSource) throws -> LocalSendContents {
        let items = source.offer.items
        let reader = try source.makeReader()
        var header = try reader.nextEntry()
        var text: String?
        if items.count == 1, items[0].kind == .text, let size = items[0].size,
            size <= UInt64(LocalSendContents.maximumTextByteCount)
        {
            text = try Self.text(reader, size: Int(size))
        }
        var contents = LocalSendContents(text: text)
        while let entry = header {
            let item = Int(entry.item)
            let type = entry.path.count == 1 && items.indices.contains(item) ? items[item].mediaType : .unknown
            try contents.add(entry, mediaType: type, digest: source.contentDigest)
            header = try reader.nextEntry()
        }
        return contents
    }

    /// - Returns: nil for a text that is not UTF-8, or empty.
    private static func text(_ reader: any ResourceReader, size: Int) throws(StorageError) -> String? {
        var bytes = [UInt8](repeating: 0, count: size)
        var count = 0
        var failure: StorageError?
        bytes.withUnsafeMutableBytes { buffer in
            do throws(StorageError) {
                while count < size {
                    let read = try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
                    guard read > 0 else { break }
                    count += read
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return count == 0 ? nil : String(validating: bytes[..<count], as: UTF8.self)
    }

    // MARK: Connections

    /// Runs blocking code on a connection to the device.
    /// - Returns: nil when the transfer has ended.
    func withConnection<Value: Sendable>(
        limit: Int,
        _ body: @escaping @Sendable (LocalSendClientConnection) throws(LocalSendClientConnection.Failure) -> Value
    ) async -> Value? {
        let link: any StreamLink
        do throws(NodeError) {
            link = try await node.connect(to: target.address)
        } catch {
            end(TransferResult(outcome: .interrupted, detail: error.description))
            return nil
        }
        let isOpen = state.update { state in
            if state.ending == nil { state.links[ObjectIdentifier(link)] = link }
            state.deadline = max(state.deadline, node.settings.clock() + Self.silenceTimeout)
            return state.ending == nil
        }
        guard isOpen else {
            link.close()
            return nil
        }
        defer { state.update { $0.links[ObjectIdentifier(link)] = nil } }
        let value = Monitor<Value?>(nil)
        let deadline: @Sendable () -> MonotonicInstant = { [state] in state.withLock(\.deadline) }
        let blocking: @Sendable () -> Void = { [self] in
            do throws(LocalSendClientConnection.Failure) {
                let connection = try LocalSendClientConnection(
                    over: link, server.security, expecting: target.foreign.certificate, limit: limit,
                    now: node.settings.wallClock())
                let result = try body(connection)
                value.update { $0 = result }
                connection.finishWriting()
            } catch {
                end(connectionResult(of: error))
            }
        }
        do throws(ThreadError) {
            try await node.run(on: link, until: deadline, blocking)
        } catch {
            end(TransferResult(outcome: .interrupted, detail: error.description))
        }
        return value.withLock(\.self)
    }

    private func connectionResult(of failure: LocalSendClientConnection.Failure) -> TransferResult {
        switch failure {
        case .link(let error):
            node.settings.log.debug("LocalSend: \(error)")
            return TransferResult(outcome: .interrupted)
        case .malformed(let error):
            return TransferResult(outcome: .failed(.refused, at: .local), detail: "\(target.name.shown): \(error)")
        case .otherCertificate(let shown):
            return TransferResult(
                outcome: .failed(.refused, at: .local), detail: Self.otherCertificate(shown, at: target.address, target.name))
        case .storage(let error):
            return TransferResult(outcome: .failed(TransferFailure(error), at: .local), detail: error.description)
        }
    }

    static func otherCertificate(_ shown: [UInt8], at address: LinkAddress, _ name: DisplayName?) -> String {
        "nothing was sent: \(address) has another certificate (\(Hex.encode(shown.prefix(8)).uppercased())…) than "
            + "\(name.map { "\($0.quoted) has announced" } ?? "expected"); it is another device, or an attacker in between"
    }

    // MARK: The offer

    /// Offers the content, and waits for the answer.
    /// - Returns: whether files are to be sent.
    private func offer(_ contents: LocalSendContents) async -> Bool {
        let body = contents.body(from: server.device)
        var pin: String?
        var pinCount = 0
        while true {
            let request: @Sendable (String) -> [UInt8] = { [pin] in LocalSendRequest.prepareUpload(body, pin: pin, to: $0) }
            state.update { $0.deadline = node.settings.clock() + timeout + Self.silenceTimeout }
            let response = await withAnswerTimeout { [self] isAsked in
                await withConnection(limit: contents.maximumResponseByteCount) {
                    [self] (connection) throws(LocalSendClientConnection.Failure) in
                    try connection.write(request(connection.authority))
                    isAsked.fulfil()
                    transfer.enter(.waiting)
                    return try connection.readResponse()
                }
            }
            state.update { $0.deadline = node.settings.clock() + Self.silenceTimeout }
            // Also after the end of the transfer: the device has to learn that its session is over.
            guard let response else { return false }
            let answer: LocalSendContents.Answer
            do throws(MalformedInput) {
                answer = try contents.answer(response)
            } catch {
                end(TransferResult(outcome: .failed(.refused, at: .local), detail: "\(target.name.shown): \(error)"))
                return false
            }
            switch answer {
            case .accepted(let session, let tokens): return begin(contents, session, tokens)
            case .textShown:
                transfer.recordProgress(to: contents.totalSize, entries: 1)
                end(TransferResult(outcome: .completed))
                return false
            case .nothingWanted:
                end(TransferResult(outcome: .declined(.declined)))
                return false
            case .pinRequired:
                guard pinCount < Self.maximumPINCount, !isEnded, let given = await askForPIN(wasWrong: pin != nil), !isEnded
                else {
                    let reason = pin == nil ? "requires its PIN" : "does not accept the PIN"
                    end(
                        TransferResult(
                            outcome: .declined(.notAllowed), detail: "\(target.name.shown) \(reason); nothing was sent"))
                    return false
                }
                (pin, pinCount) = (given, pinCount + 1)
            case .rejected(let rejection):
                end(offerResult(of: rejection, hasPIN: pin != nil))
                return false
            }
        }
    }

    /// Ends the transfer when the user of the device does not answer in time.
    /// - Parameter body: fulfils its argument when the user is asked.
    /// - Returns: the result of `body`, also when the time was over first.
    private func withAnswerTimeout(
        _ body: @escaping @Sendable (Promise<Void>) async -> ReceivedHTTPResponse?
    ) async -> ReceivedHTTPResponse? {
        let isAsked = Promise<Void>()
        let response = Monitor<ReceivedHTTPResponse?>(nil)
        await firstResult(
            of: {
                let received = await body(isAsked)
                response.update { $0 = received }
            },
            { [self] in
                _ = await isAsked.value
                guard (try? await Task.sleep(for: timeout)) != nil else { return }
                end(TransferResult(outcome: .expired))
            })
        return response.withLock(\.self)
    }

    /// The result of an offer that the device rejects.
    private func offerResult(of rejection: LocalSendContents.Rejection, hasPIN: Bool) -> TransferResult {
        let name = target.name.shown
        switch rejection.status {
        case 403: return TransferResult(outcome: .declined(.declined))
        case 409:
            return TransferResult(outcome: .declined(.busy), detail: "\(name) is busy with another transfer; try again later")
        case 413: return TransferResult(outcome: .declined(.tooLarge))
        case 429:
            return TransferResult(
                outcome: .declined(.busy),
                detail: hasPIN
                    ? "\(name) accepts no PIN from here any more: too many were wrong"
                    : "\(name) has been asked too often; try again later")
        default:
            return TransferResult(
                outcome: .failed(.refused, at: .remote), detail: "\(name) rejected the offer: \(rejection.text)")
        }
    }

    /// - Returns: false when the transfer has ended.
    private func begin(_ contents: LocalSendContents, _ session: String, _ tokens: [Int: String]) -> Bool {
        let isOpen = state.update { state in
            state.session = session
            state.files = LocalSendFiles(accepted: tokens)
            return state.ending == nil
        }
        guard isOpen else { return false }
        server.follow(session, of: target) { [weak self] in
            self?.end(TransferResult(outcome: .cancelled(by: .remote)))
        }
        if tokens.count < contents.files.count {
            let size = tokens.keys.reduce(UInt64(0)) { $0.addingClamped(contents.files[$1].size) }
            transfer.select(
                OfferPart.Counts(accepted: UInt64(tokens.count), offered: UInt64(contents.files.count), size: size))
        }
        // The phase in which an accepted offer is reported; nothing is compared.
        transfer.enter(.comparing)
        return true
    }
}
