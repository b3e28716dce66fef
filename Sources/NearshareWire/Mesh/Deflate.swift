internal import CZlib
internal import NearshareBase

/// Raw DEFLATE (RFC 1951) through zlib, for payloads (bitchat specification, section 2.6).
public enum Deflate {
    /// Shorter ones are never compressed.
    static let threshold = 100
    /// A stream that promises to grow more than this is refused unread.
    static let maximumRatio = 50_000

    /// False where bytes vary so much that compressing would hardly help: both ends must agree, as signatures depend on it.
    public static func isWorthTrying(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.count >= threshold else { return false }
        var seen: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        for byte in bytes {
            let bit = UInt64(1) << UInt64(byte & 63)
            switch byte >> 6 {
            case 0: seen.0 |= bit
            case 1: seen.1 |= bit
            case 2: seen.2 |= bit
            default: seen.3 |= bit
            }
        }
        let distinct = seen.0.nonzeroBitCount + seen.1.nonzeroBitCount + seen.2.nonzeroBitCount + seen.3.nonzeroBitCount
        // Less than nine tenths, in whole numbers.
        return distinct * 10 < min(bytes.count, 256) * 9
    }

    /// - Parameter level: 1 to 9.
    /// - Returns: nil when the result would be longer than `bytes`.
    public static func compressed(_ bytes: ArraySlice<UInt8>, level: Int) -> [UInt8]? {
        var stream = z_stream()
        guard
            deflateInit2_(
                &stream, Int32(level), Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { return nil }
        defer { deflateEnd(&stream) }
        var code = Z_OK
        let output = [UInt8](unsafeUninitializedCapacity: bytes.count) { output, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib reads only, but its interface is older than const.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                code = deflate(&stream, Z_FINISH)
            }
            count = code == Z_STREAM_END ? bytes.count - Int(stream.avail_out) : 0
        }
        return code == Z_STREAM_END ? output : nil
    }

    /// Inflates to exactly `size` bytes, the only memory that is taken (R2). The stream must end there, and with it `bytes`.
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
