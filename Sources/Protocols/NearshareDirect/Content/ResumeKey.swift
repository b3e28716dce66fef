package import NearshareBase
internal import NearshareCrypto

/// The name under which a receiver finds again what it kept of an earlier try: the same for the same items sent again,
/// whatever has become of their content (`docs/PROTOCOL.md`, section 6).
package enum ResumeKey {
    /// SHA-256 over kinds and names of the described items and the number of all; 32 bytes.
    package static func of(_ offer: Offer) -> [UInt8] {
        var writer = ByteWriter()
        writer.write("nearshare resume key".utf8)
        writer.write(offer.itemCount)
        for item in offer.items {
            writer.write(item.kind.rawValue)
            writer.writeCounted(item.name.bytes, by: UInt8.self)
        }
        return SHA256Hasher.digest(writer.bytes)
    }
}
