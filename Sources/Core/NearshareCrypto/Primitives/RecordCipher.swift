internal import CSodium
internal import Crypto

/// The AEAD for bulk content: numbered records under one key.
///
/// swift-crypto's implementation, the fastest of those that were measured (`docs/decisions/bulk-cipher.md`).
package struct RecordCipher: Sendable {
    /// The values stand for the cipher on the wire.
    package enum Kind: UInt8, Sendable, Hashable, CaseIterable {
        case aes256GCM = 1
        case chaCha20Poly1305 = 2
        /// Nothing is hidden, nothing can be altered unseen: AES-256-GCM over no plaintext, with the record as associated data.
        case authenticatedOnly = 3

        /// What is sealed can be read by nobody else.
        package var hidesContent: Bool { self != .authenticatedOnly }

        /// Whether this machine has instructions that make the cipher fast; ChaCha20 needs none.
        package var isAcceleratedHere: Bool {
            switch self {
            case .aes256GCM, .authenticatedOnly: Sodium.isReady && crypto_aead_aes256gcm_is_available() == 1
            case .chaCha20Poly1305: true
            }
        }
    }

    package static let keyByteCount = 32
    package static let tagByteCount = 16
    private static let nonceByteCount = 12

    package let kind: Kind
    private var key: SymmetricKey

    package init(_ kind: Kind, key: [UInt8]) {
        precondition(key.count == Self.keyByteCount)
        self.kind = kind
        self.key = SymmetricKey(data: key)
    }

    /// Writes ciphertext and tag. `output` may be the memory of `plaintext`.
    /// - Parameters:
    ///   - counter: never twice under one key.
    ///   - output: exactly ``tagByteCount`` bytes longer than `plaintext`.
    package func seal(
        _ plaintext: UnsafeRawBufferPointer, counter: UInt64, authenticating associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) {
        precondition(output.count == plaintext.count + Self.tagByteCount)
        if kind == .authenticatedOnly { return authenticate(plaintext, counter, associated, into: output) }
        // Sealing fails for lengths only that no record has.
        let box =
            switch kind {
            case .aes256GCM:
                try! AES.GCM.seal(plaintext, using: key, nonce: Self.nonce(counter), authenticating: associated).combined!
            case .chaCha20Poly1305:
                try! ChaChaPoly.seal(plaintext, using: key, nonce: Self.nonce(counter), authenticating: associated).combined
            case .authenticatedOnly: preconditionFailure("dealt with above")
            }
        // Ciphertext and tag stand together behind the nonce: one copy moves both.
        box.withUnsafeBytes { output.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[Self.nonceByteCount...])) }
    }

    /// Leaves the plaintext as it is, with a tag behind it.
    private func authenticate(
        _ plaintext: UnsafeRawBufferPointer, _ counter: UInt64, _ associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) {
        let box = try! AES.GCM.seal(
            [UInt8](), using: key, nonce: Self.nonce(counter), authenticating: Array(associated) + Array(plaintext))
        output.copyMemory(from: plaintext)
        box.tag.withUnsafeBytes { output[plaintext.count...].copyBytes(from: $0) }
    }

    /// Writes the plaintext; `output` may be the memory of `sealed`, and is left alone when this throws.
    /// - Returns: how many bytes the plaintext has.
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
                case .authenticatedOnly: preconditionFailure("dealt with above")
                }
            plaintext.withUnsafeBytes { output.copyMemory(from: $0) }
        } catch {
            throw .notAuthentic
        }
        return count
    }

    /// Replaces the key by one derived from it; the old one can't be found from the new one.
    package mutating func ratchet() {
        let next = key.withUnsafeBytes {
            HKDF.expand($0, info: Array("nearshare ratchet".utf8), byteCount: Self.keyByteCount)
        }
        key = next.withUnsafeBytes { SymmetricKey(data: $0) }
    }

    /// Four zero bytes and the counter, big-endian.
    private static func nonce<Nonce: RecordNonce>(_ counter: UInt64) -> Nonce {
        var bytes: (UInt32, UInt32, UInt32) = (
            0, UInt32(truncatingIfNeeded: counter >> 32).bigEndian, UInt32(truncatingIfNeeded: counter).bigEndian
        )
        return withUnsafeBytes(of: &bytes) { try! Nonce(data: $0) }
    }
}

private protocol RecordNonce {
    init(data: UnsafeRawBufferPointer) throws
}

extension AES.GCM.Nonce: RecordNonce {}
extension ChaChaPoly.Nonce: RecordNonce {}
