internal import NearshareInterfaces

/// Texts on their way to BlueChat's peers, by object path. One value is under way to each peer at a time; the next one follows
/// its confirmation.
struct TextQueue {
    typealias Completion = @Sendable (LinkError?) -> Void

    private struct Text {
        var values: ArraySlice<[UInt8]>
        let completion: Completion
    }

    private var texts: [String: [Text]] = [:]

    /// Texts that wait for one peer.
    static let capacity = 16

    func isFull(for path: String) -> Bool { texts[path, default: []].count >= Self.capacity }

    /// - Parameter values: at least one.
    /// - Returns: whether nothing is under way, so that ``next(for:)`` can be sent.
    mutating func append(_ values: [[UInt8]], for path: String, completion: @escaping Completion) -> Bool {
        texts[path, default: []].append(Text(values: values[...], completion: completion))
        return texts[path]?.count == 1
    }

    /// The value to send.
    func next(for path: String) -> [UInt8]? { texts[path]?.first?.values.first }

    /// The value of ``next(for:)`` has been confirmed.
    /// - Returns: the completion of a text that has arrived as a whole.
    mutating func confirm(for path: String) -> Completion? {
        guard var waiting = texts[path], var text = waiting.first else { return nil }
        text.values = text.values.dropFirst()
        if text.values.isEmpty { waiting.removeFirst() } else { waiting[0] = text }
        texts[path] = waiting.isEmpty ? nil : waiting
        return text.values.isEmpty ? text.completion : nil
    }

    /// - Returns: the completions of all texts that were lost.
    mutating func removeAll(for path: String) -> [Completion] {
        (texts.removeValue(forKey: path) ?? []).map(\.completion)
    }
}
