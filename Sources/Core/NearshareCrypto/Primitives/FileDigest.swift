internal import NearshareBase

/// The digest that decides whether two files are identical: SHA-256(length of the header u16 ‖ header ‖ content). The header
/// binds it to the name and attributes of the file.
package struct FileDigest: Sendable {
    private var hasher = SHA256Hasher()

    package init(encodedHeader: [UInt8]) {
        var writer = ByteWriter()
        writer.writeCounted(encodedHeader, by: UInt16.self)
        writer.bytes.withUnsafeBytes { hasher.update($0) }
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { hasher.update(bytes) }

    package consuming func finalize() -> [UInt8] { hasher.finalize() }
}
