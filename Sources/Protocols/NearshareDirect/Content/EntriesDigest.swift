package import NearshareBase
internal import NearshareCrypto

/// A hash chain over entry headers in stream order: D(0) is 32 zero bytes, D(n) = SHA-256(D(n-1) ‖ header n)
/// (`docs/PROTOCOL.md`, section 6). Equal digests mean equal names, sizes and times in equal order.
package struct EntriesDigest: Sendable, Hashable {
    /// D(n), 32 bytes.
    package private(set) var bytes: [UInt8]

    /// D(0).
    package init() {
        bytes = [UInt8](repeating: 0, count: SHA256Hasher.byteCount)
    }

    /// D(n) of an interrupted transfer.
    init(resuming bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func append(encodedHeader: some Collection<UInt8>) {
        bytes = SHA256Hasher.digest(bytes + encodedHeader)
    }

    /// Replaces D(n) by D(n+1).
    package mutating func append(_ header: EntryHeader) {
        append(encodedHeader: header.encoded)
    }
}
