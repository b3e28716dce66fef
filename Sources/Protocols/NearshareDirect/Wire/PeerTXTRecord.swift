package import NearshareBase

/// The DNS-SD TXT record of a nearshare peer (`docs/PROTOCOL.md`, section 1): unauthenticated claims.
///
/// `v=1`, `id=` 16 hexadecimal digits, `n=` the display name, `m=1` when the peer accepts mesh links; then the program's own
/// pairs.
package struct PeerTXTRecord: Sendable, Hashable {
    /// The short name of the peer's key.
    package var id: PeerID
    /// The display name.
    package var name: DisplayName
    /// Whether the peer accepts mesh links at the same port.
    package var acceptsMeshLinks: Bool
    /// The program's own pairs.
    package var info: DiscoveryInfo

    /// Limit on the strings that are decoded.
    private static let maximumStringCount = 16

    /// Creates a record.
    package init(id: PeerID, name: DisplayName, acceptsMeshLinks: Bool = false, info: DiscoveryInfo = .none) {
        self.id = id
        self.name = name
        self.acceptsMeshLinks = acceptsMeshLinks
        self.info = info
    }

    /// The strings of the record, nearshare's own first.
    package var strings: [[UInt8]] {
        [Array("v=1".utf8), Array("id=\(id.hex)".utf8), Array("n=".utf8) + Array(name.claimed.utf8)]
            + (acceptsMeshLinks ? [Array("m=1".utf8)] : []) + info.strings
    }

    /// Decodes a record. Unknown keys are ignored, and the first of duplicate keys counts (RFC 6763, section 6.4).
    /// - Returns: nil for a record without a valid id and name.
    package init?(strings: [[UInt8]]) {
        var values: [String: ArraySlice<UInt8>] = [:]
        var others: [(key: String, value: String)] = []
        for string in strings.prefix(Self.maximumStringCount) where string.count <= DiscoveryInfo.maximumPairByteCount {
            guard let equals = string.firstIndex(of: UInt8(ascii: "=")) else {
                // Present without a value, so that a later pair of this key does not count.
                let key = String(decoding: string, as: UTF8.self).lowercased()
                if values[key] == nil { values[key] = [] }
                continue
            }
            let key = String(decoding: string[..<equals], as: UTF8.self)
            let value = string[(equals + 1)...]
            if values[key.lowercased()] == nil { values[key.lowercased()] = value }
            if let text = String(validating: value, as: UTF8.self) { others.append((key, text)) }
        }
        guard let id = values["id"].flatMap({ PeerID(hex: String(decoding: $0, as: UTF8.self)) }),
            let name = values["n"].flatMap({ try? DisplayName(utf8: $0) })
        else { return nil }
        self.init(
            id: id, name: name, acceptsMeshLinks: values["m"].map { $0.elementsEqual("1".utf8) } ?? false,
            info: DiscoveryInfo(claimed: others))
    }
}
