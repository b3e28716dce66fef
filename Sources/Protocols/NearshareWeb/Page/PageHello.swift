internal import NearshareCrypto
internal import NearshareHTTP

/// The first request of a browser: its public key, and a proof that it has the page's key (`docs/PROTOCOL.md`, section 15.2).
struct PageHello: Sendable {
    /// The size of the request's body.
    static let byteCount = AgreementPublicKey.byteCount + ChaCha20Poly1305.tagByteCount

    /// The browser's public key.
    let browser: AgreementPublicKey
    private let helloKey: SecretBytes

    /// - Throws: ``HTTPStatus/badRequest`` for no public key (K9), ``HTTPStatus/forbidden`` for a proof that is not authentic.
    init(_ body: [UInt8], _ secret: PageSecret) throws(HTTPStatus) {
        guard body.count == Self.byteCount, let browser = try? AgreementPublicKey(body.prefix(AgreementPublicKey.byteCount))
        else { throw .badRequest }
        let bytes = HKDF.derive(
            from: secret.key, salt: browser.bytes, info: Array("nearshare page 2 hello".utf8), byteCount: 32)
        helloKey = SecretBytes(bytes)
        self.browser = browser
        let proof = body.dropFirst(AgreementPublicKey.byteCount)
        let nonce = PageKeys.nonce(.hello, first: 0, second: 0)
        guard (try? ChaCha20Poly1305.open(proof, key: helloKey, nonce: nonce, authenticating: [])) != nil else {
            throw .forbidden
        }
    }

    /// The node's public key for the browser. Sealed, because the page's key is a digest of it.
    func sealedNodeKey(_ secret: PageSecret) -> [UInt8] {
        ChaCha20Poly1305.seal(
            secret.agreementKey.publicKey.bytes, key: helloKey, nonce: PageKeys.nonce(.nodeKey, first: 0, second: 0),
            authenticating: [])
    }
}
