internal import Crypto

/// A key pair of ML-KEM-768 (FIPS 203), for one key exchange.
package struct DecapsulationKey: Sendable {
    /// The size of the seed, d ‖ z.
    package static let seedByteCount = 64
    /// The size of an encapsulation key.
    package static let encapsulationKeyByteCount = 1184
    /// The size of a ciphertext.
    package static let ciphertextByteCount = 1088

    /// The public key, for the peer.
    package let encapsulationKey: [UInt8]
    private let key: MLKEM768.PrivateKey

    /// ML-KEM.KeyGen.
    /// - Parameter seed: ``seedByteCount`` fresh random bytes.
    package init(seed: some Collection<UInt8>) throws(CryptoError) {
        guard let key = try? MLKEM768.PrivateKey(seedRepresentation: Array(seed), publicKey: nil) else {
            throw .wrongLength(expected: Self.seedByteCount, actual: seed.count)
        }
        self.key = key
        encapsulationKey = Array(key.publicKey.rawRepresentation)
    }

    /// ML-KEM.Decaps: returns the shared secret, 32 bytes. For a ciphertext that was altered it is another one than the peer's,
    /// which shows when it is used.
    package func decapsulate(_ ciphertext: [UInt8]) throws(CryptoError) -> SecretBytes {
        guard let secret = try? key.decapsulate(ciphertext) else {
            throw .wrongLength(expected: Self.ciphertextByteCount, actual: ciphertext.count)
        }
        return SecretBytes(secret)
    }

    /// ML-KEM.Encaps, with randomness of its own: returns a new shared secret, 32 bytes, and its ciphertext for the owner of the
    /// key.
    /// - Throws: ``CryptoError/notCanonical`` for bytes that are no encapsulation key.
    package static func encapsulate(
        to encapsulationKey: [UInt8]
    ) throws(CryptoError) -> (secret: SecretBytes, ciphertext: [UInt8]) {
        guard let result = try? MLKEM768.PublicKey(rawRepresentation: encapsulationKey).encapsulate() else {
            throw .notCanonical
        }
        return (SecretBytes(result.sharedSecret), Array(result.encapsulated))
    }
}

extension SecretBytes {
    fileprivate convenience init(_ key: SymmetricKey) {
        self.init(byteCount: key.bitCount / 8) { output in key.withUnsafeBytes { output.copyMemory(from: $0) } }
    }
}
