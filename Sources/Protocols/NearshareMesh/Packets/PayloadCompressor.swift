internal import CZlib

/// A DEFLATE compressor (RFC 1951) for payloads. It is reused for many payloads: setting one up costs five times as much as
/// compressing a fragment.
///
/// A value: a copy sets up streams of its own at its next use. Each stream in use keeps 256 KiB.
package struct PayloadCompressor: Sendable {
    /// The streams by level; two levels are in use.
    private var streams: [Int: DeflateStream] = [:]

    package init() {}

    /// - Parameter level: 1 to 9.
    /// - Returns: nil when the result would be longer than `bytes`.
    package mutating func compress(_ bytes: ArraySlice<UInt8>, level: Int) -> [UInt8]? {
        var stream = streams.removeValue(forKey: level)
        // A stream that is shared with a copy of this value is left to the copy.
        if !isKnownUniquelyReferenced(&stream) { stream = DeflateStream(level: level) }
        guard let stream else { return nil }
        defer { streams[level] = stream }
        return stream.compress(bytes)
    }
}

/// A zlib stream that is reset after each use.
///
/// Sendable although it changes, because ``PayloadCompressor`` uses it only while it holds the only reference.
private final class DeflateStream: @unchecked Sendable {
    /// zlib's state points back to it, so it must never move.
    private let stream: UnsafeMutablePointer<z_stream>

    init?(level: Int) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let code = deflateInit2_(
            stream, Int32(clamping: level), Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(clamping: MemoryLayout<z_stream>.size))
        guard code == Z_OK else { return nil }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    func compress(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        defer { deflateReset(stream) }
        var code = Z_OK
        let output = [UInt8](unsafeUninitializedCapacity: bytes.count) { output, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib only reads the input, but its interface predates const.
                stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.pointee.avail_in = UInt32(clamping: input.count)
                stream.pointee.next_out = output.baseAddress
                stream.pointee.avail_out = UInt32(clamping: output.count)
                code = deflate(stream, Z_FINISH)
            }
            count = code == Z_STREAM_END ? bytes.count - Int(stream.pointee.avail_out) : 0
        }
        return code == Z_STREAM_END ? output : nil
    }
}
