/// A key and the number of the next message (Noise specification, revision 34, section 5.1).
package struct CipherState: Sendable {
    private var key: SecretBytes?
    package private(set) var nonce: UInt64 = 0

    /// Without a key, what is encrypted passes unchanged.
    package init() {}

    package init(key: SecretBytes) {
        self.key = key
    }

    package var hasKey: Bool { key != nil }

    /// Lets a receiver open a message out of order; keeping track of replays is then its part.
    package mutating func setNonce(_ nonce: UInt64) {
        self.nonce = nonce
    }

    package mutating func encrypt(_ plaintext: [UInt8], authenticating associated: [UInt8]) throws(NoiseError) -> [UInt8] {
        guard let key else { return plaintext }
        guard nonce < .max else { throw .nonceExhausted }
        defer { nonce += 1 }
        return MessageCipher.seal(plaintext, key: key, nonce: Self.encoded(nonce), authenticating: associated)
    }

    package mutating func decrypt(
        _ ciphertext: some Collection<UInt8>, authenticating associated: [UInt8]
    ) throws(NoiseError) -> [UInt8] {
        guard let key else { return Array(ciphertext) }
        guard nonce < .max else { throw .nonceExhausted }
        do {
            let plaintext = try MessageCipher.open(
                ciphertext, key: key, nonce: Self.encoded(nonce), authenticating: associated)
            nonce += 1
            return plaintext
        } catch {
            throw .notAuthentic
        }
    }

    /// The key itself, for deriving keys of another protocol from it once the handshake is over.
    package func withKey<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result? { key?.withUnsafeBytes(body) }

    /// 32 zero bits and the number, little-endian (section 12.3).
    private static func encoded(_ nonce: UInt64) -> [UInt8] {
        [0, 0, 0, 0] + withUnsafeBytes(of: nonce.littleEndian) { Array($0) }
    }
}
