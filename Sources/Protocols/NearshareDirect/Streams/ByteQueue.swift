/// A first-in-first-out queue of bytes that keeps the pieces in which they were appended; small ones are joined, so that a peer
/// that sends single bytes causes neither a piece for each nor the work for it (Q8).
struct ByteQueue: Sendable {
    private var pieces: [ArraySlice<UInt8>] = []
    private var head = 0
    /// Small pieces that follow ``pieces``.
    private var tail: [UInt8] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// The number of pieces of memory.
    var pieceCount: Int { pieces.count - head + (tail.isEmpty ? 0 : 1) }

    private static let joinedByteCount = 1 << 10
    private static let pieceByteCount = 16 << 10

    mutating func append(_ bytes: ArraySlice<UInt8>) {
        count += bytes.count
        if bytes.count < Self.joinedByteCount {
            tail.append(contentsOf: bytes)
            if tail.count >= Self.pieceByteCount { endTail() }
        } else {
            endTail()
            pieces.append(bytes)
        }
    }

    private mutating func endTail() {
        guard !tail.isEmpty else { return }
        pieces.append(tail[...])
        tail = []
    }

    /// Removes at most `maxLength` bytes from the front. They are copied only when they span pieces.
    mutating func popPrefix(_ maxLength: Int) -> ArraySlice<UInt8> {
        if head == pieces.count { endTail() }
        if head < pieces.count, pieces[head].count >= min(maxLength, count) {
            defer { advance(by: min(maxLength, count)) }
            return pieces[head].prefix(maxLength)
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(maxLength, count))
        while bytes.count < maxLength, count > 0 {
            if head == pieces.count { endTail() }
            let part = pieces[head].prefix(maxLength - bytes.count)
            bytes += part
            advance(by: part.count)
        }
        return bytes[...]
    }

    /// - Parameter byteCount: At most the size of the first piece.
    private mutating func advance(by byteCount: Int) {
        count -= byteCount
        pieces[head] = pieces[head].dropFirst(byteCount)
        guard pieces[head].isEmpty else { return }
        // An empty slice would keep the whole piece alive.
        pieces[head] = []
        head += 1
        if head == pieces.count || (head > 64 && head * 2 > pieces.count) {
            pieces.removeFirst(head)
            head = 0
        }
    }
}
