package import NearshareBase

/// Who this machine is: an X25519 key for handshakes and an Ed25519 key for signatures. Never shown, never logged (K8).
package struct LocalIdentity: Sendable {
    /// Random bytes that an identity is made of.
    package static let seedByteCount = AgreementPrivateKey.byteCount + SigningPrivateKey.byteCount

    package let agreementKey: AgreementPrivateKey
    package let signingKey: SigningPrivateKey
    package let fingerprint: Fingerprint

    package enum Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        case notAKeyFile
        case laterVersion(UInt8)
        case wrongLength(Int)
        case damaged

        package var description: String {
            switch self {
            case .notAKeyFile: "it is no key file of nearshare; \(Self.advice)"
            case .laterVersion(let version): "it was written by a later nearshare (format \(version)); update this one"
            case .wrongLength(let count):
                "it has \(count) bytes, a key file has \(LocalIdentity.encodedByteCount); \(Self.advice)"
            case .damaged: "its bytes have changed since it was written; \(Self.advice)"
            }
        }

        private static var advice: String { "bring back a copy, or remove it to start with a new key" }
    }

    /// - Parameter seed: ``seedByteCount`` random bytes from the kernel.
    package init(seed: [UInt8]) {
        precondition(seed.count == Self.seedByteCount)
        // Both take any 32 bytes.
        agreementKey = try! AgreementPrivateKey(seed: seed[..<AgreementPrivateKey.byteCount], in: .guarded)
        signingKey = try! SigningPrivateKey(seed: seed[AgreementPrivateKey.byteCount...], in: .guarded)
        fingerprint = Fingerprint(of: agreementKey.publicKey)
    }

    package var peerID: PeerID { fingerprint.peerID }

    /// The key file: `NSID`, format 1, both private keys, and the first 8 bytes of the SHA-256 of all that. One flipped bit
    /// would make a different machine of this one, whose friends would be told of a changed key.
    package init(decoding file: [UInt8]) throws(Invalid) {
        guard file.starts(with: Self.magic), file.count > Self.magic.count else { throw .notAKeyFile }
        let format = file[Self.magic.count]
        guard format >= Self.format else { throw .notAKeyFile }
        guard format == Self.format else { throw .laterVersion(format) }
        guard file.count == Self.encodedByteCount else { throw .wrongLength(file.count) }
        let keysEnd = file.count - Self.checkByteCount
        guard Self.check(file[..<keysEnd]) == Array(file[keysEnd...]) else { throw .damaged }
        self.init(seed: Array(file[(Self.magic.count + 1)..<keysEnd]))
    }

    package var encoded: [UInt8] {
        let content =
            Self.magic + [Self.format] + agreementKey.withSecret { Array($0) } + signingKey.withSecret { Array($0) }
        return content + Self.check(content[...])
    }

    private static func check(_ content: ArraySlice<UInt8>) -> [UInt8] {
        Array(SHA256Hasher.digest(Array(content)).prefix(checkByteCount))
    }

    package static let encodedByteCount = magic.count + 1 + seedByteCount + checkByteCount
    private static let magic = Array("NSID".utf8)
    private static let format: UInt8 = 1
    private static let checkByteCount = 8
}

extension LocalIdentity: CustomStringConvertible, CustomReflectable {
    package var description: String { "identity \(peerID)" }
    package var customMirror: Mirror { Mirror(self, children: ["peerID": peerID]) }
}
