internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// Operations on whole directories.
enum FileTree {
    /// Copies a file, a link or a directory with its content, times and permissions.
    static func copy(
        _ name: String, in source: FileDescriptor, to copyName: String, in target: FileDescriptor
    ) throws(StorageError) {
        guard let status = try source.status(of: name) else {
            throw StorageError(.notFound, "\(shown(name)) does not exist")
        }
        switch status.st_mode & S_IFMT {
        case S_IFDIR:
            let from = try source.openDirectory(name)
            let to = try target.openOrCreateDirectory(copyName)
            for child in try from.names() { try copy(child, in: from, to: child, in: to) }
            setAttributes(of: to, from: status)
        case S_IFLNK:
            var link = [CChar](repeating: 0, count: EntryHeader.maximumPathByteCount + 1)
            let count = readlinkat(source.rawValue, name, &link, link.count - 1)
            guard count >= 0, symlinkat(link, target.rawValue, copyName) == 0 else {
                throw StorageError(errno, "can't create the link \(shown(copyName))")
            }
        default:
            let from = try source.openForReading(name)
            guard try from.status().isFile else { throw StorageError(.refused, "\(shown(name)) is not a plain file") }
            guard let to = try target.createFile(copyName) else {
                throw StorageError(.failed, "\(shown(copyName)) exists already")
            }
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
            defer { buffer.deallocate() }
            while true {
                let count = try from.read(into: buffer)
                if count == 0 { break }
                try to.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
            setAttributes(of: to, from: status)
        }
    }

    private static func setAttributes(of copy: FileDescriptor, from status: stat) {
        fchmod(copy.rawValue, status.st_mode & 0o777)
        copy.setModified(status.modifiedNanoseconds)
    }

    /// The size of all files in a directory, in bytes.
    static func contentByteCount(of directory: FileDescriptor) -> UInt64 {
        guard let names = try? DirectoryListing(of: directory) else { return 0 }
        var total: UInt64 = 0
        for index in 0..<names.count {
            let name = names.name(at: index)
            guard let status = try? directory.status(of: name) else { continue }
            if status.isFolder {
                if let child = try? directory.openDirectory(name) { total += contentByteCount(of: child) }
            } else if status.isFile {
                total += UInt64(status.st_size)
            }
        }
        return total
    }
}
