package import Nearshare

/// A state machine that follows the delivery of the messages of a piped conversation.
package struct DeliveryTracker: Sendable {
    /// A status that was received before the id of its message.
    private struct UnmatchedStatus {
        var status: MessageStatus
        var reason: String?
    }

    package let conversation: Conversation
    /// The status that each message has to reach.
    package let requiredStatus: MessageStatus
    /// Statuses of the accepted messages that have not reached ``requiredStatus``, by id.
    package private(set) var pending: [String: MessageStatus] = [:]
    package private(set) var reachedCount = 0
    /// Reasons of the messages that were refused.
    private var refusals: [String] = []
    /// The number of messages that were refused because they exceed a limit.
    private var overLimitCount = 0
    /// Reasons of the accepted messages that failed, by id, with the number of earlier failures.
    private var failed: [String: (order: Int, reason: String)] = [:]
    private var failureCount = 0
    package private(set) var inputHasEnded = false
    /// An event may arrive before the reply that names its message.
    private var unmatched: [String: UnmatchedStatus] = [:]
    /// Statuses that were read from the store and reported before their events arrived, by id.
    private var reportedStates: [String: MessageStatus] = [:]
    /// The ids of ``unmatched``, the oldest first.
    private var unmatchedIDs: [String] = []

    /// Limit on unmatched statuses; the oldest is dropped. The store has its status: see ``update(with:)``.
    static let maximumUnmatchedCount = 10_000

    package init(_ conversation: Conversation, requiredStatus: MessageStatus) {
        self.conversation = conversation
        self.requiredStatus = requiredStatus
    }

    package var isDone: Bool { inputHasEnded && pending.isEmpty }

    /// Reasons of the messages that were refused or have failed.
    package var failures: [String] { refusals + failed.values.sorted { $0.order < $1.order }.map(\.reason) }

    /// Whether each failure is a message that exceeds a limit.
    package var areAllOverLimit: Bool { overLimitCount > 0 && overLimitCount == failures.count }

    /// Records that the node has accepted a message.
    package mutating func recordAcceptance(of id: String) {
        guard requiredStatus > .waiting else {
            reachedCount += 1
            return
        }
        pending[id] = .waiting
        guard let early = unmatched.removeValue(forKey: id) else { return }
        unmatchedIDs.removeAll { $0 == id }
        record(early.status, of: id, reason: early.reason)
    }

    /// Records that the node has refused a message.
    /// - Parameter isOverLimit: whether the message exceeds a limit.
    package mutating func recordRefusal(reason: String, isOverLimit: Bool = false) {
        refusals.append(reason)
        if isOverLimit { overLimitCount += 1 }
    }

    /// Records the end of the input.
    package mutating func recordEndOfInput() {
        inputHasEnded = true
        unmatched = [:]
        unmatchedIDs = []
    }

    package mutating func handle(_ event: ControlEvent) {
        switch event {
        case .chatMessageChanged(let id, let changed, let status, let reason) where changed == conversation:
            record(status, of: id, reason: reason)
        case .chatMessage(let message, _): update(with: message)
        default: break
        }
    }

    /// Applies the status of a message of the local user, from an event or the store.
    package mutating func update(with message: ChatMessage) {
        if message.isLocal, message.conversation == conversation { record(message.status, of: message.id, reason: nil) }
    }

    /// Applies a status read from the store.
    /// - Returns: the change to report: its event may have been lost, or not be read before the command ends.
    package mutating func updateFromStore(_ message: ChatMessage) -> ControlEvent? {
        let earlier = pending[message.id]
        update(with: message)
        guard let earlier, earlier.canChange(to: message.status) else { return nil }
        reportedStates[message.id] = message.status
        return .chatMessageChanged(id: message.id, conversation: conversation, status: message.status, reason: nil)
    }

    /// Whether the event reports a state that ``updateFromStore(_:)`` has returned.
    package mutating func consumeRepeat(of event: ControlEvent) -> Bool {
        guard case .chatMessageChanged(let id, conversation, let status, _) = event, let reported = reportedStates[id] else {
            return false
        }
        if status >= reported { reportedStates[id] = nil }
        return status <= reported
    }

    private mutating func record(_ status: MessageStatus, of id: String, reason: String?) {
        guard let known = pending[id] ?? failed[id].map({ _ in .failed }) else {
            return recordUnmatched(status, of: id, reason: reason)
        }
        guard known.canChange(to: status) else { return }
        (pending[id], failed[id]) = (nil, nil)
        if status == .failed {
            failed[id] = (failureCount, reason ?? "could not be delivered")
            failureCount += 1
        } else if status >= requiredStatus {
            reachedCount += 1
        } else {
            pending[id] = status
        }
    }

    private mutating func recordUnmatched(_ status: MessageStatus, of id: String, reason: String?) {
        // All messages of the input are known when it has ended.
        guard !inputHasEnded, status > (unmatched[id]?.status ?? .waiting) else { return }
        if unmatched.updateValue(UnmatchedStatus(status: status, reason: reason), forKey: id) == nil { unmatchedIDs.append(id) }
        if unmatchedIDs.count > Self.maximumUnmatchedCount { unmatched[unmatchedIDs.removeFirst()] = nil }
    }
}
