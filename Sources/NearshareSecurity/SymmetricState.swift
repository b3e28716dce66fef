internal import NearshareCrypto

/// The chaining key and the hash of all that was said (Noise specification, section 5.2).
struct SymmetricState: Sendable {
    private var cipher = CipherState()
    private var chainingKey: [UInt8]
    private(set) var hash: [UInt8]

    init(protocolName: String) {
        let name = Array(protocolName.utf8)
        // Names of up to 32 bytes are padded, longer ones hashed; ours has 32.
        hash = name.count <= 32 ? name + [UInt8](repeating: 0, count: 32 - name.count) : SHA256Hasher.digest(name)
        chainingKey = hash
    }

    mutating func mixKey(_ input: SecretBytes) {
        let (next, key) = Self.derive(from: input.withUnsafeBytes { Array($0) }, chainingKey: chainingKey)
        chainingKey = next
        cipher = CipherState(key: SecretBytes(key))
    }

    mutating func mixHash(_ data: [UInt8]) {
        hash = SHA256Hasher.digest(hash + data)
    }

    mutating func encryptAndHash(_ plaintext: [UInt8]) throws(NoiseError) -> [UInt8] {
        let ciphertext = try cipher.encrypt(plaintext, authenticating: hash)
        mixHash(ciphertext)
        return ciphertext
    }

    mutating func decryptAndHash(_ ciphertext: [UInt8]) throws(NoiseError) -> [UInt8] {
        let plaintext = try cipher.decrypt(ciphertext, authenticating: hash)
        mixHash(ciphertext)
        return plaintext
    }

    var hasKey: Bool { cipher.hasKey }

    /// The keys of both directions, the initiator's first.
    func split() -> (CipherState, CipherState) {
        let (first, second) = Self.derive(from: [], chainingKey: chainingKey)
        return (CipherState(key: SecretBytes(first)), CipherState(key: SecretBytes(second)))
    }

    /// HKDF with two outputs as section 4.3 defines it: RFC 5869 with the chaining key as salt and no info.
    private static func derive(from input: [UInt8], chainingKey: [UInt8]) -> ([UInt8], [UInt8]) {
        let output = HKDF.derive(from: input, salt: chainingKey, info: [], byteCount: 64)
        return (Array(output[..<32]), Array(output[32...]))
    }
}
