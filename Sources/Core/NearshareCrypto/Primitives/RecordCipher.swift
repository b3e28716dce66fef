internal import CNearshareCipher
internal import CSodium
internal import Crypto

/// The AEAD for bulk content: numbered records under one key.
///
/// Uses the BoringSSL of swift-crypto, the fastest implementation measured (`docs/decisions/bulk-cipher.md`).
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

        /// Whether the cipher is fast on this machine: AES needs special instructions, ChaCha20 none.
        package var runsAtFullSpeed: Bool {
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

    /// The algorithm.
    package let kind: Kind
    private var key: SymmetricKey
    private var cipher: KeyedCipher

    /// - Parameter key: ``keyByteCount`` bytes.
    package init(_ kind: Kind, key: [UInt8]) {
        // Safe: the length is a constant of the callers.
        precondition(key.count == Self.keyByteCount)
        self.kind = kind
        self.key = SymmetricKey(data: key)
        cipher = KeyedCipher(kind, self.key)
    }

    /// Seals one record: writes ciphertext and tag.
    /// - Parameters:
    ///   - counter: The record's number, which must be unique under the key.
    ///   - associated: Always of the same size, as ``Kind/authenticatedOnly`` does not separate it from the text.
    ///   - output: ``tagByteCount`` bytes more than `plaintext`. Either both start at the same byte, and nothing is copied, or
    ///     they do not overlap.
    package func seal(
        _ plaintext: UnsafeRawBufferPointer, counter: UInt64, authenticating associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) {
        // Safe: the caller computes the room from the text.
        precondition(output.count == plaintext.count + Self.tagByteCount)
        let text = output.prefix(copying: plaintext)
        let tag = UnsafeMutableRawBufferPointer(rebasing: output[plaintext.count...])
        if kind.hidesContent {
            cipher.seal(text, counter: counter, authenticating: associated, tag: tag)
        } else {
            (Array(associated) + Array(text)).withUnsafeBytes {
                cipher.seal(.empty, counter: counter, authenticating: $0, tag: tag)
            }
        }
    }

    /// Opens one record: writes the plaintext.
    /// - Parameter output: At least as long as the plaintext. Either it starts where `sealed` does, and nothing is copied, or
    ///   they do not overlap. When this throws, nothing of the plaintext was written to it.
    /// - Returns: The size of the plaintext.
    /// - Throws: ``CryptoError/notAuthentic``.
    package func open(
        _ sealed: UnsafeRawBufferPointer, counter: UInt64, authenticating associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) -> Int {
        let count = sealed.count - Self.tagByteCount
        guard count >= 0 else { throw .notAuthentic }
        // Safe: the caller computes the room from the sealed text.
        precondition(output.count >= count)
        let ciphertext = UnsafeRawBufferPointer(rebasing: sealed[..<count])
        let tag = UnsafeRawBufferPointer(rebasing: sealed[count...])
        if kind.hidesContent {
            let text = output.prefix(copying: ciphertext)
            guard cipher.open(text, counter: counter, authenticating: associated, tag: tag) else { throw .notAuthentic }
            return count
        }
        let isAuthentic = (Array(associated) + Array(ciphertext)).withUnsafeBytes {
            cipher.open(.empty, counter: counter, authenticating: $0, tag: tag)
        }
        guard isAuthentic else { throw .notAuthentic }
        _ = output.prefix(copying: ciphertext)
        return count
    }

    /// Replaces the key by one derived from it (forward secrecy: the new key does not reveal the old one).
    package mutating func ratchet() {
        let next = key.withUnsafeBytes {
            HKDF.expand($0, info: Array("nearshare ratchet".utf8), byteCount: Self.keyByteCount)
        }
        key = next.withUnsafeBytes { SymmetricKey(data: $0) }
        cipher = KeyedCipher(kind, key)
    }
}

/// A cipher with its expanded key. Immutable, so several threads may use it at once.
private final class KeyedCipher: @unchecked Sendable {
    private let cipher: OpaquePointer

    init(_ kind: RecordCipher.Kind, _ key: SymmetricKey) {
        let isAES: Int32 = kind == .chaCha20Poly1305 ? 0 : 1
        let created = key.withUnsafeBytes { bytes in
            bytes.withMemoryRebound(to: UInt8.self) { nearshare_cipher_create(isAES, $0.baseAddress) }
        }
        // Safe: it fails only where no memory is left, for which Swift's own allocations trap as well.
        guard let created else { preconditionFailure("no memory for a cipher") }
        cipher = created
    }

    deinit { nearshare_cipher_destroy(cipher) }

    /// Encrypts in place, and writes the tag.
    func seal(
        _ text: UnsafeMutableRawBufferPointer, counter: UInt64, authenticating associated: UnsafeRawBufferPointer,
        tag: UnsafeMutableRawBufferPointer
    ) {
        let isSealed = nearshare_cipher_seal(
            cipher, counter, text.baseAddress, text.count, tag.baseAddress, associated.baseAddress, associated.count)
        // Safe: it fails only for texts that are longer than any record.
        precondition(isSealed == 1)
    }

    /// Decrypts in place; the text becomes zeros where the tag does not match.
    func open(
        _ text: UnsafeMutableRawBufferPointer, counter: UInt64, authenticating associated: UnsafeRawBufferPointer,
        tag: UnsafeRawBufferPointer
    ) -> Bool {
        nearshare_cipher_open(
            cipher, counter, text.baseAddress, text.count, tag.baseAddress, associated.baseAddress, associated.count) == 1
    }
}

extension UnsafeMutableRawBufferPointer {
    fileprivate static var empty: Self { Self(start: nil, count: 0) }

    /// Copies bytes to the front, unless they are there already.
    /// - Returns: The part that they take.
    fileprivate func prefix(copying bytes: UnsafeRawBufferPointer) -> Self {
        if let start = baseAddress, UnsafeRawPointer(start) != bytes.baseAddress { copyMemory(from: bytes) }
        return Self(rebasing: self[..<bytes.count])
    }
}
