package import NearshareBase
package import NearshareCrypto

extension EndpointID {
    /// The ID of a signing key: the first 8 bytes of SHA-256("nearshare carried address" ‖ key).
    package init(of key: SigningPublicKey) {
        self.init(hashing: key.bytes)
    }

    init(hashing key: [UInt8]) {
        let digest = SHA256Hasher.digest(Array("nearshare carried address".utf8) + key)
        self.init(rawValue: UInt64(truncatingBigEndian: digest.prefix(Self.byteCount)))
    }

    /// Represents this endpoint in the list of visited nodes of one bundle. Tags in two bundles cannot be linked without the
    /// endpoint ID.
    package func visitTag(in id: BundleID) -> UInt32 {
        UInt32(truncatingBigEndian: SHA256Hasher.digest(id.bytes + bytes).prefix(4))
    }
}

extension Bundle {
    /// The bytes that are signed. Their hash is the bundle's ID, which therefore does not depend on the signature: several
    /// valid signatures of one bundle may exist.
    private var signedBytes: [UInt8] { Array("nearshare carried message".utf8) + encoded }

    package var id: BundleID {
        // Safe: a digest has 32 bytes.
        BundleID(bytes: SHA256Hasher.digest(signedBytes).prefix(BundleID.byteCount))!
    }

    package var source: EndpointID { EndpointID(hashing: senderKey) }

    /// - Parameter key: The private key of ``senderKey``.
    package func signature(by key: SigningPrivateKey) -> [UInt8] {
        // Safe: the caller has made the bundle with this key.
        precondition(key.publicKey.bytes == senderKey)
        return key.signature(for: signedBytes)
    }

    package func isValid(_ signature: [UInt8]) -> Bool {
        guard let key = try? SigningPublicKey(senderKey) else { return false }
        return key.isValid(signature, for: signedBytes)
    }
}

extension BundleAcknowledgement {
    /// The hash lock of a secret. Every node can verify an acknowledgement against it, and only the destination can create one.
    package static func hashLock(for secret: [UInt8]) -> [UInt8] {
        Array(SHA256Hasher.digest(Array("nearshare carried lock".utf8) + secret).prefix(Bundle.hashLockByteCount))
    }
}
