/// Divides the bytes after a head into the content of the body and what frames it (RFC 9112, sections 6 and 7.1). Copies nothing.
package struct HTTPBodyDecoder: Sendable {
    /// The way in which the end of a body is known.
    package enum Framing: Sendable, Hashable {
        case length(UInt64)
        case chunked
    }

    private enum State: Sendable {
        case content(remaining: UInt64)
        /// The line with the size of a chunk.
        case size(line: [UInt8])
        case chunk(remaining: UInt64)
        /// The line break behind a chunk.
        case chunkEnd(count: Int)
        /// The fields after the last chunk, which are dropped.
        case trailers(lineByteCount: Int, byteCount: Int)
        case complete
    }

    /// Limit on the line with the size of a chunk, its extensions included.
    private static let maximumLineByteCount = 256
    /// Limit on the digits of a chunk's size.
    private static let maximumDigitCount = 15
    /// Limit on the fields after the last chunk.
    private static let maximumTrailerByteCount = 8192

    private var state: State

    package init(_ framing: Framing) {
        switch framing {
        case .length(0): state = .complete
        case .length(let length): state = .content(remaining: length)
        case .chunked: state = .size(line: [])
        }
    }

    package var isComplete: Bool { if case .complete = state { true } else { false } }

    /// Decodes a part of received bytes.
    /// - Returns: the number of bytes used, at least 1 unless the body is complete or there are none, and the content among them.
    package mutating func decode(
        _ bytes: UnsafeRawBufferPointer
    ) throws(HTTPStatus) -> (usedCount: Int, content: Range<Int>) {
        guard let first = bytes.first else { return (0, 0..<0) }
        switch state {
        case .complete: return (0, 0..<0)
        case .content(let remaining):
            let count = Int(min(UInt64(bytes.count), remaining))
            let rest = remaining - UInt64(count)
            state = rest == 0 ? .complete : .content(remaining: rest)
            return (count, 0..<count)
        case .chunk(let remaining):
            let count = Int(min(UInt64(bytes.count), remaining))
            let rest = remaining - UInt64(count)
            state = rest == 0 ? .chunkEnd(count: 0) : .chunk(remaining: rest)
            return (count, 0..<count)
        case .size(var line):
            line.append(first)
            guard line.count <= Self.maximumLineByteCount else { throw .badRequest }
            guard first == 0x0a else {
                state = .size(line: line)
                return (1, 0..<0)
            }
            let size = try Self.size(line)
            state = size == 0 ? .trailers(lineByteCount: 0, byteCount: 0) : .chunk(remaining: size)
        case .chunkEnd(let count):
            guard first == (count == 0 ? 0x0d : 0x0a) else { throw .badRequest }
            state = count == 0 ? .chunkEnd(count: 1) : .size(line: [])
        case .trailers(let lineByteCount, let byteCount):
            guard byteCount < Self.maximumTrailerByteCount else { throw .headTooLarge }
            switch first {
            case 0x0d: state = .trailers(lineByteCount: lineByteCount, byteCount: byteCount + 1)
            case 0x0a where lineByteCount == 0: state = .complete
            case 0x0a: state = .trailers(lineByteCount: 0, byteCount: byteCount + 1)
            default: state = .trailers(lineByteCount: lineByteCount + 1, byteCount: byteCount + 1)
            }
        }
        return (1, 0..<0)
    }

    private static func size(_ line: [UInt8]) throws(HTTPStatus) -> UInt64 {
        guard line.suffix(2).elementsEqual([0x0d, 0x0a]) else { throw .badRequest }
        // An extension after a semicolon is ignored.
        let digits = line.dropLast(2).prefix { $0 != 0x3b && $0 != 0x20 && $0 != 0x09 }
        guard (1...maximumDigitCount).contains(digits.count),
            digits.allSatisfy({ (0x30...0x39).contains($0) || (0x41...0x46).contains($0) || (0x61...0x66).contains($0) }),
            let size = UInt64(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw .badRequest }
        return size
    }
}
