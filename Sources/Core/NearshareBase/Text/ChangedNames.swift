/// The names of a transfer that its receiver could not store as they are: their number, and the first of them.
package struct ChangedNames: Sendable, Hashable {
    /// A name of the sender, and the one that the receiver stored instead. Neither says where in the transfer the name is.
    package struct Change: Sendable, Hashable {
        package let claimed: ClaimedFileName
        package let stored: ClaimedFileName

        package init(_ claimed: ClaimedFileName, storedAs stored: ClaimedFileName) {
            (self.claimed, self.stored) = (claimed, stored)
        }
    }

    /// Limit on listed names: more of them would push other lines off the screen.
    package static let maximumListedCount = 5

    /// All changed names, also those that are not listed.
    package private(set) var count: UInt64 = 0
    /// At most ``maximumListedCount``.
    package private(set) var listed: [Change] = []

    /// No name.
    package init() {}

    /// Changes that a peer or a file states; the count is at least the number of listed ones.
    package init(count: UInt64, listed: some Sequence<Change>) {
        self.listed = Array(listed.prefix(Self.maximumListedCount))
        self.count = max(count, UInt64(self.listed.count))
    }

    package var isEmpty: Bool { count == 0 }

    /// Counts a name if it was stored under another one.
    package mutating func record(_ claimed: ClaimedFileName, storedAs stored: String) {
        guard !claimed.bytes.elementsEqual(stored.utf8), let stored = ClaimedFileName(stored) else { return }
        count = count.addingClamped(1)
        if listed.count < Self.maximumListedCount { listed.append(Change(claimed, storedAs: stored)) }
    }

    /// These changes and others.
    package func adding(_ other: ChangedNames) -> ChangedNames {
        ChangedNames(count: count.addingClamped(other.count), listed: listed + other.listed)
    }

    /// The same changes, of at most as many names as were offered.
    package func limited(to entryCount: UInt64) -> ChangedNames {
        ChangedNames(
            count: min(count, entryCount), listed: listed.prefix(Int(clamping: min(entryCount, UInt64(listed.count)))))
    }
}
