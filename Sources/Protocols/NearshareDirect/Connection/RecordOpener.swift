package import NearshareBase
package import NearshareCrypto

/// The receiving half of the record layer (`docs/PROTOCOL.md`, section 4). A record that is altered, repeated, out of order or
/// follows a missing one fails authentication. The caller must end the link then: the opener does not remember it (K13).
package struct RecordOpener: Sendable {
    private var cipher: RecordCipher
    private var counter: UInt64

    /// - Parameter cipher: The cipher of the incoming direction, as the handshake has derived it.
    package init(_ cipher: RecordCipher) {
        self.init(cipher, counter: 0)
    }

    /// Starts at a later record, for tests of the key change.
    init(_ cipher: RecordCipher, counter: UInt64) {
        self.cipher = cipher
        self.counter = counter
    }

    /// Returns the size of the record that starts with these bytes, header included; nil while the header is incomplete.
    package static func recordByteCount(_ bytes: UnsafeRawBufferPointer) throws(MalformedInput) -> Int? {
        guard bytes.count >= RecordFormat.headerByteCount else { return nil }
        let sealed = Int(UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))
        guard sealed > RecordFormat.tagByteCount, sealed <= RecordFormat.maximumSealedByteCount else {
            throw MalformedInput("a sealed record of \(sealed) bytes, outside the limits")
        }
        return RecordFormat.headerByteCount + sealed
    }

    /// Opens one complete record in place.
    /// - Parameter record: Exactly ``recordByteCount(_:)`` bytes. After an error they must not be used.
    /// - Returns: The range of the frame within `record`.
    package mutating func openInPlace(_ record: UnsafeMutableRawBufferPointer) throws(MalformedInput) -> Range<Int> {
        let header = UnsafeRawBufferPointer(rebasing: record[..<RecordFormat.headerByteCount])
        let sealed = UnsafeMutableRawBufferPointer(rebasing: record[RecordFormat.headerByteCount...])
        let count: Int
        do {
            count = try cipher.open(UnsafeRawBufferPointer(sealed), counter: counter, authenticating: header, into: sealed)
        } catch {
            throw MalformedInput("a record that failed authentication")
        }
        // Bounded: 2^64 records take longer than any link lives.
        counter += 1
        if counter.isMultiple(of: RecordFormat.recordsPerKey) { cipher.ratchet() }
        return RecordFormat.headerByteCount..<RecordFormat.headerByteCount + count
    }
}
