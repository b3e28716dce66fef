internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

extension FileDescriptor {
    /// The last of the numbered names that items of a name have in this directory. Of numbers that are missing, because the user
    /// has removed them, eight in a row are looked behind.
    /// - Returns: nil where there is none with a number.
    func newestVersion(of name: String) -> String? {
        guard let claimed = ClaimedFileName(name) else { return nil }
        let safe = SafeFileName(claimed)
        var (newest, missingCount): (String?, Int) = (nil, 0)
        for number in 2...InboxDirectory.maximumNumber where missingCount <= 8 {
            let version = safe.numbered(number).text
            if exists(version) { (newest, missingCount) = (version, 0) } else { missingCount += 1 }
        }
        return newest
    }
}

/// The open inbox directory while the items of one transfer are moved into it.
struct InboxDirectory {
    let descriptor: FileDescriptor
    private let path: String
    /// Names in use, folded: without differences in case and in the composition of accents.
    private var usedNames: Set<String>
    /// The next number for each folded name: a thousand items of one name must not cost a million attempts.
    private var nextNumbers: [String: Int] = [:]

    fileprivate static let maximumNumber = 9999

    init(_ descriptor: FileDescriptor, path: String) throws(StorageError) {
        self.descriptor = descriptor
        self.path = path
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
        return copyingAside(name, from: itemDirectory) { directory, copies in
            (try? directory.rename(name, from: copies)) ?? nil
        }
    }

    /// Copies an item from another device, or another mount of the same one, into a hidden folder of the inbox first, so that a
    /// final name never denotes an incomplete item. Removes the item when `body` has moved the copy.
    mutating func copyingAside<Result>(
        _ name: String, from itemDirectory: FileDescriptor, _ body: (inout InboxDirectory, FileDescriptor) -> Result?
    ) -> Result? {
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
        for number in min(nextNumbers[foldedName] ?? 1, Self.maximumNumber)...Self.maximumNumber {
            let candidate = number == 1 ? safe : safe.numbered(number)
            // Names that differ only in case look the same, or are the same on another file system (P9).
            guard !usedNames.contains(Self.folded(candidate.text)) else { continue }
            let isFree = try itemDirectory.rename(name, to: candidate.text, in: descriptor)
            usedNames.insert(Self.folded(candidate.text))
            nextNumbers[foldedName] = number + 1
            if isFree { return candidate.text }
        }
        return nil
    }

    /// Swift compares strings by canonical equivalence, so composed and decomposed accents are equal already.
    private static func folded(_ name: String) -> String { name.lowercased() }
}
