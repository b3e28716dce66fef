/// The files of a transfer that were not stored although others were: their number, and the first of them.
package struct MissingFiles: Sendable, Hashable {
    /// Limit on listed names: more of them would push other lines off the screen.
    package static let maximumListedCount = 5

    /// All missing files, also those that are not listed.
    package let count: UInt64
    /// The files that were to be transferred.
    package let offered: UInt64
    /// The names of at most ``maximumListedCount`` files: the last components of their paths.
    package let listed: [ClaimedFileName]
    /// The content of the missing files that the byte count of the transfer includes.
    package var contentByteCount: UInt64 = 0

    /// - Returns: nil when no file is missing, and when no other was stored.
    package init?(_ names: [ClaimedFileName], of offered: Int) {
        guard !names.isEmpty, names.count < offered else { return nil }
        (count, self.offered) = (UInt64(names.count), UInt64(offered))
        listed = Array(names.prefix(Self.maximumListedCount))
    }

    /// - Parameter listed: the first names; at most ``maximumListedCount`` are kept.
    /// - Returns: nil when no file is missing, and when no other was stored.
    package init?(count: UInt64, of offered: UInt64, listed: [ClaimedFileName]) {
        guard count > 0, count < offered else { return nil }
        (self.count, self.offered) = (count, offered)
        self.listed = Array(listed.prefix(Self.maximumListedCount))
    }

    /// The beginning of a sentence for users: `2 of 5 files were not stored: a.jpg and b.jpg`.
    package var sentence: String {
        let names = listed.map(\.shown)
        let more = count - UInt64(names.count)
        let last = more > 0 ? "\(more) more" : names.last ?? ""
        let others = more > 0 ? names : names.dropLast()
        let list = others.isEmpty ? last : "\(others.joined(separator: ", ")) and \(last)"
        return "\(count) of \(offered) files \(count == 1 ? "was" : "were") not stored: \(list)"
    }
}
