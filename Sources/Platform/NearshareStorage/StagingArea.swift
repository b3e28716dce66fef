internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// Where transfers are written before they get their final names: one folder each, held by one writer at a time.
///
///     STAGING/t-<key>/lock, journal, journal.safe, names, finished, items/<n>/<the item>
///     STAGING/c-<process>-<n>/…      a copy on its way from another device
final class StagingArea: Sendable {
    let directory: FileDescriptor
    /// The same, for people.
    let path: String

    private static let transferPrefix = "t-"
    private static let copyPrefix = "c-"
    private static let copies = Atomic<UInt64>(0)

    /// A directory of ours.
    init(path: String) throws(StorageError) {
        self.path = path
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw StorageError(errno, "can't make \(shown(path))") }
        chmod(path, 0o700)
        directory = try FileDescriptor.openDirectory(path: path)
    }

    /// A directory of ours inside one that others may write into.
    /// - Parameter makingIt: nil comes back where there is none, unless it is to be made.
    init?(named name: String, in parent: FileDescriptor, parentPath: String, makingIt: Bool) throws(StorageError) {
        path = "\(parentPath)/\(name)"
        if makingIt {
            // Whatever the umask has left of it.
            if try parent.createDirectory(name) { fchmodat(parent.number, name, 0o700, 0) }
        } else if !parent.exists(name) {
            return nil
        }
        directory = try parent.openDirectory(name)
        // Somebody else may have put it there to read along. Whoever owns the directory around it could do so anyway, and on
        // file systems without owners they are the same.
        let owner = try directory.status().st_uid
        let ownerAround = try parent.status().st_uid
        guard owner == geteuid() || owner == ownerAround else {
            throw StorageError(.refused, "\(shown(path)) belongs to somebody else; remove it")
        }
        fchmod(directory.number, 0o700)
    }

    /// The device it is on: files can be moved to the same device without copying.
    var device: dev_t { (try? directory.status())?.st_dev ?? 0 }

    /// The folder for a sender's transfer, with what is there of an earlier try; a fresh one when that is being written by
    /// somebody else, or is complete and waits for the inbox.
    func open(sender: Fingerprint, resumeKey: [UInt8]) throws(StorageError) -> StagedTransfer {
        let key = Hex.encode(SHA256Hasher.digest(sender.bytes + resumeKey).prefix(16))
        for attempt in 1...Self.maximumAttempts {
            let name = Self.transferPrefix + (attempt == 1 ? key : "\(key)-\(attempt)")
            if let staged = try StagedTransfer(in: self, name: name, makingIt: true), !staged.isFinished { return staged }
        }
        throw StorageError(.failed, "the same transfer is being received too many times at once")
    }

    /// A folder for a copy that nobody will go on with.
    func openForCopy() throws(StorageError) -> StagedTransfer {
        for _ in 1...Self.maximumAttempts {
            let number = Self.copies.add(1, ordering: .relaxed).newValue
            let name = "\(Self.copyPrefix)\(getpid())-\(number)"
            // A process of this number may have died in the middle of one.
            if !directory.exists(name), let staged = try StagedTransfer(in: self, name: name, makingIt: true) { return staged }
        }
        throw StorageError(.failed, "\(shown(path)) is full of unfinished copies; remove them")
    }

    private static let maximumAttempts = 100

    /// Removes what nobody has gone on with for `age`, and copies that nobody makes any more. Only folders that carry our
    /// names, and that nobody holds (P7).
    func removeStaleTransfers(olderThan age: Duration, now: WallTime) {
        for name in (try? directory.names()) ?? [] {
            let isCopy = name.hasPrefix(Self.copyPrefix)
            var status = stat()
            guard isCopy || name.hasPrefix(Self.transferPrefix),
                fstatat(directory.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0, status.isFolder
            else { continue }
            let idle = now.milliseconds / 1000 - Int64(status.st_mtim.tv_sec)
            guard isCopy || idle > age.components.seconds,
                let staged = try? StagedTransfer(in: self, name: name, makingIt: false)
            else {
                continue
            }
            if !staged.isFinished { staged.remove() }
        }
    }

    /// Goes over complete transfers that wait for an inbox, one held at a time.
    func forEachFinished(_ body: (StagedTransfer) -> Void) {
        for name in (try? directory.names()) ?? [] where name.hasPrefix(Self.transferPrefix) {
            // A glance first: a transfer that is about to be gone on with should not find its lock taken by a listing.
            guard directory.exists("\(name)/\(StagedTransfer.finishedName)"),
                let staged = try? StagedTransfer(in: self, name: name, makingIt: false), staged.isFinished
            else { continue }
            body(staged)
        }
    }
}

/// One transfer's folder in the staging area, locked.
final class StagedTransfer: Sendable {
    let area: StagingArea
    let name: String
    let directory: FileDescriptor
    let items: FileDescriptor
    /// The process's umask takes bits away that the owner needs, so that modes have to be set by hand (P12).
    let needsModes: Bool
    private let lock: FileDescriptor

    fileprivate static let finishedName = "finished"

    /// - Returns: nil when somebody else holds it, or it isn't there and is not to be made.
    init?(in area: StagingArea, name: String, makingIt: Bool) throws(StorageError) {
        self.area = area
        self.name = name
        for _ in 1...Self.maximumAttempts {
            if makingIt {
                if try area.directory.createDirectory(name) { fchmodat(area.directory.number, name, 0o700, 0) }
            } else if !area.directory.exists(name) {
                return nil
            }
            let directory = try area.directory.openDirectory(name)
            let raw = nearshare_openat(directory.number, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            // Removed by its last holder between two of these calls.
            if raw < 0, errno == ENOENT { continue }
            guard raw >= 0 else { throw StorageError(errno, "can't lock \(shown(area.path))/\(name)") }
            let lock = FileDescriptor(owning: raw)
            guard flock(lock.number, LOCK_EX | LOCK_NB) == 0 else { return nil }
            guard try lock.status().st_nlink > 0 else { continue }
            self.directory = directory
            self.lock = lock
            if try directory.createDirectory("items") {
                var status = stat()
                fstatat(directory.number, "items", &status, AT_SYMLINK_NOFOLLOW)
                needsModes = status.st_mode & 0o700 != 0o700
                fchmodat(directory.number, "items", 0o700, 0)
            } else {
                needsModes = true
            }
            items = try directory.openDirectory("items")
            return
        }
        throw StorageError(.failed, "can't lock \(shown(area.path))/\(name)")
    }

    // A child that is just being started has a copy of every open file until it runs its own program: closing ours would
    // not end the lock before that.
    deinit { flock(lock.number, LOCK_UN) }

    private static let maximumAttempts = 100

    var path: String { "\(area.path)/\(name)" }

    func remove() {
        area.directory.removeTree(name)
    }

    /// Everything has arrived; only final names are missing.
    var isFinished: Bool { directory.exists(Self.finishedName) }

    func markFinished(_ record: FinishedTransfer) throws(StorageError) {
        try replace(Self.finishedName, with: record.encoded, durably: false)
    }

    /// What waits survives a loss of power.
    func makeMarkDurable() throws(StorageError) {
        try directory.openForReading(Self.finishedName).synchronize()
        try directory.synchronize()
    }

    var finishedTransfer: FinishedTransfer? {
        guard let file = try? directory.openForReading(Self.finishedName),
            let bytes = try? file.readAll(limit: FinishedTransfer.maximumByteCount)
        else { return nil }
        return FinishedTransfer(decoding: bytes)
    }

    /// A reader sees the old content or the new one.
    func replace(_ fileName: String, with bytes: [UInt8], durably: Bool) throws(StorageError) {
        let aside = "\(fileName).new"
        directory.unlink(aside)
        guard let file = try directory.createFile(aside) else {
            throw StorageError(.failed, "can't keep the state of the transfer in \(shown(path))")
        }
        try file.write(bytes)
        if durably { try file.synchronize() }
        guard renameat(directory.number, aside, directory.number, fileName) == 0 else {
            throw StorageError(errno, "can't keep the state of the transfer")
        }
        if durably { try directory.synchronize() }
    }

    /// Forgets what is there, to start again.
    func clear() throws(StorageError) {
        for name in TransferCheckpoint.fileNames { directory.unlink(name) }
        for child in try items.names() { items.removeTree(child) }
    }
}
