/// A MIME type as a sender claims it: printable ASCII, `type/subtype`. A hint that is shown and never acted upon.
package struct ClaimedMediaType: Sendable, Hashable {
    /// Longer types are rejected, not truncated.
    package static let maximumByteCount = 100
    /// The type of content of which nothing is known.
    package static let unknown = ClaimedMediaType(unchecked: "application/octet-stream")
    /// The type of folders.
    package static let folder = ClaimedMediaType(unchecked: "inode/directory")
    /// The type of text messages.
    package static let text = ClaimedMediaType(unchecked: "text/plain")

    /// Printable ASCII without spaces.
    package let text: String

    /// - Returns: nil for text that does not have the form of a MIME type.
    package init?(_ text: String) {
        let parts = text.split(atScalar: "/", omittingEmpty: false)
        guard text.utf8.count <= Self.maximumByteCount, parts.count == 2, parts.allSatisfy({ !$0.isEmpty }),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { return nil }
        self.text = text
    }

    private init(unchecked text: String) {
        self.text = text
    }
}

extension ClaimedMediaType: CustomStringConvertible {
    package var description: String { text }
}
