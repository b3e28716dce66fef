internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareMesh

/// The inputs of a messenger that wait to be handled. Public texts come last: a flood of them fills the queue for seconds, and delays
/// no private text and no receipt. Their sources take turns, so that it delays no text of another source either (M12).
struct MessengerInputQueue: Sendable {
    enum Input: Sendable {
        case event(MeshMessageEvent)
        /// Lines that were not sent when the node stopped.
        case resume([PendingMessage])
        /// Bundles of this node that were created while the clock was ahead.
        case renew([BundleID])
    }

    private var urgent: [Input] = []
    /// The public texts of each source, the oldest first; no empty ones.
    private var publicTexts: [MeshLinkSource?: ArraySlice<Input>] = [:]
    /// The sources with public texts, in the order of their turns.
    private var turns: [MeshLinkSource?] = []
    private var publicCount = 0

    /// Limit on the public texts, and on all other inputs (R1).
    static let capacity = 4_096
    /// Public texts that are handled before other inputs are looked for again.
    static let publicBatchCount = 16

    var isEmpty: Bool { urgent.isEmpty && publicCount == 0 }

    mutating func resume(_ lines: [PendingMessage]) { urgent.append(.resume(lines)) }

    /// Adds bundles to renew. Never dropped: there are at most as many as bundles of this node in the store.
    mutating func renew(_ bundles: [BundleID]) { urgent.append(.renew(bundles)) }

    /// Adds an event. Beyond the capacity it is dropped, or the latest public text of the source that has most: a peer sends a
    /// private text again that is not acknowledged; what the loss of another event leaves waiting is sent after the next start.
    mutating func append(_ event: MeshMessageEvent) {
        if case .publicText(_, _, _, let source) = event {
            if publicCount == Self.capacity { dropLatestPublicText() }
            if publicTexts[source] == nil { turns.append(source) }
            publicTexts[source, default: []].append(.event(event))
            publicCount += 1
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
        var batch: [Input] = []
        while batch.count < Self.publicBatchCount, publicCount > 0 {
            let source = turns.removeFirst()
            if let text = publicTexts[source]?.popFirst() {
                batch.append(text)
                publicCount -= 1
            }
            if publicTexts[source]?.isEmpty == false { turns.append(source) } else { publicTexts[source] = nil }
        }
        return batch
    }

    private mutating func dropLatestPublicText() {
        guard let source = publicTexts.max(by: { $0.value.count < $1.value.count })?.key else { return }
        _ = publicTexts[source]?.popLast()
        publicCount -= 1
        guard publicTexts[source]?.isEmpty == true else { return }
        publicTexts[source] = nil
        turns.removeAll { $0 == source }
    }
}
