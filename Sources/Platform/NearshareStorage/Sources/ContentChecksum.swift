internal import CNearshareShims

/// A checksum that compares two readings of the same content, at a small part of the cost of encryption. It finds every change of
/// a single word, and other changes, reordering included, unless the sums happen to agree. It does not protect against forgery.
struct ContentChecksum: Equatable {
    private var state = nearshare_checksum()

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        nearshare_checksum_update(&state, bytes.baseAddress, bytes.count)
    }

    static func == (left: ContentChecksum, right: ContentChecksum) -> Bool {
        withUnsafePointer(to: left.state) { left in
            withUnsafePointer(to: right.state) { nearshare_checksum_equal(left, $0) != 0 }
        }
    }
}
