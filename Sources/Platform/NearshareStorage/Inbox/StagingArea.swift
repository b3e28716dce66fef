internal import Glibc
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// The directory of transfers that have no final names yet: one folder each, locked by one writer at a time.
///
///     STAGING/t-<key>/lock, journal, journal.safe, names, finished, items/<n>/<the item>
///     STAGING/c-<process>-<n>/…      a copy from another device
final class StagingArea: Sendable {
    let directory: FileDescriptor
    /// For error messages.
    let path: String

    private static let transferPrefix = "t-"
    private static let copyPrefix = "c-"
    private static let copies = Atomic<UInt64>(0)

    /// Opens a directory inside the state directory, creating it if necessary.
    init(path: String) throws(StorageError) {
        self.path = path
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw StorageError(errno, "can't create \(shown(path))") }
        chmod(path, 0o700)
        directory = try FileDescriptor.openDirectory(path: path)
    }

    /// Opens a directory inside one that other users may be able to write to.
    /// - Returns: nil when it does not exist and is not to be created.
    init?(named name: String, in parent: FileDescriptor, parentPath: String, creating: Bool) throws(StorageError) {
        path = "\(parentPath)/\(name)"
        if creating {
            // The umask may have removed bits.
            if try parent.createDirectory(name) { fchmodat(parent.rawValue, name, 0o700, 0) }
        } else if !parent.exists(name) {
            return nil
        }
        directory = try parent.openDirectory(name)
        // Another user may have created it to read received files. The owner of the parent directory could do so anyway, and on
        // file systems without owners the two are equal.
        let owner = try directory.status().st_uid
        let parentOwner = try parent.status().st_uid
        guard owner == geteuid() || owner == parentOwner else {
            throw StorageError(.refused, "\(shown(path)) belongs to another user; remove it")
        }
        fchmod(directory.rawValue, 0o700)
    }

    /// The device of the directory: files can be moved on the same device without copying.
    var device: dev_t { (try? directory.status())?.st_dev ?? 0 }

    /// Opens the folder of a sender's transfer, with the state of an earlier attempt; a new folder when that one is locked by
    /// another writer, or is complete and waits for the inbox.
    func open(sender: Fingerprint, resumeKey: [UInt8]) throws(StorageError) -> StagedTransfer {
        let key = Hex.encode(SHA256Hasher.digest(sender.bytes + resumeKey).prefix(16))
        for attempt in 1...Self.maximumAttempts {
            let name = Self.transferPrefix + (attempt == 1 ? key : "\(key)-\(attempt)")
            if let staged = try StagedTransfer(in: self, name: name, creating: true), !staged.isFinished { return staged }
        }
        throw StorageError(.failed, "too many concurrent attempts at the same transfer")
    }

    /// Creates a folder for a copy, which is never resumed.
    func openForCopy() throws(StorageError) -> StagedTransfer {
        for _ in 1...Self.maximumAttempts {
            let number = Self.copies.add(1, ordering: .relaxed).newValue
            let name = "\(Self.copyPrefix)\(getpid())-\(number)"
            // An earlier process with the same id may have been killed during a copy.
            if !directory.exists(name), let staged = try StagedTransfer(in: self, name: name, creating: true) { return staged }
        }
        throw StorageError(.failed, "\(shown(path)) is full of unfinished copies; remove them")
    }

    private static let maximumAttempts = 100

    /// Removes partial transfers that have not changed for `age`, and abandoned copies. Only unlocked folders with the names of
    /// staged transfers are removed (P7).
    func removeStaleTransfers(olderThan age: Duration, now: WallTime) {
        for name in (try? directory.names()) ?? [] {
            let isCopy = name.hasPrefix(Self.copyPrefix)
            guard isCopy || name.hasPrefix(Self.transferPrefix), let status = try? directory.status(of: name), status.isFolder
            else { continue }
            let idle = now.milliseconds / 1000 - Int64(status.st_mtim.tv_sec)
            guard isCopy || idle > age.components.seconds,
                let staged = try? StagedTransfer(in: self, name: name, creating: false)
            else {
                continue
            }
            if !staged.isFinished { staged.remove() }
        }
    }

    /// Calls `body` with each complete transfer that waits for the inbox. One is locked at a time.
    func forEachFinished(_ body: (StagedTransfer) -> Void) {
        for name in (try? directory.names()) ?? [] where name.hasPrefix(Self.transferPrefix) {
            // Checked without locking first: a listing must not keep a transfer from being resumed.
            guard directory.exists("\(name)/\(StagedTransfer.finishedName)"),
                let staged = try? StagedTransfer(in: self, name: name, creating: false), staged.isFinished
            else { continue }
            body(staged)
        }
    }
}
