package import NearshareBase
package import NearshareCrypto

extension EndpointID {
    /// The first 8 bytes of SHA-256("nearshare carried address" ‖ key).
    package init(of key: SigningPublicKey) {
        self.init(hashing: key.bytes)
    }

    init(hashing key: [UInt8]) {
        self.init(bytes: SHA256Hasher.digest(Array("nearshare carried address".utf8) + key).prefix(Self.byteCount))!
    }

    /// What stands for this carrier in the tracklist of one message. Between two messages it can't be recognised without
    /// knowing the address.
    func mark(in id: BundleID) -> UInt32 {
        SHA256Hasher.digest(id.bytes + bytes).prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }
}

extension Bundle {
    /// What is signed. Its hash names the message, so the signature's own bytes don't: there is more than one signature of one
    /// message, but all name the same.
    private var signedBytes: [UInt8] { Self.signatureLabel + encoded }

    package var id: BundleID {
        BundleID(bytes: SHA256Hasher.digest(signedBytes).prefix(BundleID.byteCount))!
    }

    package var sender: EndpointID { EndpointID(hashing: senderKey) }

    /// - Parameter key: the one that ``senderKey`` belongs to.
    package func signature(by key: SigningPrivateKey) -> [UInt8] {
        precondition(key.publicKey.bytes == senderKey)
        return key.signature(for: signedBytes)
    }

    package func isValid(_ signature: [UInt8]) -> Bool {
        guard let key = try? SigningPublicKey(senderKey) else { return false }
        return key.isValid(signature, for: signedBytes)
    }

    private static let signatureLabel = Array("nearshare carried message".utf8)
}

extension BundleAcknowledgement {
    /// What a message has in the open, so that everybody can check an acknowledgement and only its receiver make one.
    package static func lock(for secret: [UInt8]) -> [UInt8] {
        Array(
            SHA256Hasher.digest(Array("nearshare carried lock".utf8) + secret).prefix(Bundle.lockByteCount))
    }

    func fits(_ lock: [UInt8]) -> Bool { Self.lock(for: secret) == lock }
}
