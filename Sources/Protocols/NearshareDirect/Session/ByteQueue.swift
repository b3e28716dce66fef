/// A first-in-first-out queue of bytes that keeps the pieces in which they were appended.
struct ByteQueue: Sendable {
    private var pieces: [ArraySlice<UInt8>] = []
    private var head = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ bytes: ArraySlice<UInt8>) {
        guard !bytes.isEmpty else { return }
        pieces.append(bytes)
        count += bytes.count
    }

    /// Removes at most `limit` bytes from the front. Bytes are copied only when they span pieces.
    mutating func removeFirst(_ limit: Int) -> ArraySlice<UInt8> {
        if head < pieces.count, pieces[head].count >= min(limit, count) {
            defer { advance(by: min(limit, count)) }
            return pieces[head].prefix(limit)
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(limit, count))
        while bytes.count < limit, head < pieces.count {
            let part = pieces[head].prefix(limit - bytes.count)
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
