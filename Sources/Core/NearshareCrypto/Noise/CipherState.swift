/// A cipher key k and a nonce n (Noise specification, revision 34, section 5.1).
package struct CipherState: Sendable {
    private var key: SecretBytes?
    /// The nonce of the next message.
    package private(set) var nonce: UInt64 = 0

    /// Creates a state without a key, which leaves messages unencrypted.
    package init() {}

    /// InitializeKey: creates a state with a key and nonce 0.
    package init(key: SecretBytes) {
        self.key = key
    }

    /// HasKey.
    package var hasKey: Bool { key != nil }

    /// SetNonce: lets a receiver decrypt messages out of order (section 11.4). The caller must reject replays.
    package mutating func setNonce(_ nonce: UInt64) {
        self.nonce = nonce
    }

    /// EncryptWithAd: seals a message and increments the nonce.
    package mutating func encrypt(_ plaintext: [UInt8], authenticating associated: [UInt8]) throws(NoiseError) -> [UInt8] {
        guard let key else { return plaintext }
        guard nonce < .max else { throw .nonceExhausted }
        defer { nonce += 1 }
        return ChaCha20Poly1305.seal(plaintext, key: key, nonce: Self.encoded(nonce), authenticating: associated)
    }

    /// DecryptWithAd: opens a message, and increments the nonce when it was authentic.
    package mutating func decrypt(
        _ ciphertext: some Collection<UInt8>, authenticating associated: [UInt8]
    ) throws(NoiseError) -> [UInt8] {
        guard let key else { return Array(ciphertext) }
        guard nonce < .max else { throw .nonceExhausted }
        do {
            let plaintext = try ChaCha20Poly1305.open(
                ciphertext, key: key, nonce: Self.encoded(nonce), authenticating: associated)
            nonce += 1
            return plaintext
        } catch {
            throw .notAuthentic
        }
    }

    /// Calls `body` with the key, for deriving other keys after the handshake; nil without a key.
    package func withKey<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result? { key?.withUnsafeBytes(body) }

    /// The encoded nonce: 32 zero bits and n in little-endian order (section 12.3).
    private static func encoded(_ nonce: UInt64) -> [UInt8] {
        [0, 0, 0, 0] + withUnsafeBytes(of: nonce.littleEndian) { Array($0) }
    }
}
