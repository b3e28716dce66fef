package import NearshareBase
internal import NearshareCrypto

/// The key under which a receiver finds the content that it has kept of an interrupted transfer (`docs/PROTOCOL.md`, section
/// 6).
package enum ResumeKey {
    /// SHA-256 over kinds and names of the described items and the number of all items: 32 bytes. Equal for a repeated send of
    /// the same items, even when their content has changed.
    package static func derive(from offer: Offer) -> [UInt8] {
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
