internal import CZlib
internal import NearshareBase
internal import Synchronization

/// Raw DEFLATE (RFC 1951) through zlib, for payloads (bitchat specification, section 2.6).
package enum Deflate {
    /// Shorter payloads are never compressed.
    static let threshold = 100
    /// A stream that claims a higher ratio is refused unread.
    static let maximumRatio = 50_000

    /// Whether bytes are uniform enough for compression to help. Both ends must agree, as signatures depend on it.
    package static func isCompressible(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.count >= threshold else { return false }
        // Nine tenths, rounded up.
        let enough = (min(bytes.count, 256) * 9 + 9) / 10
        return withUnsafeTemporaryAllocation(of: Bool.self, capacity: 256) { seen in
            seen.initialize(repeating: false)
            var distinct = 0
            for byte in bytes where !seen[Int(byte)] {
                seen[Int(byte)] = true
                distinct += 1
                // Encrypted or compressed bytes reach the limit within the first few hundred.
                if distinct == enough { return false }
            }
            return true
        }
    }

    /// - Parameter level: 1 to 9.
    /// - Returns: nil when the result would be longer than `bytes`.
    package static func compressed(_ bytes: ArraySlice<UInt8>, level: Int) -> [UInt8]? {
        guard let compressor = Compressor.take(level: level) else { return nil }
        defer { compressor.giveBack() }
        return compressor.compress(bytes)
    }

    /// Decompresses to exactly `size` bytes, which bounds the memory (R2). The stream must end there, and with it `bytes`.
    static func inflated(_ bytes: ArraySlice<UInt8>, to size: Int) throws(MalformedInput) -> [UInt8] {
        guard size <= bytes.count * maximumRatio else {
            throw MalformedInput("compressed payload: it would grow more than \(maximumRatio) times")
        }
        var stream = z_stream()
        guard inflateInit2_(&stream, -MAX_WBITS, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            throw MalformedInput("compressed payload: no memory to inflate it")
        }
        defer { inflateEnd(&stream) }
        var isWhole = false
        let output = [UInt8](unsafeUninitializedCapacity: size) { output, count in
            bytes.withUnsafeBufferPointer { input in
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(size)
                isWhole = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0
            }
            count = isWhole ? size : 0
        }
        guard isWhole else { throw MalformedInput("compressed payload: it does not inflate to its original size") }
        return output
    }
}

/// A zlib stream that compresses one payload after the other: creating one costs five times as much as compressing a fragment.
/// Sendable, although it changes, as it has one owner at a time.
private final class Compressor: @unchecked Sendable {
    private static let idle = Mutex<[Compressor]>([])
    /// Each keeps 256 KiB. Two levels are in use, and rarely more than one thread.
    private static let maximumIdleCount = 4

    private let level: Int
    /// zlib's state points back to it, so it must never move.
    private let stream: UnsafeMutablePointer<z_stream>

    private init?(level: Int) {
        self.level = level
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let code = deflateInit2_(
            stream, Int32(level), Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        guard code == Z_OK else { return nil }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    static func take(level: Int) -> Compressor? {
        let idle = idle.withLock { idle in idle.firstIndex { $0.level == level }.map { idle.remove(at: $0) } }
        return idle ?? Compressor(level: level)
    }

    func giveBack() {
        deflateReset(stream)
        Self.idle.withLock { idle in
            if idle.count < Self.maximumIdleCount { idle.append(self) }
        }
    }

    /// - Returns: nil when the result would be longer than `bytes`.
    func compress(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        var code = Z_OK
        let output = [UInt8](unsafeUninitializedCapacity: bytes.count) { output, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib only reads the input, but its interface predates const.
                stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.pointee.avail_in = UInt32(input.count)
                stream.pointee.next_out = output.baseAddress
                stream.pointee.avail_out = UInt32(output.count)
                code = deflate(stream, Z_FINISH)
            }
            count = code == Z_STREAM_END ? bytes.count - Int(stream.pointee.avail_out) : 0
        }
        return code == Z_STREAM_END ? output : nil
    }
}
