internal import NearshareBase
internal import NearshareCrypto

/// The keys of one browser's session, agreed on with X25519 (`docs/PROTOCOL.md`, section 15.2). Another browser that has the
/// page's key, and all that was sent, cannot derive them.
struct PageKeys: Sendable {
    static let nonceByteCount = 16

    /// The kinds of records. A nonce consists of a kind and two numbers, so that no key seals two records under the same one.
    enum RecordKind: UInt32, Sendable {
        case hello = 1
        case message = 2
        case chunk = 3
        case state = 4
        case fetch = 5
        case content = 6
        case nodeKey = 7
    }

    /// The browser's public key.
    let browser: AgreementPublicKey
    /// The node's part: without it, a hello that is repeated after its session was forgotten would begin one with the same keys,
    /// and a browser could search for a key pair that gives a code.
    let nonce: [UInt8]
    /// The name of the session in paths: 16 hexadecimal digits.
    let id: PageSessionID
    /// The code that both screens show.
    let shortCode: ShortAuthenticationDigits
    private let browserKey: SecretBytes
    private let serverKey: SecretBytes

    /// - Throws: ``CryptoError/lowOrderPoint`` (K9).
    init(_ secret: PageSecret, browser: AgreementPublicKey, nonce: [UInt8]) throws(CryptoError) {
        let shared = try secret.agreementKey.sharedSecret(with: browser).withUnsafeBytes { Array($0) }
        let info = Array("nearshare page 2".utf8) + browser.bytes + secret.agreementKey.publicKey.bytes + nonce
        let bytes = HKDF.derive(from: shared, salt: secret.key, info: info, byteCount: 80)
        (self.browser, self.nonce) = (browser, nonce)
        browserKey = SecretBytes(bytes[..<32])
        serverKey = SecretBytes(bytes[32..<64])
        id = PageSessionID(bytes: Array(bytes[64..<72]))
        shortCode = ShortAuthenticationDigits(number: bytes[72...].reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// Opens a record of the browser.
    /// - Parameters:
    ///   - first: the first number of the nonce, which depends on the kind.
    ///   - second: the second number of the nonce.
    func open(
        _ sealed: ArraySlice<UInt8>, _ kind: RecordKind, first: UInt32, second: UInt32
    ) throws(CryptoError) -> [UInt8] {
        try ChaCha20Poly1305.open(
            sealed, key: browserKey, nonce: Self.nonce(kind, first: first, second: second), authenticating: [])
    }

    /// Seals a state or content for the browser.
    /// - Parameter number: used once in a session.
    /// - Returns: the number and the sealed bytes.
    func seal(_ bytes: [UInt8], _ kind: RecordKind, number: UInt64) -> [UInt8] {
        let nonce = Self.nonce(
            kind, first: UInt32(truncatingIfNeeded: number >> 32), second: UInt32(truncatingIfNeeded: number))
        var record = ByteWriter()
        record.write(number)
        record.write(ChaCha20Poly1305.seal(bytes, key: serverKey, nonce: nonce, authenticating: []))
        return record.bytes
    }

    static func nonce(_ kind: RecordKind, first: UInt32, second: UInt32) -> [UInt8] {
        [kind.rawValue, first, second].flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * $0)) } }
    }
}

/// The public name of a browser's session.
package struct PageSessionID: Sendable, Hashable {
    package let bytes: [UInt8]
}
