internal import NearshareBase
internal import NearshareDirect
internal import NearshareHTTP
internal import NearshareLocalSend

/// The files that a LocalSend device has accepted, by their numbers, and how much of them it has.
struct LocalSendFiles: Sendable {
    /// Limit on wrong checksums of one file.
    private static let maximumAttemptCount = 3

    private let tokens: [Int: String]
    /// The files that no connection sends yet, in their order.
    private var pending: [Int]
    private var attemptCounts: [Int: Int] = [:]
    /// The bytes of the files that are sent now.
    private var byteCounts: [Int: UInt64] = [:]
    private var storedByteCount: UInt64 = 0
    private(set) var storedCount: UInt64 = 0
    /// The files that the device has not stored.
    private var rejections: [Int: LocalSendContents.Rejection] = [:]

    /// - Parameter tokens: those of the files, by which the device knows them.
    init(accepted tokens: [Int: String]) {
        (self.tokens, pending) = (tokens, tokens.keys.sorted())
    }

    var pendingCount: Int { pending.count }

    /// The bytes that were sent of all files.
    var byteCount: UInt64 { byteCounts.values.reduce(storedByteCount) { $0.addingClamped($1) } }

    /// Begins the next file.
    /// - Returns: nil when no file waits.
    mutating func beginNext() -> (number: Int, token: String)? {
        guard let number = pending.first, let token = tokens[number] else { return nil }
        pending.removeFirst()
        return (number, token)
    }

    /// Records the bytes that were sent of a file.
    mutating func record(_ byteCount: UInt64, of number: Int) { byteCounts[number] = byteCount }

    /// Puts a file whose connection has ended before all others.
    mutating func retry(_ number: Int) {
        byteCounts[number] = nil
        pending.insert(number, at: 0)
    }

    /// Applies the response to a file.
    /// - Returns: false when the device knows the session no more.
    mutating func receive(_ response: ReceivedHTTPResponse, of number: Int, size: UInt64) -> Bool {
        byteCounts[number] = nil
        switch response.status {
        case 200...299:
            storedByteCount = storedByteCount.addingClamped(size)
            storedCount += 1
        case 422 where attemptCounts[number, default: 1] < Self.maximumAttemptCount:
            attemptCounts[number, default: 1] += 1
            pending.insert(number, at: 0)
        // Mostly because its user has cancelled.
        case 403: return false
        default: rejections[number] = LocalSendContents.Rejection(response)
        }
        return true
    }

    /// The result when no connection sends files any more.
    /// - Parameter device: its name, escaped.
    func result(of contents: LocalSendContents, at device: String) -> TransferResult {
        guard Int(clamping: storedCount) + rejections.count == tokens.count else {
            return TransferResult(outcome: .interrupted)
        }
        let missing = rejections.keys.sorted()
        guard let first = missing.first.flatMap({ rejections[$0] }) else { return TransferResult(outcome: .completed) }
        let count = tokens.count
        let files = MissingFiles(missing.compactMap { contents.files[$0].header.path.last }, of: count)
        let sentence = files?.sentence ?? (count == 1 ? "the file was not stored" : "none of \(count) files was stored")
        return TransferResult(
            outcome: .failed(.storageFailed, at: .remote),
            detail: "\(device): \(sentence); the first answer was \(first.text)", missing: files)
    }
}

extension LocalSendContents.Rejection {
    /// The status and the message, escaped.
    var text: String { "HTTP status \(status)" + (message.map { " \(TerminalText.quoted($0))" } ?? "") }
}
