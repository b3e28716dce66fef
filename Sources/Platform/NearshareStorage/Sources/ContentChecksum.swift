internal import CNearshareShims

/// A checksum of a content that is read twice. It costs a small part of what encryption costs, and finds every change of one
/// word and of the order; it is none against forgery.
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
