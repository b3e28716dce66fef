package import NearshareBase
package import NearshareCrypto

/// One direction's receiving half of the record layer. A record that is altered, repeated, left out or out of its order
/// does not open, and nothing after it does.
package struct RecordOpener: Sendable {
    private var cipher: RecordCipher
    private var counter: UInt64

    /// - Parameter cipher: of the direction that comes in, fresh from the handshake.
    package init(_ cipher: RecordCipher) {
        self.init(cipher, counter: 0)
    }

    /// Begins in the middle: nobody sends a million records to see a key change.
    init(_ cipher: RecordCipher, counter: UInt64) {
        self.cipher = cipher
        self.counter = counter
    }

    /// How long the record is that begins with these bytes, header included; nil when there are too few to tell.
    package static func recordByteCount(_ bytes: UnsafeRawBufferPointer) throws(MalformedInput) -> Int? {
        guard bytes.count >= RecordFormat.headerByteCount else { return nil }
        let sealed = Int(UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))
        guard sealed > RecordFormat.tagByteCount, sealed <= RecordFormat.maximumSealedByteCount else {
            throw MalformedInput("a record of \(sealed) bytes")
        }
        return RecordFormat.headerByteCount + sealed
    }

    /// Opens one whole record in place.
    /// - Returns: where in `record` its frame stands.
    package mutating func openInPlace(_ record: UnsafeMutableRawBufferPointer) throws(MalformedInput) -> Range<Int> {
        let header = UnsafeRawBufferPointer(rebasing: record[..<RecordFormat.headerByteCount])
        let sealed = UnsafeMutableRawBufferPointer(rebasing: record[RecordFormat.headerByteCount...])
        let count: Int
        do {
            count = try cipher.open(UnsafeRawBufferPointer(sealed), counter: counter, authenticating: header, into: sealed)
        } catch {
            throw MalformedInput("a record that was altered on its way")
        }
        counter += 1
        if counter.isMultiple(of: RecordFormat.recordsPerKey) { cipher.ratchet() }
        return RecordFormat.headerByteCount..<RecordFormat.headerByteCount + count
    }
}
