internal import CZlib
internal import NearshareBase

/// Raw DEFLATE (RFC 1951) through zlib: the selection of payloads to compress, and decompression (bitchat specification,
/// section 2.6).
package enum Deflate {
    /// Shorter payloads are never compressed.
    static let threshold = 100
    /// A stream that claims a higher ratio is rejected unread.
    static let maximumRatio = 50_000
    /// The most bytes that one byte of a stream makes (RFC 1951: 258 for two bits).
    static let maximumStreamRatio = 1_032

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

    /// Decompresses to exactly `size` bytes, which bounds the memory (R2). The stream must end there, at the end of `bytes`.
    static func inflated(_ bytes: ArraySlice<UInt8>, to size: Int) throws(MalformedInput) -> [UInt8] {
        guard size <= bytes.count * maximumRatio else {
            throw MalformedInput("compressed payload: it would grow more than \(maximumRatio) times")
        }
        var stream = z_stream()
        guard inflateInit2_(&stream, -MAX_WBITS, ZLIB_VERSION, Int32(clamping: MemoryLayout<z_stream>.size)) == Z_OK else {
            throw MalformedInput("compressed payload: no memory to inflate it")
        }
        defer { inflateEnd(&stream) }
        var isWhole = false
        let output = [UInt8](unsafeUninitializedCapacity: size) { output, count in
            bytes.withUnsafeBufferPointer { input in
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(clamping: input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(clamping: size)
                isWhole = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0
            }
            count = isWhole ? size : 0
        }
        guard isWhole else { throw MalformedInput("compressed payload: it does not inflate to its original size") }
        return output
    }
}
