/// Puts the chunks of an offer's content into their order. Chunks may arrive on several connections, and again.
struct ChunkWindow: Sendable {
    /// Content in a chunk; only the last one is shorter.
    static let chunkByteCount = 1 << 18
    /// Limit on the chunks of one request.
    static let maximumRequestCount = 4
    /// The chunks from the first missing one on that may arrive, those of two requests: they are held in memory while it is missing.
    static let maximumAheadCount: UInt32 = 8

    enum Result: Sendable, Hashable {
        /// Content in order; empty while an earlier chunk is missing, and for a chunk that is here already.
        case content([[UInt8]])
        /// The chunk is too far ahead, does not exist, or has another size than it must have.
        case refused
    }

    /// The number of chunks.
    let count: UInt32
    /// The first chunk that has not arrived.
    private(set) var next: UInt32 = 0
    private let totalSize: UInt64
    private var ahead: [UInt32: [UInt8]] = [:]

    init(totalSize: UInt64) {
        self.totalSize = totalSize
        let size = UInt64(Self.chunkByteCount)
        // Bounded: an offer has at most 2^48 bytes.
        count = UInt32(clamping: totalSize / size + (totalSize % size == 0 ? 0 : 1))
    }

    var isComplete: Bool { next == count }

    /// Whether a chunk is worth opening.
    func expects(_ index: UInt32) -> Bool {
        index < count && index < next.addingReportingOverflow(Self.maximumAheadCount).partialValue
    }

    mutating func receive(_ chunk: [UInt8], at index: UInt32) -> Result {
        guard expects(index), chunk.count == size(of: index) else { return .refused }
        guard index >= next, ahead[index] == nil else { return .content([]) }
        ahead[index] = chunk
        var content: [[UInt8]] = []
        while let chunk = ahead.removeValue(forKey: next) {
            content.append(chunk)
            next += 1
        }
        return .content(content)
    }

    private func size(of index: UInt32) -> Int {
        let offset = UInt64(index) * UInt64(Self.chunkByteCount)
        return Int(clamping: min(UInt64(Self.chunkByteCount), totalSize - min(offset, totalSize)))
    }
}
