internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// The entries that an enumeration has skipped, described for the user.
struct SkippedEntries {
    /// Limit on the names that are kept for the user, who reads no longer list.
    private static let maximumNameCount = 100

    private(set) var count = 0
    /// The entries among them that the user wants to be sent, but that cannot be read, or that no receiver accepts.
    private(set) var unreadableCount = 0
    /// The first of those, and the first of the others.
    private var unreadableNames: [String] = []
    private var otherNames: [String] = []

    /// Within the limit, unreadable entries first: the user misses them.
    var names: [String] { Array((unreadableNames + otherNames).prefix(Self.maximumNameCount)) }

    mutating func add(_ name: @autoclosure () -> String) {
        count += 1
        if otherNames.count < Self.maximumNameCount { otherNames.append(name()) }
    }

    mutating func addUnreadable(_ error: StorageError) {
        count += 1
        unreadableCount += 1
        if unreadableNames.count < Self.maximumNameCount { unreadableNames.append(error.description) }
    }

    mutating func add(_ other: SkippedEntries) {
        count += other.count
        unreadableCount += other.unreadableCount
        unreadableNames += other.unreadableNames.prefix(Self.maximumNameCount - unreadableNames.count)
        otherNames += other.otherNames.prefix(Self.maximumNameCount - otherNames.count)
    }
}

/// An entry of a folder, with the open file where its content is to be read.
typealias EnumeratedEntry = (header: EntryHeader, file: FileDescriptor?)

/// One pass over a folder: the folder itself, then its entries by the bytes of their names, each folder before its content.
/// Holds one listing for each level.
final class FolderEnumerator {
    private struct Level {
        let directory: FileDescriptor
        let names: DirectoryListing
        var next = 0
    }

    private var levels: [Level] = []
    private var path: [ClaimedFileName]
    private var pathByteCount: Int
    private var root: FileDescriptor?
    private let item: UInt32
    private let options: FileSource.Options
    private let shownPath: String
    private let user = geteuid()
    private(set) var skipped = SkippedEntries()
    /// The positions of the patterns that have matched an entry.
    private(set) var usedExclusions: Set<Int> = []
    /// Files that were modified after this time, in nanoseconds since 1970, are opened also where only attributes are read; nil
    /// for none.
    var sampledSince: Int64?

    init(_ directory: FileDescriptor, name: ClaimedFileName, item: UInt32, options: FileSource.Options, shownPath: String) {
        root = directory
        path = [name]
        pathByteCount = name.bytes.count
        self.item = item
        self.options = options
        // A slash at the end, as completion writes it, would be shown twice.
        self.shownPath = shownPath.withoutFinalSlashes
    }

    /// - Parameter opening: whether files are opened; otherwise only their attributes are read.
    /// - Returns: nil after the last entry.
    func next(opening: Bool) throws(StorageError) -> EnumeratedEntry? {
        if let root {
            self.root = nil
            levels = [Level(directory: root, names: try list(root, shownPath))]
            return (EntryHeader(item: item, folder: try root.status(), path: path, options), nil)
        }
        while let top = levels.indices.last {
            let index = levels[top].next
            guard index < levels[top].names.count else {
                levels.removeLast()
                pathByteCount -= path.removeLast().bytes.count
                continue
            }
            levels[top].next += 1
            if let entry = try entry(at: index, in: levels[top], opening: opening) { return entry }
        }
        return nil
    }

    private func isExcluded(_ name: ClaimedFileName, isFolder: Bool) -> Bool {
        !options.exclusions.isEmpty
            && options.exclusions.match(path + [name], isFolder: isFolder, used: &usedExclusions)
    }

    private func list(_ directory: FileDescriptor, _ path: @autoclosure () -> String) throws(StorageError) -> DirectoryListing {
        do {
            return try DirectoryListing(of: directory)
        } catch {
            throw StorageError(error.code, "\(shown(path())): \(error)")
        }
    }

    private func entry(
        at index: Int, in level: Level, opening: Bool
    ) throws(StorageError) -> EnumeratedEntry? {
        guard let claimed = ClaimedFileName(bytes: level.names.rawName(at: index)) else {
            // File systems that count UTF-16 units, such as vfat, have names of more bytes.
            skipped.add("\(shown(shownPath))/…/\(shown(level.names.name(at: index))): the name is longer than 255 bytes")
            return nil
        }
        // Built only for messages.
        func displayPath() -> String {
            "\(shown(shownPath))/\((path.dropFirst() + [claimed]).map(\.shown).joined(separator: "/"))"
        }
        let kind = level.names.kind(at: index)
        if kind != .unknown, isExcluded(claimed, isFolder: kind == .folder) { return nil }
        return try level.names.withCName(at: index) { (name) throws(StorageError) -> EnumeratedEntry? in
            let directory = level.directory
            do throws(StorageError) {
                switch kind {
                case .file where opening: return try openFile(name, claimed, in: directory, displayPath)
                case .folder: return try enterFolder(name, claimed, in: directory, displayPath)
                default: return try inspect(name, claimed, in: directory, opening: opening, displayPath)
                }
            } catch {
                switch error.code {
                // Removed since the directory was listed.
                case .notFound: return nil
                case .noPermission where options.skipsUnreadable, .rejected where options.skipsUnreadable:
                    skipped.addUnreadable(error)
                    return nil
                default: throw error
                }
            }
        }
    }

    /// - Throws: for a path that no receiver accepts.
    private func checkPath(with name: ClaimedFileName, _ displayPath: () -> String) throws(StorageError) {
        guard path.count < EntryHeader.maximumDepth, pathByteCount + name.bytes.count <= EntryHeader.maximumPathByteCount
        else {
            throw StorageError(
                .rejected,
                "\(displayPath()) is too deep: the limits are \(EntryHeader.maximumDepth) folders "
                    + "and \(EntryHeader.maximumPathByteCount) bytes of path")
        }
    }

    private func openFile(
        _ name: UnsafePointer<CChar>, _ claimed: ClaimedFileName, in directory: FileDescriptor, _ displayPath: () -> String
    ) throws(StorageError) -> EnumeratedEntry {
        try checkPath(with: claimed, displayPath)
        let file = try directory.openForReading(raw: name, shownAs: displayPath)
        let status = try file.status()
        guard status.isFile else { throw StorageError(.changed, "\(displayPath()) is no longer a file") }
        return (EntryHeader(item: item, file: status, path: path + [claimed], options), file)
    }

    private func enterFolder(
        _ name: UnsafePointer<CChar>, _ claimed: ClaimedFileName, in directory: FileDescriptor, _ displayPath: () -> String
    ) throws(StorageError) -> EnumeratedEntry? {
        try checkPath(with: claimed, displayPath)
        let folder = try directory.openDirectory(raw: name, shownAs: displayPath)
        let status = try folder.status()
        if StateDirectory.isUsed(FileIdentity(status)) {
            skipped.add("\(displayPath()): nearshare's own keys are never sent")
            return nil
        }
        levels.append(Level(directory: folder, names: try list(folder, displayPath())))
        path.append(claimed)
        pathByteCount += claimed.bytes.count
        return (EntryHeader(item: item, folder: status, path: path, options), nil)
    }

    /// Reads an entry's attributes: for entries that are not opened, and on file systems whose listings have no entry types.
    private func inspect(
        _ name: UnsafePointer<CChar>, _ claimed: ClaimedFileName, in directory: FileDescriptor, opening: Bool,
        _ displayPath: () -> String
    ) throws(StorageError) -> EnumeratedEntry? {
        var status = stat()
        guard fstatat(directory.rawValue, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
            throw StorageError(errno, "could not read the attributes of \(displayPath())")
        }
        if isExcluded(claimed, isFolder: status.isFolder) { return nil }
        switch status.st_mode & S_IFMT {
        case S_IFREG where opening: return try openFile(name, claimed, in: directory, displayPath)
        case S_IFREG:
            try checkPath(with: claimed, displayPath)
            guard isReadable(status) || faccessat(directory.rawValue, name, R_OK, AT_EACCESS) == 0 else {
                throw StorageError(errno, "could not read \(displayPath())")
            }
            let isSampled = sampledSince.map { status.modifiedNanoseconds > $0 } ?? false
            return (
                EntryHeader(item: item, file: status, path: path + [claimed], options),
                isSampled ? (try? directory.openForReading(raw: name, shownAs: displayPath)) : nil
            )
        case S_IFDIR: return try enterFolder(name, claimed, in: directory, displayPath)
        case S_IFLNK: return try link(name, claimed, in: directory, displayPath)
        default: skipped.add("\(displayPath()): neither a file nor a folder")
        }
        return nil
    }

    /// Whether the attributes alone show that the file can be read: that saves a system call for each of a million files. Being user
    /// 0 is not enough: in a container or on NFS it may lack the right to read the files of others.
    private func isReadable(_ status: stat) -> Bool {
        status.st_uid == user && status.st_mode & S_IRUSR != 0
    }

    private func link(
        _ name: UnsafePointer<CChar>, _ claimed: ClaimedFileName, in directory: FileDescriptor, _ displayPath: () -> String
    ) throws(StorageError) -> EnumeratedEntry? {
        guard options.links else {
            skipped.add("\(displayPath()): a symbolic link\(options.linkAdvice.map { " (\($0))" } ?? "")")
            return nil
        }
        try checkPath(with: claimed, displayPath)
        let entryPath = path + [claimed]
        var failure: Int32?
        let target = [UInt8](unsafeUninitializedCapacity: EntryHeader.maximumPathByteCount) { buffer, count in
            count = buffer.withMemoryRebound(to: CChar.self) { buffer in
                guard let start = buffer.baseAddress else { return 0 }
                let length = readlinkat(directory.rawValue, name, start, buffer.count)
                if length < 0 { failure = errno }
                return max(0, length)
            }
        }
        if let failure { throw StorageError(failure, "could not read \(displayPath())") }
        guard LinkTarget.staysInside(target, depth: entryPath.count) else {
            let isText = String(validating: target, as: UTF8.self) != nil
            skipped.add(
                "\(displayPath()): a symbolic link \(isText ? "that leads out of the folder" : "whose target is not UTF-8")")
            return nil
        }
        return (
            EntryHeader(
                item: item, kind: .link(target: target), path: entryPath, size: 0, modified: nil, permissions: nil), nil
        )
    }
}

extension EntryHeader {
    init(item: UInt32, file status: stat, path: [ClaimedFileName], _ options: FileSource.Options) {
        self.init(
            item: item, kind: .file, path: path, size: UInt64(clamping: status.st_size),
            modified: status.modifiedNanoseconds, permissions: options.keepModes ? UInt16(status.st_mode & 0o777) : nil)
    }

    fileprivate init(item: UInt32, folder status: stat, path: [ClaimedFileName], _ options: FileSource.Options) {
        self.init(
            item: item, kind: .folder, path: path, size: 0, modified: status.modifiedNanoseconds,
            permissions: options.keepModes ? UInt16(status.st_mode & 0o777) : nil)
    }
}
