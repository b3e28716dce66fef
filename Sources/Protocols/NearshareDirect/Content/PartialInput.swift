/// The start of a mark or header that has not arrived as a whole.
struct PartialInput: Sendable {
    private var pending: [UInt8] = []

    /// The next byte; nil when more bytes are needed.
    func first(of rest: UnsafeRawBufferPointer) -> UInt8? { pending.first ?? rest.first }

    static func removePrefix(_ wanted: UInt64, from rest: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let prefix = UnsafeRawBufferPointer(rebasing: rest.prefix(Int(clamping: wanted)))
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(prefix.count))
        return prefix
    }

    /// Removes `count` bytes from the pending and new ones. With fewer, all of them become pending, and the result is nil.
    mutating func gather(_ count: Int, from rest: inout UnsafeRawBufferPointer) -> [UInt8]? {
        guard peek(count, of: &rest) != nil else { return nil }
        defer { pending.removeAll(keepingCapacity: true) }
        return pending
    }

    /// Like ``gather(_:from:)``, but leaves the bytes pending.
    mutating func peek(_ count: Int, of rest: inout UnsafeRawBufferPointer) -> [UInt8]? {
        let missing = count - pending.count
        if missing > 0 {
            pending.append(contentsOf: Self.removePrefix(UInt64(min(missing, rest.count)), from: &rest))
        }
        return pending.count >= count ? pending : nil
    }
}
