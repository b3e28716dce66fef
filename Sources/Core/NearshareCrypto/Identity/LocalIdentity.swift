package import NearshareBase

/// This machine's private keys: X25519 for handshakes, Ed25519 for signatures. Never printed, never logged (K8).
package struct LocalIdentity: Sendable {
    /// The number of random bytes from which an identity is generated.
    package static let seedByteCount = AgreementPrivateKey.byteCount + SigningPrivateKey.byteCount

    /// The X25519 key of handshakes: Noise's static key.
    package let agreementKey: AgreementPrivateKey
    /// The Ed25519 key of signatures.
    package let signingKey: SigningPrivateKey
    /// The fingerprint of the public agreement key.
    package let fingerprint: Fingerprint

    /// The reason why a key file cannot be used.
    package enum Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        /// The file does not start with the format's magic bytes.
        case notAKeyFile
        /// The file has a format that this version does not know.
        case laterVersion(UInt8)
        /// The file has another length than the format's.
        case wrongLength(Int)
        /// The check bytes do not match.
        case damaged

        package var description: String {
            switch self {
            case .notAKeyFile: "it is not a key file of nearshare; \(Self.advice)"
            case .laterVersion(let version):
                "it was written by a newer version of nearshare (format \(version)); update nearshare"
            case .wrongLength(let count):
                "it has \(count) bytes, a key file has \(LocalIdentity.encodedByteCount); \(Self.advice)"
            case .damaged: "its bytes have changed since it was written; \(Self.advice)"
            }
        }

        private static var advice: String { "restore a backup, or remove it to create a new key" }
    }

    /// Generates an identity.
    /// - Parameter seed: ``seedByteCount`` random bytes from the kernel.
    package init(seed: [UInt8]) {
        // Safe: callers draw `seedByteCount` bytes, and a key file of another length is rejected before.
        precondition(seed.count == Self.seedByteCount)
        // Safe: both accept any 32 bytes.
        agreementKey = try! AgreementPrivateKey(seed: seed[..<AgreementPrivateKey.byteCount], in: .guarded)
        // Safe: as above.
        signingKey = try! SigningPrivateKey(seed: seed[AgreementPrivateKey.byteCount...], in: .guarded)
        fingerprint = Fingerprint(of: agreementKey.publicKey)
    }

    /// The id by which peers know this machine: the beginning of the fingerprint.
    package var peerID: PeerID { fingerprint.peerID }

    /// Decodes a key file: `NSID`, format 1, both private keys, and the first 8 bytes of the SHA-256 of what precedes them. The
    /// check bytes detect corruption, which would otherwise change the identity unnoticed.
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

    /// The content of the key file, see ``init(decoding:)``.
    package var encoded: [UInt8] {
        let content =
            Self.magic + [Self.format] + agreementKey.withSecret { Array($0) } + signingKey.withSecret { Array($0) }
        return content + Self.check(content[...])
    }

    private static func check(_ content: ArraySlice<UInt8>) -> [UInt8] {
        Array(SHA256Hasher.digest(Array(content)).prefix(checkByteCount))
    }

    /// The size of a key file.
    package static let encodedByteCount = magic.count + 1 + seedByteCount + checkByteCount
    private static let magic = Array("NSID".utf8)
    private static let format: UInt8 = 1
    private static let checkByteCount = 8
}

extension LocalIdentity: CustomStringConvertible, CustomReflectable {
    package var description: String { "identity \(peerID)" }
    package var customMirror: Mirror { Mirror(self, children: ["peerID": peerID]) }
}
