package import NearshareBase

/// What a nearshare peer says of itself in its DNS-SD TXT record (`docs/PROTOCOL.md`, section 1). Claims, all of it.
///
/// `v=1`, `id=` 16 hexadecimal digits, `n=` the display name, `m=1` where frames of the mesh are taken;
/// then what a program adds.
package struct PeerTXTRecord: Sendable, Hashable {
    /// The node's identifier: the first 8 bytes of its fingerprint.
    package var id: PeerID
    /// What people see.
    package var name: DisplayName
    /// Takes links that carry frames of the mesh.
    package var takesFrames: Bool
    /// What its program adds.
    package var info: DiscoveryInfo

    /// Puts a record together.
    package init(id: PeerID, name: DisplayName, takesFrames: Bool = false, info: DiscoveryInfo = .none) {
        self.id = id
        self.name = name
        self.takesFrames = takesFrames
        self.info = info
    }

    /// As they stand in the record, its own first.
    package var strings: [[UInt8]] {
        [Array("v=1".utf8), Array("id=\(id.hex)".utf8), Array("n=".utf8) + Array(name.claimed.utf8)]
            + (takesFrames ? [Array("m=1".utf8)] : []) + info.strings
    }

    /// Unknown keys are skipped, the first of a repeated key counts (RFC 6763, section 6.4).
    /// - Returns: nil for what no nearshare peer writes.
    package init?(strings: [[UInt8]]) {
        var values: [String: ArraySlice<UInt8>] = [:]
        var others: [(key: String, value: String)] = []
        for string in strings.prefix(16) where string.count <= 255 {
            guard let equals = string.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let key = String(decoding: string[..<equals], as: UTF8.self)
            let value = string[(equals + 1)...]
            if values[key.lowercased()] == nil { values[key.lowercased()] = value }
            if let text = String(validating: value, as: UTF8.self) { others.append((key, text)) }
        }
        guard let id = values["id"].flatMap({ PeerID(hex: String(decoding: $0, as: UTF8.self)) }),
            let name = values["n"].flatMap({ try? DisplayName(utf8: $0) })
        else { return nil }
        self.init(
            id: id, name: name, takesFrames: values["m"].map { $0.elementsEqual("1".utf8) } ?? false,
            info: DiscoveryInfo(claimed: others))
    }
}
