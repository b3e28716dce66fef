package import NearshareBase
internal import NearshareCrypto

/// SHA-256 chained over the headers of entries in stream order: H(0) is 32 zero bytes, H(n) = SHA-256(H(n-1) ‖ header n)
/// (`docs/PROTOCOL.md`, section 6). Two walks with equal digests met the same names, sizes and times in the same order.
package struct EntriesDigest: Sendable, Hashable {
    /// D(n), 32 bytes.
    package internal(set) var bytes = [UInt8](repeating: 0, count: 32)

    /// D(0).
    package init() {}

    mutating func append(encodedHeader: some Collection<UInt8>) {
        bytes = SHA256Hasher.digest(bytes + encodedHeader)
    }

    /// Goes on from D(n) to D(n+1).
    package mutating func append(_ header: EntryHeader) {
        append(encodedHeader: header.encoded)
    }
}
