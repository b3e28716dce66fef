internal import NearshareBase
package import NearshareCrypto

/// The sending half of the record layer: numbers, keys and lengths (`docs/PROTOCOL.md`, section 4).
package struct RecordSealer: Sendable {
    private var cipher: RecordCipher
    private var counter: UInt64

    /// - Parameter cipher: The cipher of the outgoing direction, as the handshake has derived it.
    package init(_ cipher: RecordCipher) {
        self.init(cipher, counter: 0)
    }

    /// Starts at a later record, for tests of the key change.
    init(_ cipher: RecordCipher, counter: UInt64) {
        self.cipher = cipher
        self.counter = counter
    }

    /// Seals a frame in place. The frame is preceded by ``RecordFormat/headerByteCount`` bytes for the header.
    /// - Parameters:
    ///   - record: Memory for header, frame and tag.
    ///   - frameByteCount: 1 to ``RecordFormat/maximumFrameByteCount``.
    /// - Returns: The size of the record.
    package mutating func sealInPlace(_ record: UnsafeMutableRawBufferPointer, frameByteCount: Int) -> Int {
        let sealed = frameByteCount + RecordFormat.tagByteCount
        let total = RecordFormat.headerByteCount + sealed
        // Safe: the program fills the record.
        precondition((1...RecordFormat.maximumFrameByteCount).contains(frameByteCount) && record.count >= total)
        record.storeBytes(of: UInt32(sealed).bigEndian, as: UInt32.self)
        let header = UnsafeRawBufferPointer(rebasing: record[..<RecordFormat.headerByteCount])
        let frame = UnsafeMutableRawBufferPointer(rebasing: record[RecordFormat.headerByteCount..<total])
        cipher.seal(
            UnsafeRawBufferPointer(rebasing: frame[..<frameByteCount]), counter: counter, authenticating: header, into: frame)
        // Bounded: 2^64 records take longer than any link lives.
        counter += 1
        if counter.isMultiple(of: RecordFormat.recordsPerKey) { cipher.ratchet() }
        return total
    }

    /// Seals one frame into a new record.
    package mutating func seal(_ frame: [UInt8]) -> [UInt8] { seal([frame]) }

    /// Seals frames into consecutive records.
    package mutating func seal(_ frames: [[UInt8]]) -> [UInt8] {
        let total = frames.reduce(0) { $0 + RecordFormat.headerByteCount + $1.count + RecordFormat.tagByteCount }
        return [UInt8](unsafeUninitializedCapacity: total) { buffer, count in
            for frame in frames {
                let record = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
                UnsafeMutableRawBufferPointer(rebasing: record[RecordFormat.headerByteCount...]).copyBytes(from: frame)
                count += sealInPlace(record, frameByteCount: frame.count)
            }
        }
    }
}
