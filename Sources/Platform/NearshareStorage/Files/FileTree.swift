internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// Operations on whole directories.
enum FileTree {
    /// Copies a file, a link or a directory with its content, and the modification times and permissions of files
    /// and directories.
    /// - Parameter rules: The name rules of the target's file system. Names inside a directory are changed to satisfy them.
    static func copy(
        _ name: String, in source: FileDescriptor, to copyName: String, in target: FileDescriptor, rules: FileNameRules
    ) throws(StorageError) {
        var (source, target) = (DirectoryCursor(source), DirectoryCursor(target))
        try copy(name, at: &source, to: copyName, at: &target, rules)
    }

    private static func copy(
        _ name: String, at sourceCursor: inout DirectoryCursor, to copyName: String, at targetCursor: inout DirectoryCursor,
        _ rules: FileNameRules
    ) throws(StorageError) {
        let (source, target) = (sourceCursor.directory, targetCursor.directory)
        guard let status = try source.status(of: name) else {
            throw StorageError(.notFound, "\(shown(name)) does not exist")
        }
        switch status.st_mode & S_IFMT {
        case S_IFDIR:
            try sourceCursor.descend(into: name)
            guard try target.createDirectory(copyName) else {
                throw StorageError(.failed, "\(shown(copyName)) exists already")
            }
            try targetCursor.descend(into: copyName)
            for child in try sourceCursor.directory.names() {
                let childCopy = try nameOfCopy(child, in: targetCursor.directory, rules)
                try copy(child, at: &sourceCursor, to: childCopy, at: &targetCursor, rules)
            }
            setAttributes(of: targetCursor.directory, from: status)
            try sourceCursor.ascend()
            try targetCursor.ascend()
        case S_IFLNK:
            var link = [CChar](repeating: 0, count: EntryHeader.maximumPathByteCount + 1)
            let count = readlinkat(source.rawValue, name, &link, link.count - 1)
            guard count >= 0, symlinkat(link, target.rawValue, copyName) == 0 else {
                throw StorageError(errno, "could not create the link \(shown(copyName))")
            }
        default:
            let from = try source.openForReading(name)
            guard try from.status().isFile else { throw StorageError(.rejected, "\(shown(name)) is not a regular file") }
            guard let to = try target.createFile(copyName) else {
                throw StorageError(.failed, "\(shown(copyName)) exists already")
            }
            var writer = SparseWriter(to)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
            defer { buffer.deallocate() }
            while true {
                let count = try from.read(into: buffer)
                if count == 0 { break }
                try writer.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
            try writer.finish()
            setAttributes(of: to, from: status)
        }
    }

    /// A name that the target's file system allows, and that is free there.
    private static func nameOfCopy(
        _ name: String, in target: FileDescriptor, _ rules: FileNameRules
    ) throws(StorageError) -> String {
        guard rules == .windows, let claimed = ClaimedFileName(name) else { return name }
        return try StagedTree.create(SafeFileName(claimed, mayBeHidden: true, rules: rules)) { candidate in
            target.exists(candidate) ? nil : candidate
        }
    }

    private static func setAttributes(of copy: FileDescriptor, from status: stat) {
        fchmod(copy.rawValue, status.st_mode & 0o777)
        copy.setModified(status.modifiedNanoseconds)
    }

    /// The size of all files in a directory, in bytes.
    static func contentByteCount(of directory: FileDescriptor) -> UInt64 { size(of: directory).byteCount }

    /// The content of a file, or of all files in a folder, in bytes; of a sparse file only what its blocks hold.
    static func byteCount(of name: String, in directory: FileDescriptor) -> UInt64 {
        guard let status = try? directory.status(of: name) else { return 0 }
        guard status.isFolder else {
            return min(UInt64(clamping: status.st_size), UInt64(clamping: status.st_blocks).multipliedClamped(by: 512))
        }
        return (try? directory.openDirectory(name)).map { contentByteCount(of: $0) } ?? 0
    }

    /// The size of all files in a directory, and the number of everything in it; as far as it can be read.
    static func size(of directory: FileDescriptor) -> (byteCount: UInt64, entryCount: UInt64) {
        var cursor = DirectoryCursor(directory)
        var size: (byteCount: UInt64, entryCount: UInt64) = (0, 0)
        try? add(&cursor, to: &size)
        return size
    }

    private static func add(
        _ cursor: inout DirectoryCursor, to size: inout (byteCount: UInt64, entryCount: UInt64)
    ) throws(StorageError) {
        guard let names = try? DirectoryListing(of: cursor.directory) else { return }
        for index in 0..<names.count {
            let name = names.name(at: index)
            guard let status = try? cursor.directory.status(of: name) else { continue }
            size.entryCount += 1
            if status.isFolder {
                guard (try? cursor.descend(into: name)) != nil else { continue }
                try add(&cursor, to: &size)
                try cursor.ascend()
            } else if status.isFile {
                size.byteCount = size.byteCount.addingClamped(UInt64(clamping: status.st_size))
            }
        }
    }
}
