/// The chaining key ck and the handshake hash h (Noise specification, section 5.2).
struct SymmetricState: Sendable {
    private var cipher = CipherState()
    private var chainingKey: SecretBytes
    /// h.
    private(set) var hash: [UInt8]

    /// InitializeSymmetric.
    init(protocolName: String) {
        let name = Array(protocolName.utf8)
        // Names of up to 32 bytes are padded with zeros, longer ones hashed.
        hash = name.count <= 32 ? name + [UInt8](repeating: 0, count: 32 - name.count) : SHA256Hasher.digest(name)
        chainingKey = SecretBytes(hash)
    }

    /// MixKey.
    mutating func mixKey(_ input: SecretBytes) {
        let (next, key) = HKDF.noise(chainingKey: chainingKey, input: input)
        chainingKey = next
        cipher = CipherState(key: key)
    }

    /// MixHash.
    mutating func mixHash(_ data: [UInt8]) {
        hash = SHA256Hasher.digest(hash + data)
    }

    /// EncryptAndHash.
    mutating func encryptAndHash(_ plaintext: [UInt8]) throws(NoiseError) -> [UInt8] {
        let ciphertext = try cipher.encrypt(plaintext, authenticating: hash)
        mixHash(ciphertext)
        return ciphertext
    }

    /// DecryptAndHash.
    mutating func decryptAndHash(_ ciphertext: [UInt8]) throws(NoiseError) -> [UInt8] {
        let plaintext = try cipher.decrypt(ciphertext, authenticating: hash)
        mixHash(ciphertext)
        return plaintext
    }

    var hasKey: Bool { cipher.hasKey }

    /// Split: the cipher states of both directions, the initiator's first.
    func split() -> (CipherState, CipherState) {
        let (first, second) = HKDF.noise(chainingKey: chainingKey, input: nil)
        return (CipherState(key: first), CipherState(key: second))
    }
}
