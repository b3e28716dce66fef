internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// The result of giving a received item its final name.
struct ItemPlacement {
    var name: String
    /// Whether everything was there already, so that nothing has changed.
    var isPresent = false
    /// Whether it was merged into an item of the inbox, or has replaced one.
    var isMerged = false
    /// Files that the received ones have replaced.
    var replacedCount: UInt64 = 0
    /// Files that stay because they are not older than the received ones.
    var newerCount: UInt64 = 0
    /// Names that got a number, because something else has the name.
    var changedNames = ChangedNames()
    /// Whether it is beside an item into which it would be merged where files may be replaced.
    var isMergeable = false
}

extension InboxDirectory {
    /// Moves an item into the inbox, as the policy says where its name is in use.
    /// - Parameter mayContainHardLinks: whether files of the item may be hard links to files of the inbox.
    /// - Returns: nil when the inbox does not accept it.
    mutating func place(
        _ name: String, from itemDirectory: FileDescriptor, _ policy: ExistingFilePolicy, mayContainHardLinks: Bool
    ) -> ItemPlacement? {
        var isBesideMergeable = false
        if policy != .keepBoth, let existing = try? descriptor.status(of: name),
            let received = try? itemDirectory.status(of: name)
        {
            if (try? ItemMerge.isPresent(name, in: itemDirectory, as: name, in: descriptor)) ?? false {
                itemDirectory.removeTree(name)
                return ItemPlacement(name: name, isPresent: true)
            }
            let isMergeable = received.isFolder ? existing.isFolder : received.isFile && existing.isFile
            if policy.mergesFolders, isMergeable { return merge(name, from: itemDirectory, policy) }
            // Another item is kept beside the earlier one, under a number; the same again is kept no third time.
            if let version = descriptor.newestVersion(of: name),
                (try? ItemMerge.isPresent(name, in: itemDirectory, as: version, in: descriptor)) ?? false
            {
                itemDirectory.removeTree(name)
                return ItemPlacement(name: version, isPresent: true)
            }
            isBesideMergeable = isMergeable
        }
        if mayContainHardLinks, (try? ItemMerge.unshare(name, in: itemDirectory)) == nil { return nil }
        guard let stored = moveIn(name, from: itemDirectory) else { return nil }
        var placement = ItemPlacement(name: stored)
        placement.isMergeable = isBesideMergeable && stored != name
        if policy != .keepBoth, let claimed = ClaimedFileName(name) {
            placement.changedNames.record(claimed, storedAs: stored)
        }
        return placement
    }

    private mutating func merge(_ name: String, from itemDirectory: FileDescriptor, _ policy: ExistingFilePolicy)
        -> ItemPlacement?
    {
        var merge = ItemMerge(name, policy: policy)
        do {
            try merge.run(name, from: itemDirectory, into: descriptor)
            return merge.result
        } catch let error as SystemCallError where error.code == EXDEV {
            return withStagedCopy(of: name, from: itemDirectory) { directory, copies in
                guard (try? merge.run(name, from: copies, into: directory.descriptor)) != nil else { return nil }
                return merge.result
            }
        } catch {
            return nil
        }
    }
}

/// Moves a received item into an item of the inbox with the same name.
///
/// A file replaces another one by rename(2), so that the name always denotes a whole file. Only regular files are replaced, no
/// link is followed, and a file and a folder never replace each other: what cannot be merged gets a number. Can be repeated after
/// an interruption: what was moved is gone from the received item.
struct ItemMerge {
    let policy: ExistingFilePolicy
    private(set) var result: ItemPlacement

    /// - Parameter name: of the item.
    init(_ name: String, policy: ExistingFilePolicy) {
        self.policy = policy
        // Until something is moved.
        result = ItemPlacement(name: name, isPresent: true)
    }

    private static let maximumNumber = 999
    /// No name of a sender begins with a dash.
    private static let copyName = "-nearshare-copy"

    mutating func run(_ name: String, from source: FileDescriptor, into target: FileDescriptor) throws {
        var (source, target) = (DirectoryCursor(source), DirectoryCursor(target))
        try run(name, at: &source, into: &target)
    }

    private mutating func run(_ name: String, at source: inout DirectoryCursor, into target: inout DirectoryCursor) throws {
        guard let received = try source.directory.status(of: name) else { return }
        guard let existing = try target.directory.status(of: name) else {
            return try move(name, from: source.directory, into: target.directory)
        }
        if received.isFolder, existing.isFolder {
            try source.descend(into: name)
            try target.descend(into: name)
            for child in try source.directory.names() { try run(child, at: &source, into: &target) }
            try source.ascend()
            try target.ascend()
            unlinkat(source.directory.rawValue, name, AT_REMOVEDIR)
        } else if try Self.isPresent(name, in: source.directory, as: name, in: target.directory) {
            source.directory.unlink(name)
        } else if received.isFile, existing.isFile {
            recordMerge()
            if policy == .update, existing.modifiedNanoseconds >= received.modifiedNanoseconds {
                result.newerCount += 1
                return source.directory.unlink(name)
            }
            try Self.unshare(name, in: source.directory)
            guard renameat(source.directory.rawValue, name, target.directory.rawValue, name) == 0 else {
                throw SystemCallError(code: errno)
            }
            result.replacedCount += 1
        } else {
            try move(name, from: source.directory, into: target.directory)
        }
    }

    /// Moves a file, link or folder to its name, or to a numbered one where that is in use. The same again is kept no second time.
    private mutating func move(_ name: String, from source: FileDescriptor, into target: FileDescriptor) throws {
        try Self.unshare(name, in: source)
        if try source.rename(name, to: name, in: target) { return recordMerge() }
        for numbered in Self.numberedNames(of: name, target.nameRules) {
            let isMoved = try source.rename(name, to: numbered, in: target)
            guard try isMoved || Self.isPresent(name, in: source, as: numbered, in: target) else { continue }
            if isMoved { recordMerge() } else { source.removeTree(name) }
            if let claimed = ClaimedFileName(name) { result.changedNames.record(claimed, storedAs: numbered) }
            return
        }
        throw SystemCallError(code: EEXIST)
    }

    private mutating func recordMerge() { (result.isPresent, result.isMerged) = (false, true) }

    /// The names under which something is kept whose name is in use.
    static func numberedNames(of name: String, _ rules: FileNameRules) -> some Sequence<String> {
        let safe = ClaimedFileName(name).map { SafeFileName($0, mayBeHidden: true, rules: rules) }
        return (2...maximumNumber).lazy.compactMap { number in safe?.numbered(number).text }
    }

    // MARK: Comparing

    /// Whether a received file, link or folder is in the inbox already: the same content, and in a folder everything that was
    /// received. Further files of the existing folder do not matter.
    static func isPresent(
        _ name: String, in source: FileDescriptor, as existingName: String, in target: FileDescriptor
    ) throws -> Bool {
        var (source, target) = (DirectoryCursor(source), DirectoryCursor(target))
        return try isPresent(name, at: &source, as: existingName, at: &target)
    }

    /// After the result false the cursors are anywhere.
    private static func isPresent(
        _ name: String, at source: inout DirectoryCursor, as existingName: String, at target: inout DirectoryCursor
    ) throws -> Bool {
        guard let received = try source.directory.status(of: name),
            let existing = try target.directory.status(of: existingName),
            received.st_mode & S_IFMT == existing.st_mode & S_IFMT
        else { return false }
        if FileIdentity(received) == FileIdentity(existing) { return true }
        switch received.st_mode & S_IFMT {
        case S_IFDIR:
            try source.descend(into: name)
            try target.descend(into: existingName)
            for child in try source.directory.names() {
                guard try isPresent(child, at: &source, as: child, at: &target) else { return false }
            }
            try source.ascend()
            try target.ascend()
            return true
        case S_IFLNK:
            guard let target = target.directory.linkTarget(existingName) else { return false }
            return source.directory.linkTarget(name) == target
        case S_IFREG where received.st_size == existing.st_size:
            return try haveEqualContent(
                try source.directory.openForReading(name), try target.directory.openForReading(existingName))
        default: return false
        }
    }

    private static func haveEqualContent(_ one: FileDescriptor, _ other: FileDescriptor) throws -> Bool {
        guard try other.status().isFile else { return false }
        while true {
            let block = try one.read(upTo: 1 << 20)
            guard try block == other.read(upTo: 1 << 20) else { return false }
            if block.isEmpty { return true }
        }
    }

    // MARK: Hard links

    /// Replaces files that have further hard links by copies: two delivered files must not change together.
    static func unshare(_ name: String, in directory: FileDescriptor) throws {
        var cursor = DirectoryCursor(directory)
        try unshare(name, at: &cursor)
    }

    private static func unshare(_ name: String, at cursor: inout DirectoryCursor) throws {
        guard let status = try cursor.directory.status(of: name) else { return }
        if status.isFolder {
            try cursor.descend(into: name)
            for child in try cursor.directory.names() { try unshare(child, at: &cursor) }
            return try cursor.ascend()
        }
        guard status.isFile, status.st_nlink > 1 else { return }
        let directory = cursor.directory
        directory.unlink(copyName)
        try FileTree.copy(name, in: directory, to: copyName, in: directory, rules: directory.nameRules)
        guard renameat(directory.rawValue, copyName, directory.rawValue, name) == 0 else { throw SystemCallError(code: errno) }
    }
}

extension FileDescriptor {
    fileprivate func linkTarget(_ name: String) -> [CChar]? {
        var target = [CChar](repeating: 0, count: EntryHeader.maximumPathByteCount + 1)
        let count = readlinkat(rawValue, name, &target, target.count)
        return count >= 0 ? Array(target.prefix(count)) : nil
    }
}
