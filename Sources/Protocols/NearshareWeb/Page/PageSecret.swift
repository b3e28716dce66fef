internal import NearshareBase
package import NearshareCrypto

/// The secrets of one page: its path, which keeps other programs of the network from loading it, and its keys, which no request
/// contains. All are fresh for each run (`docs/PROTOCOL.md`, section 15).
package struct PageSecret: Sendable {
    /// The random bytes of a secret.
    package static let byteCount = pathByteCount + AgreementPrivateKey.byteCount + derivationKeyByteCount
    private static let keyByteCount = 16
    private static let pathByteCount = 5
    private static let derivationKeyByteCount = 16
    private static let unencryptedPathByteCount = 16

    /// The path without its slash: 8 characters of Base32.
    package let path: String
    /// The key in the fragment of the address: the start of a digest of the node's public key. Who has it, recognises that key.
    let key: [UInt8]
    /// The private key of the key agreement with each browser.
    let agreementKey: AgreementPrivateKey
    /// The key from which nonces and the paths of unencrypted downloads are derived. A browser learns its own nonces and paths
    /// only.
    private let derivationKey: [UInt8]

    /// - Parameter random: ``byteCount`` fresh random bytes.
    /// - Throws: ``CryptoError/wrongLength(expected:actual:)``.
    package init(random: [UInt8]) throws(CryptoError) {
        guard random.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: random.count) }
        path = BaseEncoding.base32.encode(Array(random.prefix(Self.pathByteCount)))
        let seed = random.dropFirst(Self.pathByteCount).prefix(AgreementPrivateKey.byteCount)
        agreementKey = try AgreementPrivateKey(seed: seed)
        let digest = SHA256Hasher.digest(Array("nearshare page key".utf8) + agreementKey.publicKey.bytes)
        key = Array(digest.prefix(Self.keyByteCount))
        derivationKey = Array(random.suffix(Self.derivationKeyByteCount))
    }

    /// The address of the page, in capitals, for which a QR code needs least room. Scheme and path are compared without case.
    /// - Parameter host: a numeric address.
    package func url(host: String, port: UInt16) -> String {
        "HTTP://\(Self.authority(host: host, port: port).uppercased())/\(path)#\(BaseEncoding.base32.encode(key))"
    }

    /// The path of an unencrypted download: 26 characters of Base32.
    /// - Parameter number: different for each.
    func unencryptedPath(number: UInt64) -> String {
        BaseEncoding.base32.encode(derive("nearshare page direct", number, byteCount: Self.unencryptedPathByteCount))
    }

    /// The nonce of a session, which no browser can predict.
    /// - Parameter number: different for each.
    func sessionNonce(number: UInt64) -> [UInt8] {
        derive("nearshare page session", number, byteCount: PageKeys.nonceByteCount)
    }

    private func derive(_ purpose: String, _ number: UInt64, byteCount: Int) -> [UInt8] {
        HKDF.derive(from: derivationKey, salt: number.bigEndianBytes, info: Array(purpose.utf8), byteCount: byteCount)
    }

    /// The value of Host in the requests of a browser that has opened an address.
    package static func authority(host: String, port: UInt16) -> String {
        let host = host.contains(":") ? "[\(host)]" : host
        // Browsers leave the default port out.
        return port == 80 ? host : "\(host):\(port)"
    }
}
