internal import Glibc
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// The directory of transfers that have no final names yet: one folder each, locked by one writer at a time.
///
///     STAGING/t-<sender>-<key>/lock, journal, journal.safe, names, finished, items/<n>/<the item>
///     STAGING/c-<process>-<n>/…      a copy from another device
final class StagingArea: Sendable {
    let directory: FileDescriptor
    /// The path of the area, for error messages.
    let path: String

    private static let transferPrefix = "t-"
    private static let copyPrefix = "c-"
    private static let copies = Atomic<UInt64>(0)

    /// Opens a directory inside the state directory, creating it if necessary.
    init(path: String) throws(StorageError) {
        self.path = path
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw StorageError(errno, "could not create \(shown(path))") }
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
        let status = try directory.status()
        let parentOwner = try parent.status().st_uid
        guard status.st_uid == geteuid() || status.st_uid == parentOwner else {
            throw StorageError(.rejected, "\(shown(path)) belongs to another user; remove it")
        }
        // Only where it changes something: programs may watch the parent directory.
        if status.st_mode & 0o777 != 0o700 { fchmod(directory.rawValue, 0o700) }
    }

    /// The device of the directory: files can be moved on the same device without copying.
    var device: dev_t { (try? directory.status())?.st_dev ?? 0 }

    /// Opens the folder of a sender's transfer, with the state of an earlier attempt; a new folder when that one is locked by
    /// another writer, or is complete and waits for the inbox.
    func open(sender: Fingerprint, resumeKey: [UInt8]) throws(StorageError) -> StagedTransfer {
        let key = Self.name(of: sender, resumeKey)
        if !directory.exists(key) { removeOldest(of: sender) }
        for attempt in 1...Self.maximumAttempts {
            let name = attempt == 1 ? key : "\(key)-\(attempt)"
            if let staged = try StagedTransfer(in: self, name: name, creating: true), !staged.isFinished { return staged }
        }
        throw StorageError(.failed, "too many concurrent attempts at the same transfer")
    }

    /// The names of all folders of one sender begin with this.
    private static func prefix(of sender: Fingerprint) -> String {
        "\(transferPrefix)\(Hex.encode(SHA256Hasher.digest(sender.bytes).prefix(8)))-"
    }

    static func name(of sender: Fingerprint, _ resumeKey: [UInt8]) -> String {
        prefix(of: sender) + Hex.encode(SHA256Hasher.digest(sender.bytes + resumeKey).prefix(16))
    }

    /// The folders of a sender's unfinished transfers.
    private func unfinished(of sender: Fingerprint) -> [String] {
        let prefix = Self.prefix(of: sender)
        return ((try? directory.names()) ?? []).filter {
            $0.hasPrefix(prefix) && !directory.exists("\($0)/\(StagedTransfer.finishedName)")
        }
    }

    /// The disk space that a sender's unfinished transfers take, in bytes.
    /// - Parameter resumeKeys: of transfers that do not count, because they run or are about to.
    func partialByteCount(of sender: Fingerprint, except resumeKeys: [[UInt8]]) -> UInt64 {
        let others = resumeKeys.map { Self.name(of: sender, $0) }
        return unfinished(of: sender).filter { !others.contains($0) }
            .reduce(0) { $0.addingClamped(partialByteCount(in: $1)) }
    }

    /// The bytes of content that an unfinished transfer has stored.
    /// - Parameters:
    ///   - name: of its folder; the bytes of any other folder are none.
    ///   - offerDigest: of the only offer that counts; nil for any.
    func receivedByteCount(in name: String, offerDigest: [UInt8]?) -> UInt64 {
        guard name.hasPrefix(Self.transferPrefix), !name.contains("/"), let folder = try? directory.openDirectory(name),
            !folder.exists(StagedTransfer.finishedName),
            let checkpoint = TransferCheckpoint.read(in: folder, bootID: TransferCheckpoint.currentBootID),
            offerDigest == nil || checkpoint.offerDigest == offerDigest, let items = try? folder.openDirectory("items")
        else { return 0 }
        return FileTree.contentByteCount(of: items)
    }

    private func partialByteCount(in name: String) -> UInt64 {
        guard let items = try? directory.openDirectory(name).openDirectory("items") else { return 0 }
        let size = FileTree.size(of: items)
        // One more for the folder itself.
        return size.byteCount.addingClamped((size.entryCount + 1).multipliedClamped(by: Offer.diskByteCountPerEntry))
    }

    /// Keeps at most ``maximumUnfinishedCount`` transfers of a sender with a new one: its oldest ones give way.
    private func removeOldest(of sender: Fingerprint) {
        let names = unfinished(of: sender)
        guard names.count >= Self.maximumUnfinishedCount else { return }
        let byAge = names.sorted { changeTime(of: $0) < changeTime(of: $1) }
        for name in byAge.prefix(names.count - Self.maximumUnfinishedCount + 1) {
            // A transfer that runs is locked, and stays.
            if let staged = try? StagedTransfer(in: self, name: name, creating: false), !staged.isFinished { staged.remove() }
        }
    }

    private func changeTime(of name: String) -> Int64 { (try? directory.status(of: name))?.modifiedNanoseconds ?? 0 }

    /// Limit on the unfinished transfers that are kept for one sender.
    static let maximumUnfinishedCount = 16

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
            // Disks that others have written may have any time.
            let (idle, isBeyondRange) = (now.milliseconds / 1000).subtractingReportingOverflow(Int64(status.st_mtim.tv_sec))
            guard isCopy || isBeyondRange || idle > age.components.seconds,
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
