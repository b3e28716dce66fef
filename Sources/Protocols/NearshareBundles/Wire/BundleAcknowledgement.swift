package import NearshareBase

/// Proof that a bundle has reached its destination. Every node that stores the bundle can verify it, as the secret hashes to
/// ``Bundle/hashLock``.
///
///     id 16 · secret 16
package struct BundleAcknowledgement: Sendable, Hashable {
    /// Size of the secret, in bytes.
    package static let secretByteCount = 16

    /// The ID of the bundle that has been delivered, not of the one that carries this acknowledgement.
    package let id: BundleID
    /// ``secretByteCount`` bytes, which only the destination can read in the bundle.
    package let secret: [UInt8]

    /// Traps when the secret does not have its size.
    package init(id: BundleID, secret: [UInt8]) {
        // Safe: this node draws its secrets, and those of others are decoded by the initializer below.
        precondition(secret.count == Self.secretByteCount)
        self.id = id
        self.secret = secret
    }

    /// - Throws: for anything but one whole acknowledgement.
    package init(decoding body: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(body, of: "acknowledgement")
        guard let id = BundleID(bytes: try reader.readBytes(BundleID.byteCount)) else {
            throw MalformedInput("acknowledgement: no bundle ID")
        }
        self.id = id
        secret = Array(try reader.readBytes(Self.secretByteCount))
        try reader.finish()
    }

    /// The body of the bundle that carries this acknowledgement.
    package var encoded: [UInt8] { id.bytes + secret }
}
