internal import NearshareInterfaces

/// The inputs of a messenger that wait to be handled. Public texts come last: a flood of them fills the queue for seconds, and delays
/// no private text and no receipt (M12).
struct MessengerInputQueue: Sendable {
    enum Input: Sendable {
        case event(MeshMessageEvent)
        /// Lines that were not sent when the node stopped.
        case resume([PendingMessage])
    }

    private var urgent: [Input] = []
    private var publicTexts: [Input] = []

    /// Limit on the public texts, and on all other inputs (R1).
    static let capacity = 4_096
    /// Public texts that are handled before other inputs are looked for again.
    static let publicBatchCount = 16

    var isEmpty: Bool { urgent.isEmpty && publicTexts.isEmpty }

    mutating func resume(_ lines: [PendingMessage]) { urgent.append(.resume(lines)) }

    /// Adds an event. Beyond the capacity it is dropped: a peer sends a private text again that is not acknowledged; what the loss
    /// of another event leaves waiting is sent after the next start.
    mutating func append(_ event: MeshMessageEvent) {
        if case .publicText = event {
            if publicTexts.count < Self.capacity { publicTexts.append(.event(event)) }
        } else if urgent.count < Self.capacity {
            urgent.append(.event(event))
        }
    }

    /// Removes the inputs to handle next.
    mutating func dequeue() -> [Input] {
        guard urgent.isEmpty else {
            defer { urgent = [] }
            return urgent
        }
        let batch = Array(publicTexts.prefix(Self.publicBatchCount))
        publicTexts.removeFirst(batch.count)
        return batch
    }
}
