internal import Glibc
package import NearshareBase
package import NearshareInterfaces

/// Files and folders that a person named, folders with all that is in them.
///
/// Links that the person named are followed; those found inside a folder are sent as links or left out, never followed.
package struct FileSource: ResourceSource {
    package struct Options: Sendable, Hashable {
        /// Send symbolic links inside folders as links, as far as they stay inside.
        package var links = false
        /// Send permission bits.
        package var keepModes = false

        package init() {}
    }

    struct Item: Sendable {
        let path: String
        let name: ClaimedFileName
        /// What was found, and is offered.
        let size: UInt64
        let entryCount: UInt64
    }

    package let offer: Offer
    /// What is in the folders but is not sent, for people: links, sockets, devices. The first hundred of them.
    package let skipped: [String]
    /// All of them.
    package let skippedCount: Int
    let items: [Item]
    let options: Options

    /// Asking libmagic takes time; where there are more items than this, the receiver alone finds out what they are.
    private static let maximumDetectedItems = 32

    /// Walks everything once to learn what there is.
    /// - Parameter givenName: what the receiver is to call the only one of the paths; nil for the names that they have.
    /// - Throws: when something can't be read: before anybody is asked to accept it.
    package init(
        paths: [String], named givenName: ClaimedFileName? = nil, options: Options = Options(),
        detector: MediaTypeDetector = MediaTypeDetector()
    ) throws(StorageError) {
        precondition(givenName == nil || paths.count == 1, "one name is for one path")
        self.options = options
        var items: [Item] = []
        var described: [OfferedItem] = []
        var skipped = Skipped()
        defer { detector.purgeCache() }
        for path in paths {
            let file = try FileDescriptor.openForReading(path: path)
            let status = try file.status()
            let name: ClaimedFileName
            if let givenName { name = givenName } else { name = try Self.name(of: path) }
            var item = OfferedItem(
                kind: .file, name: name, size: UInt64(clamping: status.st_size), entryCount: 1, mediaType: .unknown)
            if status.isFolder {
                item = try Self.survey(file, name: name, path: path, options, &skipped)
            } else if !status.isFile {
                throw StorageError(.refused, "\(shown(path)) is neither a file nor a folder")
            } else if paths.count <= Self.maximumDetectedItems, let type = detector.type(of: file) {
                item.mediaType = ClaimedMediaType(type) ?? .unknown
            }
            items.append(Item(path: path, name: name, size: item.size ?? 0, entryCount: item.entryCount))
            if described.count < Offer.maximumDescribedItems { described.append(item) }
        }
        guard !items.isEmpty else { throw StorageError(.notFound, "nothing to send") }
        self.items = items
        self.skipped = skipped.names
        skippedCount = skipped.count
        offer = Offer(
            items: described, itemCount: UInt32(items.count), entryCount: items.reduce(0) { $0 + $1.entryCount },
            totalSize: items.reduce(0) { $0 + $1.size })
    }

    package func makeReader() throws(StorageError) -> any ResourceReader {
        FileReader(self)
    }

    private static func survey(
        _ folder: FileDescriptor, name: ClaimedFileName, path: String, _ options: Options, _ skipped: inout Skipped
    ) throws(StorageError) -> OfferedItem {
        let walk = FolderWalk(folder, name: name, item: 0, options: options, shownPath: path)
        var size: UInt64 = 0
        var count: UInt64 = 0
        while let (header, _) = try walk.next(opening: false) {
            count += 1
            size += header.size ?? 0
        }
        skipped.add(walk.skipped)
        return OfferedItem(kind: .folder, name: name, size: size, entryCount: count, mediaType: .folder)
    }

    /// The last component of the path; of `.` and `..` and `/`, that of what they stand for.
    private static func name(of path: String) throws(StorageError) -> ClaimedFileName {
        var whole = path
        let last = path.split(separator: "/").last
        if last == nil || last == "." || last == ".." {
            guard let resolved = realpath(path, nil) else { throw StorageError(errno, "can't find \(shown(path))") }
            defer { free(resolved) }
            whole = String(cString: resolved)
        }
        guard let name = whole.split(separator: "/").last.flatMap({ ClaimedFileName(String($0)) }) else {
            throw StorageError(.refused, "\(shown(path)) has no name to send it under")
        }
        return name
    }
}

/// What is left out of a walk.
struct Skipped {
    private static let maximumNames = 100

    private(set) var names: [String] = []
    private(set) var count = 0

    mutating func add(_ name: @autoclosure () -> String) {
        count += 1
        if names.count < Self.maximumNames { names.append(name()) }
    }

    mutating func add(_ other: Skipped) {
        count += other.count
        names += other.names.prefix(Self.maximumNames - names.count)
    }
}

/// One walk over the files of a source. What it meets must be what was offered: the receiver accepted that and nothing else.
final class FileReader: ResourceReader {
    private let source: FileSource
    private var nextItem = 0
    private var walk: FolderWalk?
    private var file: FileDescriptor?
    private var header: EntryHeader?
    private var position: UInt64 = 0
    /// Met so far in the present folder.
    private var folderSize: UInt64 = 0
    private var folderEntryCount: UInt64 = 0

    private static let sequentialSize: UInt64 = 1 << 20

    init(_ source: FileSource) {
        self.source = source
    }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        file = nil
        while true {
            if let walk {
                if let (header, file) = try walk.next(opening: true) {
                    try count(header)
                    return enter(header, file)
                }
                self.walk = nil
                let item = source.items[nextItem - 1]
                guard folderSize == item.size, folderEntryCount == item.entryCount else { throw changed(item) }
            }
            guard nextItem < source.items.count else { return nil }
            let item = source.items[nextItem]
            let number = UInt32(nextItem)
            nextItem += 1
            let opened = try FileDescriptor.openForReading(path: item.path)
            let status = try opened.status()
            if status.isFolder {
                walk = FolderWalk(opened, name: item.name, item: number, options: source.options, shownPath: item.path)
                (folderSize, folderEntryCount) = (0, 0)
                continue
            }
            guard status.isFile, UInt64(clamping: status.st_size) == item.size else { throw changed(item) }
            return enter(EntryHeader(item: number, file: status, path: [item.name], source.options), opened)
        }
    }

    private func count(_ header: EntryHeader) throws(StorageError) {
        let item = source.items[nextItem - 1]
        folderEntryCount += 1
        folderSize += header.size ?? 0
        guard folderSize <= item.size, folderEntryCount <= item.entryCount else { throw changed(item) }
    }

    private func enter(_ header: EntryHeader, _ file: FileDescriptor?) -> EntryHeader {
        self.header = header
        self.file = file
        position = 0
        if let file, header.size ?? 0 >= Self.sequentialSize { posix_fadvise(file.number, 0, 0, POSIX_FADV_SEQUENTIAL) }
        return header
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        guard let file, let header, let size = header.size, position < size else { return 0 }
        let room = Int(min(UInt64(buffer.count), size - position))
        let count = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room]))
        guard count > 0 || room == 0 else { throw changed(header) }
        position += UInt64(count)
        if position == size {
            // Bytes from before a change and bytes from after it make a file that never was (A10). One that has only grown
            // is what it was up to the size that was offered.
            let status = try file.status()
            guard status.modifiedNanoseconds == header.modified || UInt64(clamping: status.st_size) > size else {
                throw changed(header)
            }
        }
        return count
    }

    func seek(to offset: UInt64) throws(StorageError) {
        try file?.seek(to: offset)
        position = offset
    }

    /// Reading from a disk ends by itself.
    func cancel() {}

    private func changed(_ header: EntryHeader) -> StorageError {
        StorageError(.changed, "\(header.path.last!) was changed while it was being sent; send it again")
    }

    private func changed(_ item: FileSource.Item) -> StorageError {
        StorageError(.changed, "\(shown(item.path)) was changed after it was offered; send it again")
    }
}

/// One walk over a folder: the folder itself, then what is in it by the bytes of the names, each folder before its content.
/// Holds one list of names for each level.
final class FolderWalk {
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
    private let isRoot = geteuid() == 0
    private(set) var skipped = Skipped()

    init(_ directory: FileDescriptor, name: ClaimedFileName, item: UInt32, options: FileSource.Options, shownPath: String) {
        root = directory
        path = [name]
        pathByteCount = name.bytes.count
        self.item = item
        self.options = options
        self.shownPath = shownPath
    }

    /// - Parameter opening: whether files are opened for their content or only looked at.
    /// - Returns: nil after the last.
    func next(opening: Bool) throws(StorageError) -> (EntryHeader, FileDescriptor?)? {
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
            if let entry = try look(at: index, in: levels[top], opening: opening) { return entry }
        }
        return nil
    }

    private func list(_ directory: FileDescriptor, _ path: @autoclosure () -> String) throws(StorageError) -> DirectoryListing {
        do {
            return try DirectoryListing(of: directory)
        } catch {
            throw StorageError(error.code, "\(shown(path())): \(error)")
        }
    }

    private func look(
        at index: Int, in level: Level, opening: Bool
    ) throws(StorageError) -> (EntryHeader, FileDescriptor?)? {
        guard let claimed = ClaimedFileName(bytes: level.names.rawName(at: index)) else { return nil }
        // Put together only when something has to be said about it.
        func here() -> String {
            "\(shown(shownPath))/\((path.dropFirst() + [claimed]).map(\.shown).joined(separator: "/"))"
        }
        let byteCount = pathByteCount + claimed.bytes.count
        guard path.count < EntryHeader.maximumDepth, byteCount <= EntryHeader.maximumPathByteCount else {
            throw StorageError(
                .refused,
                "\(here()) is too deep: at most \(EntryHeader.maximumDepth) folders "
                    + "and \(EntryHeader.maximumPathByteCount) bytes of path can be sent")
        }
        return try level.names.withCName(at: index) { (name) throws(StorageError) -> (EntryHeader, FileDescriptor?)? in
            let directory = level.directory
            do throws(StorageError) {
                switch level.names.kind(at: index) {
                case .file where opening:
                    let file = try directory.openForReading(raw: name, shownAs: here)
                    let status = try file.status()
                    guard status.isFile else { throw StorageError(.changed, "\(here()) is no longer a file") }
                    return (EntryHeader(item: item, file: status, path: path + [claimed], options), file)
                case .folder: return try enter(name, claimed, byteCount, in: directory, here)
                default: return try examine(name, claimed, byteCount, in: directory, opening: opening, here)
                }
            } catch {
                // Removed since the names were read.
                if error.code == .notFound { return nil }
                throw error
            }
        }
    }

    private func enter(
        _ name: UnsafePointer<CChar>, _ claimed: ClaimedFileName, _ byteCount: Int, in directory: FileDescriptor,
        _ here: () -> String
    ) throws(StorageError) -> (EntryHeader, FileDescriptor?) {
        let folder = try directory.openDirectory(raw: name, shownAs: here)
        levels.append(Level(directory: folder, names: try list(folder, here())))
        path.append(claimed)
        pathByteCount = byteCount
        return (EntryHeader(item: item, folder: try folder.status(), path: path, options), nil)
    }

    /// For what is not opened at once, and on file systems that don't tell what an entry is when they list it.
    private func examine(
        _ name: UnsafePointer<CChar>, _ claimed: ClaimedFileName, _ byteCount: Int, in directory: FileDescriptor, opening: Bool,
        _ here: () -> String
    ) throws(StorageError) -> (EntryHeader, FileDescriptor?)? {
        var status = stat()
        guard fstatat(directory.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
            throw StorageError(errno, "can't look at \(here())")
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG where opening:
            let file = try directory.openForReading(raw: name, shownAs: here)
            return (EntryHeader(item: item, file: try file.status(), path: path + [claimed], options), file)
        case S_IFREG:
            guard isReadable(status) || faccessat(directory.number, name, R_OK, AT_EACCESS) == 0 else {
                throw StorageError(errno, "can't read \(here())")
            }
            return (EntryHeader(item: item, file: status, path: path + [claimed], options), nil)
        case S_IFDIR: return try enter(name, claimed, byteCount, in: directory, here)
        case S_IFLNK: return link(name, claimed, in: directory, here)
        default: skipped.add("\(here()): neither a file nor a folder")
        }
        return nil
    }

    /// Spares asking the kernel about each of a million files.
    private func isReadable(_ status: stat) -> Bool {
        isRoot || (status.st_uid == geteuid() && status.st_mode & S_IRUSR != 0)
    }

    private func link(
        _ name: UnsafePointer<CChar>, _ claimed: ClaimedFileName, in directory: FileDescriptor, _ here: () -> String
    ) -> (EntryHeader, FileDescriptor?)? {
        guard options.links else {
            skipped.add("\(here()): a symbolic link (--links sends links)")
            return nil
        }
        let entryPath = path + [claimed]
        let target = [UInt8](unsafeUninitializedCapacity: EntryHeader.maximumPathByteCount) { buffer, count in
            count = buffer.withMemoryRebound(to: CChar.self) {
                max(0, readlinkat(directory.number, name, $0.baseAddress!, $0.count))
            }
        }
        guard LinkTarget.staysInside(target, depth: entryPath.count) else {
            skipped.add("\(here()): a link that leads out of the folder")
            return nil
        }
        return (
            EntryHeader(
                item: item, kind: .link(target: target), path: entryPath, size: 0, modified: nil, permissions: nil), nil
        )
    }
}

extension EntryHeader {
    fileprivate init(item: UInt32, file status: stat, path: [ClaimedFileName], _ options: FileSource.Options) {
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
