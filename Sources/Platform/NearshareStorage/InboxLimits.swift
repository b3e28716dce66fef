/// How much strangers' content may take, and what of their wishes is granted.
package struct InboxLimits: Sendable, Hashable {
    /// Bytes that one transfer may have; nil for as many as there is room for.
    package var maximumSize: UInt64?
    /// Files, folders and links that one transfer may have (R13).
    package var maximumEntries: UInt64 = 1_000_000
    /// Bytes that stay free on the disk: a full one breaks more than a transfer (R8).
    package var reserve: UInt64 = 64 << 20
    /// Symbolic links that stay inside their folder are made; else a transfer that has one is refused.
    package var allowsLinks = true
    /// Permission bits that the sender chose to send are kept, as far as they are harmless; else everything is 0600 or 0700.
    package var keepsPermissions = true
    /// A partial transfer that nobody goes on with is removed after this time.
    package var partialLifetime = Duration.seconds(7 * 86_400)

    package init() {}

    /// Bytes that content may fill of those that are free; nil when that can't be told.
    func usable(of free: UInt64?) -> UInt64? {
        free.map { $0 > reserve ? $0 - reserve : 0 }
    }
}
