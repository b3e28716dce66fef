internal import CSodium
internal import Crypto

/// The AEAD for bulk content: numbered records under one key.
///
/// Uses swift-crypto, the fastest implementation measured (`docs/decisions/bulk-cipher.md`).
package struct RecordCipher: Sendable {
    /// The algorithm. The raw values are those of the wire format.
    package enum Kind: UInt8, Sendable, Hashable, CaseIterable {
        /// AES-256-GCM.
        case aes256GCM = 1
        /// ChaCha20-Poly1305 (RFC 8439).
        case chaCha20Poly1305 = 2
        /// Integrity without confidentiality: AES-256-GCM over an empty plaintext, with the record as associated data.
        case authenticatedOnly = 3

        /// Whether the cipher provides confidentiality.
        package var hidesContent: Bool { self != .authenticatedOnly }

        /// Whether this machine accelerates the cipher; ChaCha20 needs no special instructions.
        package var isAcceleratedHere: Bool {
            switch self {
            case .aes256GCM, .authenticatedOnly: Sodium.isReady && crypto_aead_aes256gcm_is_available() == 1
            case .chaCha20Poly1305: true
            }
        }
    }

    /// The size of a key.
    package static let keyByteCount = 32
    /// The size of the authentication tag.
    package static let tagByteCount = 16
    private static let nonceByteCount = 12

    /// The algorithm.
    package let kind: Kind
    private var key: SymmetricKey

    /// - Parameter key: ``keyByteCount`` bytes.
    package init(_ kind: Kind, key: [UInt8]) {
        precondition(key.count == Self.keyByteCount)
        self.kind = kind
        self.key = SymmetricKey(data: key)
    }

    /// Seals one record: writes ciphertext and tag.
    /// - Parameters:
    ///   - counter: The record's number, which must be unique under the key.
    ///   - output: ``tagByteCount`` bytes more than `plaintext`, which it may overlap.
    package func seal(
        _ plaintext: UnsafeRawBufferPointer, counter: UInt64, authenticating associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) {
        precondition(output.count == plaintext.count + Self.tagByteCount)
        if kind == .authenticatedOnly { return authenticate(plaintext, counter, associated, into: output) }
        // Safe: sealing fails only for plaintexts longer than any record.
        let box =
            switch kind {
            case .aes256GCM:
                // Safe: sealing fails for wrong nonce sizes only, and `combined` is nil for others than 12 bytes.
                try! AES.GCM.seal(plaintext, using: key, nonce: Self.nonce(counter), authenticating: associated).combined!
            case .chaCha20Poly1305:
                // Safe: as above.
                try! ChaChaPoly.seal(plaintext, using: key, nonce: Self.nonce(counter), authenticating: associated).combined
            case .authenticatedOnly: preconditionFailure("handled above")
            }
        // The combined form is nonce, ciphertext, tag: one copy moves the last two.
        box.withUnsafeBytes { output.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[Self.nonceByteCount...])) }
    }

    /// Writes the plaintext unchanged, followed by the tag.
    private func authenticate(
        _ plaintext: UnsafeRawBufferPointer, _ counter: UInt64, _ associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) {
        // Safe: sealing fails only for plaintexts longer than any record.
        let box = try! AES.GCM.seal(
            [UInt8](), using: key, nonce: Self.nonce(counter), authenticating: Array(associated) + Array(plaintext))
        output.copyMemory(from: plaintext)
        box.tag.withUnsafeBytes { output[plaintext.count...].copyBytes(from: $0) }
    }

    /// Opens one record: writes the plaintext.
    /// - Parameter output: At least as long as the plaintext; may overlap `sealed`. Unchanged when this throws.
    /// - Returns: The size of the plaintext.
    /// - Throws: ``CryptoError/notAuthentic``.
    package func open(
        _ sealed: UnsafeRawBufferPointer, counter: UInt64, authenticating associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) -> Int {
        let count = sealed.count - Self.tagByteCount
        guard count >= 0 else { throw .notAuthentic }
        let ciphertext = UnsafeRawBufferPointer(rebasing: sealed[..<count])
        let tag = UnsafeRawBufferPointer(rebasing: sealed[count...])
        do {
            if kind == .authenticatedOnly {
                let box = try AES.GCM.SealedBox(nonce: Self.nonce(counter), ciphertext: [], tag: tag)
                _ = try AES.GCM.open(box, using: key, authenticating: Array(associated) + Array(ciphertext))
                output.copyMemory(from: ciphertext)
                return count
            }
            let plaintext =
                switch kind {
                case .aes256GCM:
                    try AES.GCM.open(
                        AES.GCM.SealedBox(nonce: Self.nonce(counter), ciphertext: ciphertext, tag: tag), using: key,
                        authenticating: associated)
                case .chaCha20Poly1305:
                    try ChaChaPoly.open(
                        ChaChaPoly.SealedBox(nonce: Self.nonce(counter), ciphertext: ciphertext, tag: tag), using: key,
                        authenticating: associated)
                case .authenticatedOnly: preconditionFailure("handled above")
                }
            plaintext.withUnsafeBytes { output.copyMemory(from: $0) }
        } catch {
            throw .notAuthentic
        }
        return count
    }

    /// Replaces the key by one derived from it (forward secrecy: the new key does not reveal the old one).
    package mutating func ratchet() {
        let next = key.withUnsafeBytes {
            HKDF.expand($0, info: Array("nearshare ratchet".utf8), byteCount: Self.keyByteCount)
        }
        key = next.withUnsafeBytes { SymmetricKey(data: $0) }
    }

    /// The nonce of a record: four zero bytes and the counter, big-endian.
    private static func nonce<Nonce: RecordNonce>(_ counter: UInt64) -> Nonce {
        var bytes: (UInt32, UInt32, UInt32) = (
            0, UInt32(truncatingIfNeeded: counter >> 32).bigEndian, UInt32(truncatingIfNeeded: counter).bigEndian
        )
        // Safe: a nonce is created from any 12 bytes.
        return withUnsafeBytes(of: &bytes) { try! Nonce(data: $0) }
    }
}

private protocol RecordNonce {
    init(data: UnsafeRawBufferPointer) throws
}

extension AES.GCM.Nonce: RecordNonce {}
extension ChaChaPoly.Nonce: RecordNonce {}
