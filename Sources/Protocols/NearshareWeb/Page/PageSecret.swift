internal import NearshareBase
internal import NearshareCrypto

/// The secrets of one page: its path, which keeps other programs of the network from loading it, and its key, which no request
/// contains. Both are fresh for each run (`docs/PROTOCOL.md`, section 15).
package struct PageSecret: Sendable {
    /// The random bytes of a secret.
    package static let byteCount = pathByteCount + keyByteCount + directKeyByteCount
    static let keyByteCount = 16
    private static let pathByteCount = 5
    private static let directKeyByteCount = 16
    private static let directPathByteCount = 16

    /// The path without its slash: 8 characters of Base32.
    package let path: String
    let key: [UInt8]
    /// The key of the paths of direct downloads, which no browser has: each learns its own paths alone.
    private let directKey: [UInt8]

    /// - Parameter random: ``byteCount`` fresh random bytes.
    package init(random: [UInt8]) {
        path = Base32.encode(Array(random.prefix(Self.pathByteCount)))
        key = Array(random.dropFirst(Self.pathByteCount).prefix(Self.keyByteCount))
        directKey = Array(random.dropFirst(Self.pathByteCount + Self.keyByteCount).prefix(Self.directKeyByteCount))
    }

    /// The address of the page, in capitals, for which a QR code needs least room. Scheme and path are compared without case.
    /// - Parameter host: a numeric address.
    package func url(host: String, port: UInt16) -> String {
        "HTTP://\(Self.authority(host: host, port: port).uppercased())/\(path)#\(Base32.encode(key))"
    }

    /// The path of a direct download: 26 characters of Base32.
    /// - Parameter number: different for each.
    func directPath(number: UInt64) -> String {
        let bytes = HKDF.derive(
            from: directKey, salt: number.bigEndianBytes, info: Array("nearshare page direct".utf8),
            byteCount: Self.directPathByteCount)
        return Base32.encode(bytes)
    }

    /// The value of Host in the requests of a browser that has opened an address.
    package static func authority(host: String, port: UInt16) -> String {
        let host = host.contains(":") ? "[\(host)]" : host
        // Browsers leave the default port out.
        return port == 80 ? host : "\(host):\(port)"
    }
}
