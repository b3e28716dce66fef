internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// The staged directories of the item that is being received: the item's directory and the chain of open folders below it, of
/// which one is held open.
struct StagedTree {
    struct Folder {
        let claimed: ClaimedFileName
        let stored: String
        let modified: Int64?
        let permissions: UInt16?
    }

    private let items: FileDescriptor
    private let needsModes: Bool
    private let keepsPermissions: Bool
    private let keepsExecutable: Bool
    /// The cursor at the innermost of ``folders``; nil before the first item.
    private var cursor: DirectoryCursor?
    private(set) var item: UInt32?
    /// From the item's own folder down to the one that was written into last.
    private(set) var folders: [Folder] = []

    /// Whether each folder is made durable when it is complete.
    var synchronizesFolders = false
    /// Whether created folders are recorded, so that ``enterAgain(_:of:)`` finds them.
    var recordsFolders = false
    /// The stored names of created folders.
    private var storedNames: [FolderKey: String] = [:]

    private struct FolderKey: Hashable {
        let item: UInt32
        let path: [ClaimedFileName]
    }

    /// Limit on numbered variants of a name: they are tried one after the other.
    private static let maximumNumber = 999

    init(_ staged: StagedTransfer, limits: InboxLimits) {
        items = staged.items
        needsModes = staged.needsModes
        keepsPermissions = limits.keepsPermissions
        keepsExecutable = limits.keepsExecutable
    }

    mutating func resume(from partial: PartialTransfer) throws(StorageError) {
        item = partial.checkpoint.item
        cursor = partial.cursor
        folders = []
        for folder in partial.checkpoint.folders {
            guard let claimed = ClaimedFileName(bytes: folder.claimed) else {
                throw StorageError(.failed, "the checkpoint of the transfer is damaged")
            }
            folders.append(
                Folder(
                    claimed: claimed, stored: folder.stored, modified: folder.modified, permissions: folder.permissions))
        }
    }

    // MARK: Moving through the tree

    /// Moves to an item, completing the folders of the one before.
    /// - Returns: whether it is another item than before.
    mutating func enterItem(_ number: UInt32) throws(StorageError) -> Bool {
        guard item != number else { return false }
        try completeFolders(downTo: 0)
        if try items.createDirectory("\(number)"), needsModes { fchmodat(items.rawValue, "\(number)", 0o700, 0) }
        cursor = DirectoryCursor(try items.openDirectory("\(number)"))
        item = number
        return true
    }

    /// Moves to the folder that an entry belongs to, completing the folders that are left. An entry's folders come before it.
    mutating func enterParent(of path: [ClaimedFileName]) throws(StorageError) -> FileDescriptor {
        guard cursor != nil, let name = path.last else { throw StorageError(.failed, "an entry outside an item") }
        let parents = path.dropLast()
        let common = zip(parents, folders).prefix { $0 == $1.claimed }.count
        guard common == parents.count else {
            throw StorageError(.rejected, "\(name) was sent before the folder that contains it")
        }
        try completeFolders(downTo: common)
        guard let directory = cursor?.directory else { throw StorageError(.failed, "an entry outside an item") }
        return directory
    }

    /// Moves to a folder that was left, or is open. Its time and permissions stay as they are.
    /// - Returns: false for a folder that was not created, or not recorded.
    mutating func enterAgain(_ path: [ClaimedFileName], of number: UInt32) throws(StorageError) -> Bool {
        if item == number, folders.count >= path.count, zip(path, folders).allSatisfy({ $0 == $1.claimed }) {
            try completeFolders(downTo: path.count)
            return true
        }
        guard let stored = storedNames[FolderKey(item: number, path: path)], let claimed = path.last else { return false }
        _ = try enterItem(number)
        _ = try enterParent(of: path)
        try cursor?.descend(into: stored)
        folders.append(Folder(claimed: claimed, stored: stored, modified: nil, permissions: nil))
        return true
    }

    /// Creates a folder and makes it the innermost one.
    /// - Returns: its stored name.
    mutating func createFolder(_ entry: EntryHeader, named name: SafeFileName, in directory: FileDescriptor)
        throws(StorageError)
        -> String
    {
        guard let claimed = entry.path.last else { throw StorageError(.rejected, "an entry without a name") }
        let stored = try Self.create(name) { (candidate) throws(StorageError) -> String? in
            try directory.createDirectory(candidate) ? candidate : nil
        }
        if needsModes { fchmodat(directory.rawValue, stored, 0o700, 0) }
        try cursor?.descend(into: stored)
        folders.append(
            Folder(claimed: claimed, stored: stored, modified: entry.modified, permissions: entry.permissions))
        if recordsFolders, let item { storedNames[FolderKey(item: item, path: entry.path)] = stored }
        return stored
    }

    /// Sets times and permissions of the folders below a depth: entries come in order, so no further content follows.
    mutating func completeFolders(downTo depth: Int) throws(StorageError) {
        while folders.count > depth, let directory = cursor?.directory {
            let folder = folders.removeLast()
            if keepsPermissions, let permissions = folder.permissions {
                fchmod(directory.rawValue, mode_t(permissions) & 0o755 | 0o700)
            }
            if let modified = folder.modified { directory.setModified(modified) }
            if synchronizesFolders { try directory.synchronize() }
            try cursor?.ascend()
        }
    }

    // MARK: Files and links

    /// - Returns: the new file and its stored name.
    func createFile(named name: SafeFileName, in directory: FileDescriptor) throws(StorageError) -> (FileDescriptor, String) {
        let (file, stored) = try Self.create(name) { (candidate) throws(StorageError) -> (FileDescriptor, String)? in
            try directory.createFile(candidate).map { ($0, candidate) }
        }
        if needsModes { fchmod(file.rawValue, 0o600) }
        return (file, stored)
    }

    /// - Returns: the link's stored name.
    func createLink(to target: String, named name: SafeFileName, in directory: FileDescriptor) throws(StorageError) -> String {
        try Self.create(name) { (candidate) throws(StorageError) -> String? in
            if symlinkat(target, directory.rawValue, candidate) == 0 { return candidate }
            guard errno == EEXIST else { throw StorageError(errno, "could not create the link \(shown(candidate))") }
            return nil
        }
    }

    func setAttributes(of file: FileDescriptor, from header: EntryHeader) {
        if keepsPermissions, let permissions = header.permissions {
            // Writable by no other account, executable only where the receiver has asked for it (P6).
            fchmod(file.rawValue, mode_t(permissions) & (keepsExecutable ? 0o755 : 0o644) | 0o600)
        }
        if let modified = header.modified { file.setModified(modified) }
    }

    /// Tries the name, then numbered variants of it: two names may become equal when they are made safe (P9).
    static func create<Created>(
        _ name: SafeFileName, _ body: (String) throws(StorageError) -> Created?
    ) throws(StorageError) -> Created {
        if let created = try body(name.text) { return created }
        for number in 2...maximumNumber {
            if let created = try body(name.numbered(number).text) { return created }
        }
        throw StorageError(.rejected, "too many files of the same name")
    }
}
