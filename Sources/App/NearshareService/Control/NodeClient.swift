package import Nearshare

/// A client of a node: the node of this process, or the one of another process.
package protocol NodeClient: Sendable {
    /// - Throws: ``ControlFailure``, also for ``ControlReply/failed(_:)``.
    func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply

    /// Events from now on, in order, until the node ends. A slow reader loses the oldest.
    func events() async throws(ControlFailure) -> AsyncStream<ControlEvent>

    /// Questions and transfers of the part that receives, from now on, after the questions that are open. While the stream is read,
    /// the user can be asked.
    func receiveEvents() async throws(ControlFailure) -> AsyncStream<ReceiveEvent>

    /// The direct links that peers open from now on, for one process that claims and serves them, until the stream is released.
    func links() async throws(ControlFailure) -> AsyncStream<OfferedLink>

    /// Whether the end of this node is final: it runs in this process, and has not been handed over to another one.
    var isEndFinal: Bool { get }

    /// Ends the use of a node in another process: requests without a reply fail. No effect on the node of this process.
    func close()
}

extension NodeClient {
    package var isEndFinal: Bool { false }

    package func close() {}

    package func receiveEvents() async throws(ControlFailure) -> AsyncStream<ReceiveEvent> {
        throw ControlFailure(.refused, "this node passes no questions on")
    }

    package func links() async throws(ControlFailure) -> AsyncStream<OfferedLink> {
        throw ControlFailure(.refused, "this node passes no connections on")
    }
}

extension NodeClient {
    package func status() async throws(ControlFailure) -> NodeStatus {
        guard case .status(let status) = try await submit(.status) else { throw .unexpectedReply }
        return status
    }

    package func contacts() async throws(ControlFailure) -> [Contact] {
        guard case .contacts(let contacts) = try await submit(.contacts) else { throw .unexpectedReply }
        return contacts
    }

    /// - Parameter name: an id, a name, or the beginning of one.
    package func find(_ name: String, timeout: Duration) async throws(ControlFailure) -> Contact {
        guard case .contact(let contact) = try await submit(.find(name: name, timeout: timeout)) else { throw .unexpectedReply }
        return contact
    }

    package func sendMessage(_ message: MessageSubmission) async throws(ControlFailure) -> BundleID {
        guard case .messageAccepted(let id) = try await submit(.sendMessage(message)) else { throw .unexpectedReply }
        return id
    }

    /// Whether an own message still waits to be delivered.
    package func isPending(_ message: BundleID) async throws(ControlFailure) -> Bool {
        guard case .isPending(let isPending) = try await submit(.isPending(message)) else { throw .unexpectedReply }
        return isPending
    }

    package func messages(after number: Int, limit: Int = ControlReply.maximumEntryCount) async throws(ControlFailure)
        -> [ReceivedMessage]
    {
        guard case .messages(let messages) = try await submit(.messages(after: number, limit: limit)) else {
            throw .unexpectedReply
        }
        return messages
    }

    /// - Returns: the id of the line.
    package func sendLine(_ text: String, in conversation: Conversation) async throws(ControlFailure) -> String {
        guard case .lineAccepted(let id) = try await submit(.sendLine(text, in: conversation)) else { throw .unexpectedReply }
        return id
    }

    package func conversations() async throws(ControlFailure) -> [ConversationSummary] {
        guard case .conversations(let conversations) = try await submit(.conversations) else { throw .unexpectedReply }
        return conversations
    }

    package func history(
        of conversation: Conversation, before number: Int? = nil, limit: Int
    ) async throws(ControlFailure) -> [ChatMessage] {
        guard case .chatMessages(let messages, _) = try await submit(.history(conversation, before: number, limit: limit))
        else {
            throw .unexpectedReply
        }
        return messages
    }

    package func markRead(_ conversation: Conversation, notifiesAuthors: Bool) async throws(ControlFailure) {
        guard case .done = try await submit(.markRead(conversation, notifiesAuthors: notifiesAuthors)) else {
            throw .unexpectedReply
        }
    }

    /// - Parameter path: absolute.
    package func sendFile(
        _ path: String, to peer: PeerID, isEncrypted: Bool = true, timeout: Duration? = nil
    ) async throws(ControlFailure) -> TransferID {
        let request = ControlRequest.sendFile(path: path, to: peer, isEncrypted: isEncrypted, timeout: timeout)
        guard case .transferAccepted(let id) = try await submit(request) else {
            throw .unexpectedReply
        }
        return id
    }

    package func cancelTransfer(_ id: TransferStatus.ID) async throws(ControlFailure) {
        guard case .done = try await submit(.cancelTransfer(id)) else { throw .unexpectedReply }
    }

    package func trace(id: String, limit: Int) async throws(ControlFailure) -> [TraceEntry] {
        guard case .trace(let entries) = try await submit(.trace(id: id, limit: limit)) else { throw .unexpectedReply }
        return entries
    }

    /// - Returns: the verified peer.
    package func verify(link: String) async throws(ControlFailure) -> Contact {
        guard case .contact(let contact) = try await submit(.verify(link: link)) else { throw .unexpectedReply }
        return contact
    }

    /// Answers a question of ``receiveEvents()``; fails when it is no longer open.
    package func answer(_ number: Int, _ answer: PromptAnswer) async throws(ControlFailure) {
        guard case .done = try await submit(.answer(number, answer)) else { throw .unexpectedReply }
    }

    package func stop() async throws(ControlFailure) {
        guard case .done = try await submit(.stop) else { throw .unexpectedReply }
    }
}

extension ControlFailure {
    static var unexpectedReply: ControlFailure {
        ControlFailure(.unavailable, "unexpected reply from the running node; update nearshare or stop the node")
    }
}
