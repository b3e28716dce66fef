package import NearshareBase

/// A peer's name with a tag of its key, as lists show it where several peers have the name: `anna#1a2b`.
package struct TaggedName: Sendable, Hashable {
    /// The number of hexadecimal digits in the tags of lists.
    package static let minimumDigitCount = 4

    private let name: String
    private let digits: String

    /// - Returns: nil for a text without a name, or without at least ``minimumDigitCount`` hexadecimal digits behind its last
    ///   number sign.
    package init?(_ text: String) {
        let wanted = text.lowercased()
        guard let sign = wanted.lastIndex(of: "#"), sign > wanted.startIndex else { return nil }
        digits = String(wanted[wanted.index(after: sign)...])
        name = String(wanted[..<sign])
        guard (Self.minimumDigitCount...PeerID.byteCount * 2).contains(digits.utf8.count),
            digits.utf8.allSatisfy({
                UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || UInt8(ascii: "a")...UInt8(ascii: "f") ~= $0
            })
        else { return nil }
    }

    /// Whether the text selects a peer: it has the whole name, and an id that begins with the digits.
    package func matches(_ name: DisplayName, _ id: PeerID) -> Bool {
        name.claimed.lowercased() == self.name && id.hex.hasPrefix(digits)
    }
}
