package import NearshareBase
package import NearshareInterfaces

/// The stored conversations and messages.
extension Messenger {
    /// Removes all lines of a conversation, and the peer's messages that programs can list. Lines that wait are not sent any more, except those that the mesh carries already.
    package func clear(_ conversation: Conversation) async throws(MessengerError) {
        try await stored { () throws(StorageError) in try self.store.removeMessages(of: conversation) }
    }

    /// The newest lines of a conversation that contain a text, the oldest of them first.
    package func search(
        _ text: String, in conversation: Conversation, limit: Int
    ) async throws(MessengerError) -> [ChatMessage] {
        try await stored { () throws(StorageError) in
            try self.store.messages(of: conversation, containing: text, limit: limit)
        }
    }

    /// Marks a conversation as read.
    /// - Parameter notifiesAuthors: whether the authors learn that their lines were read.
    package func markRead(_ conversation: Conversation, notifiesAuthors: Bool) async throws(MessengerError) {
        try await stored { () throws(StorageError) in
            let ids = try self.store.markRead(conversation)
            if case .peer(let peer) = conversation, notifiesAuthors { self.sendReadMarks(for: ids, to: peer) }
        }
    }

    /// The conversations with at least one line, the most recent first.
    package func conversations() async throws(MessengerError) -> [ConversationSummary] {
        try await stored { () throws(StorageError) in try self.store.conversations() }
    }

    /// The newest lines before a number, the oldest of them first.
    package func history(
        of conversation: Conversation, before number: Int? = nil, limit: Int = 100
    ) async throws(MessengerError) -> [ChatMessage] {
        try await stored { () throws(StorageError) in
            try self.store.messages(of: conversation, before: number, limit: limit)
        }
    }

    /// Received messages after a number, the oldest first.
    package func arrivals(after number: Int = 0, limit: Int = 1_000) async throws(MessengerError) -> [ReceivedBundle] {
        try await stored { () throws(StorageError) in try self.store.arrivals(after: number, limit: limit) }
    }

    /// Whether a bundle of this node is still stored.
    package func waits(_ id: BundleID) async throws(MessengerError) -> Bool {
        try await stored { () throws(StorageError) in try self.messages.isStored(id) }
    }

    /// Runs blocking calls of the store on a dedicated thread.
    func stored<Result: Sendable>(
        _ body: @escaping @Sendable () throws(StorageError) -> Result
    ) async throws(MessengerError) -> Result {
        let result: Swift.Result<Result, StorageError>
        do throws(ThreadError) {
            result = try await BlockingThread.run {
                do throws(StorageError) {
                    return .success(try body())
                } catch {
                    return .failure(error)
                }
            }
        } catch {
            throw .storage(StorageError(.failed, error.description))
        }
        switch result {
        case .success(let value): return value
        case .failure(let error): throw .storage(error)
        }
    }
}
