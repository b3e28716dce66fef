internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// The locked folder of one transfer in the staging area.
final class StagedTransfer: Sendable {
    let area: StagingArea
    let name: String
    let directory: FileDescriptor
    let items: FileDescriptor
    /// Naming rules of the items' file system.
    let nameRules: FileNameRules
    /// Whether the process's umask removes the owner's permissions, so that modes have to be set explicitly (P12).
    let needsModes: Bool
    private let lock: FileDescriptor

    static let finishedName = "finished"

    /// - Returns: nil when another writer has locked it, or it does not exist and is not to be created.
    init?(in area: StagingArea, name: String, creating: Bool) throws(StorageError) {
        self.area = area
        self.name = name
        for _ in 1...Self.maximumAttempts {
            if creating {
                if try area.directory.createDirectory(name) { fchmodat(area.directory.rawValue, name, 0o700, 0) }
            } else if !area.directory.exists(name) {
                return nil
            }
            let directory: FileDescriptor
            do throws(StorageError) {
                directory = try area.directory.openDirectory(name)
            } catch  where error.code == .notFound {
                continue
            }
            let raw = nearshare_openat(directory.rawValue, Self.lockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            // The last writer of the folder has removed it meanwhile.
            if raw < 0, errno == ENOENT { continue }
            guard raw >= 0 else { throw StorageError(errno, "could not lock \(shown(area.path))/\(name)") }
            let lock = FileDescriptor(owning: raw)
            guard flock(lock.rawValue, LOCK_EX | LOCK_NB) == 0 else { return nil }
            guard try lock.status().st_nlink > 0 else { continue }
            self.directory = directory
            self.lock = lock
            if try directory.createDirectory("items") {
                needsModes = try directory.status(of: "items").map { $0.st_mode & 0o700 != 0o700 } ?? true
                fchmodat(directory.rawValue, "items", 0o700, 0)
            } else {
                needsModes = true
            }
            items = try directory.openDirectory("items")
            nameRules = items.nameRules
            return
        }
        throw StorageError(.failed, "could not lock \(shown(area.path))/\(name)")
    }

    // Unlocks explicitly: a child process that is being started shares the descriptor until it executes its program, and
    // closing it here would not release the lock.
    deinit { unlock() }

    /// Lets another writer continue. Nothing is written afterwards.
    func unlock() { flock(lock.rawValue, LOCK_UN) }

    private static let lockName = "lock"
    private static let maximumAttempts = 100

    /// The path that messages and the list of waiting items show.
    var path: String { "\(area.path)/\(name)" }

    func path(ofItem number: UInt32, named name: String) -> String { "\(path)/items/\(number)/\(name)" }

    /// Calls `body` with the number, name and directory of each item. One item directory is open at a time: there may be more
    /// items than a process may have open files.
    func forEachItem(_ body: (UInt32, String, FileDescriptor) -> Void) {
        for number in ((try? items.names()) ?? []).compactMap({ UInt32($0) }).sorted() {
            guard let itemDirectory = try? items.openDirectory("\(number)") else { continue }
            for name in (try? itemDirectory.names()) ?? [] { body(number, name, itemDirectory) }
        }
    }

    /// Whether the items are those of the offer: as many, and the described ones with their names, kinds and sizes (Q3).
    /// - Parameter keepsNewer: whether a newer file of the inbox may replace an offered one, so that sizes may differ.
    func matches(_ offer: Offer, keepsNewer: Bool) -> Bool {
        var count: UInt32 = 0
        var areEqual = true
        forEachItem { number, name, itemDirectory in
            // More than one name for an item makes the numbers differ.
            if number != count { areEqual = false }
            count += 1
            guard number < UInt32(offer.items.count) else { return }
            let item = offer.items[Int(number)]
            let status = try? itemDirectory.status(of: name)
            let hasKind = item.kind == .folder ? status?.isFolder : status?.isFile
            let hasSize =
                item.kind == .folder || keepsNewer
                || item.size.map { $0 == UInt64(clamping: status?.st_size ?? 0) } ?? true
            if hasKind != true || !hasSize || SafeFileName(item.name).text != name { areEqual = false }
        }
        return areEqual && count == offer.itemCount
    }

    /// Whether the folder of the items was removed, by this machine's user or a program.
    var isRemoved: Bool { (try? items.status())?.st_nlink == 0 }

    /// Removes the folder. The lock goes last: until then no other writer gets the folder, and one that comes then finds it empty.
    func remove() {
        for name in (try? directory.names()) ?? [] where name != Self.lockName { directory.removeTree(name) }
        directory.unlink(Self.lockName)
        unlinkat(area.directory.rawValue, name, AT_REMOVEDIR)
    }

    /// Whether the transfer is complete and waits for its final names.
    var isFinished: Bool { directory.exists(Self.finishedName) }

    func markFinished(_ record: FinishedTransfer) throws(StorageError) {
        try replace(Self.finishedName, with: record.encoded, durably: false)
    }

    /// Makes the mark of a complete transfer durable.
    func makeMarkDurable() throws(StorageError) {
        try directory.openForReading(Self.finishedName).synchronize()
        try directory.synchronize()
    }

    var finishedTransfer: FinishedTransfer? {
        guard let file = try? directory.openForReading(Self.finishedName),
            let bytes = try? file.read(upTo: FinishedTransfer.maximumByteCount)
        else { return nil }
        return FinishedTransfer(decoding: bytes)
    }

    /// Replaces a file atomically: a reader sees either the old content or the new one.
    func replace(_ fileName: String, with bytes: [UInt8], durably: Bool) throws(StorageError) {
        let temporaryName = "\(fileName).new"
        directory.unlink(temporaryName)
        guard let file = try directory.createFile(temporaryName) else {
            throw StorageError(.failed, "could not store the state of the transfer in \(shown(path))")
        }
        try file.write(bytes)
        if durably { try file.synchronize() }
        guard renameat(directory.rawValue, temporaryName, directory.rawValue, fileName) == 0 else {
            throw StorageError(errno, "could not store the state of the transfer")
        }
        if durably { try directory.synchronize() }
    }

    /// Removes all items but some, and numbers these from 0.
    /// - Parameter numbers: ascending.
    func keepItems(_ numbers: [UInt32]) throws(StorageError) {
        let kept = Set(numbers.map { "\($0)" })
        for name in try items.names() where !kept.contains(name) { items.removeTree(name) }
        for (new, old) in numbers.enumerated() where UInt32(new) != old {
            do throws(SystemCallError) {
                // Free: the items before have lower numbers now, and the others were removed.
                guard try items.rename("\(old)", to: "\(new)", in: items) else { throw SystemCallError(code: EEXIST) }
            } catch {
                throw StorageError(error.code, "could not store a part of the files")
            }
        }
    }

    /// Removes the state and content of earlier attempts.
    /// - Returns: the folder into which many small files were moved instead, and that the caller removes when the transfer has
    ///   ended: on a busy machine the removal takes as long as receiving them. nil for none.
    func clear() throws(StorageError) -> StagedTransfer? {
        let earlier = TransferCheckpoint.read(in: directory, bootID: TransferCheckpoint.currentBootID)
        for name in TransferCheckpoint.fileNames { directory.unlink(name) }
        let isAside =
            earlier.map {
                $0.completeEntries > Self.maximumRemovedCount && $0.completeBytes <= Self.maximumAsideByteCount
            } ?? false
        let aside = isAside ? try? area.openForCopy() : nil
        for child in try items.names() {
            if let aside, (try? items.rename(child, to: child, in: aside.items)) == true { continue }
            items.removeTree(child)
        }
        return aside
    }

    /// Limit on the entries of earlier attempts that are removed before content is received.
    private static let maximumRemovedCount: UInt64 = 100
    /// Limit on the content that takes space beside that of the transfer, in bytes (Q7).
    private static let maximumAsideByteCount: UInt64 = 64 << 20
}
