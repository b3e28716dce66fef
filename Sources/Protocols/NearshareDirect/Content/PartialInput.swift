/// The start of a mark or header that has not arrived as a whole.
struct PartialInput: Sendable {
    private var pending: [UInt8] = []

    /// The first of the pending and new bytes; nil when there is none.
    func first(of rest: UnsafeRawBufferPointer) -> UInt8? { pending.first ?? rest.first }

    /// Removes `count` bytes from the pending and new ones. With fewer, all of them become pending, and the result is nil.
    mutating func gather(_ count: Int, from rest: inout UnsafeRawBufferPointer) -> [UInt8]? {
        guard let bytes = peek(count, of: &rest) else { return nil }
        pending.removeFirst(count)
        return bytes
    }

    /// Like ``gather(_:from:)``, but leaves the bytes pending.
    mutating func peek(_ count: Int, of rest: inout UnsafeRawBufferPointer) -> [UInt8]? {
        let missing = count - pending.count
        if missing > 0 {
            pending.append(contentsOf: rest.removePrefix(UInt64(min(missing, rest.count))))
        }
        return pending.count >= count ? Array(pending.prefix(count)) : nil
    }
}

extension UnsafeRawBufferPointer {
    /// Removes bytes from the start, at most as many as there are.
    mutating func removePrefix(_ byteCount: UInt64) -> UnsafeRawBufferPointer {
        let prefix = UnsafeRawBufferPointer(rebasing: self.prefix(Int(clamping: byteCount)))
        self = UnsafeRawBufferPointer(rebasing: dropFirst(prefix.count))
        return prefix
    }
}
