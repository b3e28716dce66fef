internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// Opens the inbox directory, creates it if it is missing, and refuses it where its disk is no longer mounted: received files would
/// soon be hidden below the mount point. Recognised are a mount point that is none any more, and a missing inbox whose parent is
/// on another device than the inbox was. An inbox below a mount point is not told from a directory of the same path underneath.
///
/// The directory is opened anew for each use: a descriptor held for hours would keep its file system from being unmounted.
final class InboxFilesystem: Sendable {
    private struct Identity {
        let device: dev_t
        let isMountPoint: Bool
    }

    let path: String
    /// The user's home directory; nil where no folders above the inbox are created.
    private let home: String?
    private let identity = Mutex<Identity?>(nil)

    /// - Parameters:
    ///   - path: absolute.
    ///   - home: the user's home directory, below which missing folders above the inbox are created; nil for none.
    init(path: String, home: String?) {
        (self.path, self.home) = (path, home)
    }

    /// Opens the inbox.
    /// - Parameter creating: whether a missing directory is created.
    func open(creating: Bool = true) throws(StorageError) -> FileDescriptor {
        do throws(StorageError) {
            return try checked(try FileDescriptor.openDirectory(path: path))
        } catch {
            guard error.code == .notFound else { throw error }
            if let obstacle { throw StorageError(.failed, "the inbox \(shown(path)) is \(obstacle)") }
            guard creating else { throw error }
            try create()
            return try checked(try FileDescriptor.openDirectory(path: path))
        }
    }

    /// Checks that the inbox can be opened, or else created.
    /// - Returns: whether it exists.
    func check() throws(StorageError) -> Bool {
        do throws(StorageError) {
            _ = try open(creating: false)
            return true
        } catch {
            guard error.code == .notFound, identity.withLock({ $0 }) == nil else { throw error }
            let parent = AbsolutePath.parent(of: missingFolders.last ?? path)
            guard faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) == 0 else { throw creationError(errno) }
            var status = stat()
            guard fstatat(AT_FDCWD, parent, &status, 0) == 0, status.st_mode & S_IFMT == S_IFDIR else {
                throw StorageError(ENOTDIR, "could not create the inbox \(shown(path))")
            }
            return false
        }
    }

    /// The file or symbolic link in the place of the inbox, in words with a remedy; nil for none.
    private var obstacle: String? {
        var status = stat()
        guard fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        guard fstatat(AT_FDCWD, path, &status, 0) == 0 else {
            return "a link to a folder that is missing; is its disk mounted?"
        }
        return status.st_mode & S_IFMT == S_IFDIR ? nil : "not a folder; choose another path"
    }

    /// The failure of creating the inbox. Where its folder is missing, also whether the user may create that.
    private func creationError(_ code: Int32) -> StorageError {
        let text = "could not create the inbox \(shown(path))"
        var ancestor = AbsolutePath.parent(of: path)
        guard code == ENOENT, access(ancestor, F_OK) != 0 else { return StorageError(code, text) }
        repeat {
            ancestor = AbsolutePath.parent(of: ancestor)
            if faccessat(AT_FDCWD, ancestor, W_OK | X_OK, AT_EACCESS) == 0 { break }
            if errno != ENOENT {
                return StorageError(errno, "\(text): its folder is missing, and \(shown(ancestor)) is not writable")
            }
        } while ancestor != "/"
        return StorageError(code, text)
    }

    private func create() throws(StorageError) {
        if let known = identity.withLock({ $0 }) {
            var device: dev_t?
            do throws(StorageError) {
                device = try FileDescriptor.openDirectory(path: AbsolutePath.parent(of: path)).status().st_dev
            } catch {
                guard error.code == .notFound else { throw error }
            }
            guard !known.isMountPoint, device == known.device else {
                throw StorageError(.notFound, "the inbox \(shown(path)) is gone; is its disk still mounted?")
            }
        }
        for folder in missingFolders.reversed() { try createFolder(folder) }
        try createFolder(path)
    }

    private func createFolder(_ path: String) throws(StorageError) {
        guard mkdir(path, 0o700) == 0 else {
            if errno == EEXIST { return }
            throw creationError(errno)
        }
        // The umask may have removed bits.
        chmod(path, 0o700)
    }

    /// The folders above the inbox that are missing, the innermost first; none outside the home directory, where a disk may not be
    /// mounted. The root as home directory contains all disks.
    private var missingFolders: [String] {
        guard let home, let root = Self.resolvedComponents(of: home), !root.isEmpty,
            path.pathComponents.starts(with: home.pathComponents), !path.pathComponents.contains("..")
        else { return [] }
        var missing: [String] = []
        var folder = AbsolutePath.parent(of: path)
        while folder.pathComponents.count > home.pathComponents.count, access(folder, F_OK) != 0, errno == ENOENT {
            missing.append(folder)
            folder = AbsolutePath.parent(of: folder)
        }
        // A symbolic link below the home directory may lead out of it.
        return Self.resolvedComponents(of: folder)?.starts(with: root) == true ? missing : []
    }

    /// The components of a path with its symbolic links resolved; nil for a path that does not exist.
    private static func resolvedComponents(of path: String) -> [String]? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved).pathComponents
    }

    private func checked(_ directory: FileDescriptor) throws(StorageError) -> FileDescriptor {
        let device = try directory.status().st_dev
        var parent = stat()
        let isMountPoint = fstatat(directory.rawValue, "..", &parent, 0) == 0 && parent.st_dev != device
        let known = identity.withLock { identity in
            let known = identity ?? Identity(device: device, isMountPoint: isMountPoint)
            identity = known
            return known
        }
        guard !known.isMountPoint || isMountPoint else {
            throw StorageError(.notFound, "nothing is mounted at the inbox \(shown(path)) any more; mount its disk again")
        }
        guard faccessat(directory.rawValue, ".", W_OK | X_OK, AT_EACCESS) == 0 else {
            throw StorageError(errno, "could not write to the inbox \(shown(path))")
        }
        // A confined process may not write to a directory that has replaced the one of its start.
        guard nearshare_can_create(directory.rawValue) == 1 else {
            throw StorageError(EACCES, "could not write to the inbox \(shown(path))")
        }
        return directory
    }
}
