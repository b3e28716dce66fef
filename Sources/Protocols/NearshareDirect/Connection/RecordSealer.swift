internal import NearshareBase
package import NearshareCrypto

/// One direction's sending half of the record layer: numbers, keys, lengths (`docs/PROTOCOL.md`, section 4).
package struct RecordSealer: Sendable {
    private var cipher: RecordCipher
    private var counter: UInt64

    /// - Parameter cipher: of the direction that goes out, fresh from the handshake.
    package init(_ cipher: RecordCipher) {
        self.init(cipher, counter: 0)
    }

    /// Begins in the middle: nobody sends a million records to see a key change.
    init(_ cipher: RecordCipher, counter: UInt64) {
        self.cipher = cipher
        self.counter = counter
    }

    /// Seals the frame that stands in `record` behind ``RecordFormat/headerByteCount`` bytes of room, in place.
    /// - Parameters:
    ///   - record: room for header, frame and tag at least.
    ///   - frameByteCount: 1 to ``RecordFormat/maximumFrameByteCount``.
    /// - Returns: how many bytes of `record` are to be sent.
    package mutating func sealInPlace(_ record: UnsafeMutableRawBufferPointer, frameByteCount: Int) -> Int {
        let sealed = frameByteCount + RecordFormat.tagByteCount
        let total = RecordFormat.headerByteCount + sealed
        precondition((1...RecordFormat.maximumFrameByteCount).contains(frameByteCount) && record.count >= total)
        record.storeBytes(of: UInt32(sealed).bigEndian, as: UInt32.self)
        let header = UnsafeRawBufferPointer(rebasing: record[..<RecordFormat.headerByteCount])
        let frame = UnsafeMutableRawBufferPointer(rebasing: record[RecordFormat.headerByteCount..<total])
        cipher.seal(
            UnsafeRawBufferPointer(rebasing: frame[..<frameByteCount]), counter: counter, authenticating: header, into: frame)
        counter += 1
        if counter.isMultiple(of: RecordFormat.recordsPerKey) { cipher.ratchet() }
        return total
    }

    /// Seals a frame of its own.
    package mutating func seal(_ frame: [UInt8]) -> [UInt8] { seal([frame]) }

    /// - Returns: a record for each frame, one behind the other.
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
