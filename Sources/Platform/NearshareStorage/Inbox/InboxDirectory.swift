internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

extension FileDescriptor {
    /// The last of the numbered names that items of a name have in this directory. Up to eight numbers in a row may be missing,
    /// because the user has removed their items.
    /// - Returns: nil where there is none with a number.
    func newestVersion(of name: String) -> String? {
        guard let claimed = ClaimedFileName(name) else { return nil }
        let safe = SafeFileName(claimed)
        var (newest, missingCount) = (1, 0)
        for number in 2...Self.singlyCheckedCount where missingCount <= 8 {
            if exists(safe.numbered(number).text) { (newest, missingCount) = (number, 0) } else { missingCount += 1 }
        }
        if missingCount == 0 { newest = InboxDirectory.firstFreeNumber(after: newest) { exists(safe.numbered($0).text) } - 1 }
        return newest > 1 ? safe.numbered(newest).text : nil
    }

    /// Limit on the numbers that are looked up one by one, because the user may have removed some.
    private static let singlyCheckedCount = 64
}

/// The open inbox directory while the items of one transfer are moved into it.
struct InboxDirectory {
    let descriptor: FileDescriptor
    private let path: String
    private let limits: InboxLimits
    /// Names in use, folded: without differences in case and in the composition of accents.
    private var usedNames: Set<String>
    /// The next number for each folded name: a thousand items of one name must not cost a million attempts.
    private var nextNumbers: [String: Int] = [:]

    private static let maximumNumber = 1_000_000_000

    /// A free number after one that is in use, in steps that double and then halve: a hundred thousand items of one name cost
    /// no lookup each (P9).
    static func firstFreeNumber(after used: Int, isUsed: (Int) -> Bool) -> Int {
        var (used, free, step) = (used, used + 1, 1)
        while free < maximumNumber, isUsed(free) {
            (used, step) = (free, step * 2)
            free = min(free + step, maximumNumber)
        }
        while free - used > 1 {
            let middle = used + (free - used) / 2
            if isUsed(middle) { used = middle } else { free = middle }
        }
        return free
    }

    init(_ descriptor: FileDescriptor, path: String, limits: InboxLimits) throws(StorageError) {
        self.descriptor = descriptor
        self.path = path
        self.limits = limits
        usedNames = Set(try descriptor.names().map(Self.folded))
    }

    /// Moves an item into the inbox under a free name.
    /// - Returns: the item's final name; nil when the inbox does not accept it.
    mutating func moveIn(_ name: String, from itemDirectory: FileDescriptor) -> String? {
        do throws(SystemCallError) {
            return try rename(name, from: itemDirectory)
        } catch {
            guard error.code == EXDEV else { return nil }
        }
        return withStagedCopy(of: name, from: itemDirectory) { directory, copies in
            (try? directory.rename(name, from: copies)) ?? nil
        }
    }

    /// Copies an item from another device, or another mount of the same one, into a hidden folder of the inbox first, so that a
    /// final name never denotes an incomplete item. Removes the item when `body` has moved the copy.
    /// - Returns: nil also where the copy would take space that stays free (R8).
    mutating func withStagedCopy<Result>(
        of name: String, from itemDirectory: FileDescriptor, _ body: (inout InboxDirectory, FileDescriptor) -> Result?
    ) -> Result? {
        if let free = limits.usable(of: descriptor.freeBytes), FileTree.byteCount(of: name, in: itemDirectory) > free {
            return nil
        }
        guard
            let area = try? StagingArea(named: Inbox.stagingName, in: descriptor, parentPath: path, creating: true),
            let copy = try? area.openForCopy()
        else { return nil }
        defer { copy.remove() }
        do {
            try FileTree.copy(name, in: itemDirectory, to: name, in: copy.items, rules: copy.items.nameRules)
            try copy.items.synchronizeFileSystem()
            guard let result = body(&self, copy.items) else { return nil }
            itemDirectory.removeTree(name)
            return result
        } catch {
            return nil
        }
    }

    private mutating func rename(
        _ name: String, from itemDirectory: FileDescriptor
    ) throws(SystemCallError) -> String? {
        guard let claimed = ClaimedFileName(name) else { return nil }
        let safe = SafeFileName(claimed)
        let foldedName = Self.folded(safe.text)
        while true {
            let number = Self.firstFreeNumber(after: (nextNumbers[foldedName] ?? 1) - 1) { number in
                // Names that differ only in case look the same, or are the same on another file system (P9).
                usedNames.contains(Self.folded((number == 1 ? safe : safe.numbered(number)).text))
            }
            guard number < Self.maximumNumber else { return nil }
            let candidate = number == 1 ? safe : safe.numbered(number)
            let isFree = try itemDirectory.rename(name, to: candidate.text, in: descriptor)
            usedNames.insert(Self.folded(candidate.text))
            nextNumbers[foldedName] = number + 1
            if isFree { return candidate.text }
        }
    }

    /// A name without differences in case. Swift compares strings by canonical equivalence, so composed and decomposed accents are
    /// equal already.
    private static func folded(_ name: String) -> String { name.lowercased() }
}
