internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces

/// Writes one accepted transfer aside and, when all of it is there, hands it to the inbox. Used by one thread at a time.
final class IncomingTransferSink: ResourceSink {
    private struct Folder {
        let claimed: ClaimedFileName
        let stored: String
        let directory: FileDescriptor
        let modified: Int64?
        let permissions: UInt16?
    }

    private struct OpenFile {
        let descriptor: FileDescriptor
        let header: EntryHeader
        let stored: String
        /// Bytes that are there, those from an earlier try included.
        var size: UInt64
    }

    private let offer: Offer
    private let staged: StagedTransfer
    private let inbox: Inbox
    private let clock: @Sendable () -> MonotonicInstant

    /// What was there when this try began.
    private var kept: Kept?
    /// nil until it is settled where this try goes on.
    private var names: CompletedNames?
    private var completeEntries: UInt64 = 0
    private var completeBytes: UInt64 = 0
    /// The chain over the headers of complete entries, and that with the present one.
    private var completeDigest: [UInt8] = []
    private var presentDigest: [UInt8] = []
    /// The item that `folders` belong to, and its holder.
    private var itemHolder: (item: UInt32, directory: FileDescriptor)?
    /// From the item's own folder down to the one that was written into last.
    private var folders: [Folder] = []
    private var file: OpenFile?
    /// What is noted down when the present entry is complete, unless it is a file.
    private var presentName: (stored: String, depth: Int)?
    /// Written since room on the disk was looked for.
    private var unchecked: UInt64 = 0
    private var lastCheckpoint: MonotonicInstant
    private var lastDurableCheckpoint: MonotonicInstant

    private static let checkpointInterval = Duration.seconds(2)
    /// So much work a loss of power may cost in a transfer of many files.
    private static let durableCheckpointInterval = Duration.seconds(30)
    /// A smaller file is soon sent again; noting down that it has begun would cost more.
    private static let notedFileSize: UInt64 = 1 << 20
    private static let roomCheckInterval: UInt64 = 64 << 20
    /// Each made durable by itself; more of them together with everything else on their disk.
    private static let fewItems = 8
    /// Names that become alike are tried one after the other, so there must be an end.
    private static let highestNumber = 999

    init(
        offer: Offer, staged: StagedTransfer, inbox: Inbox, clock: @escaping @Sendable () -> MonotonicInstant
    ) throws(StorageError) {
        self.offer = offer
        self.staged = staged
        self.inbox = inbox
        self.clock = clock
        lastCheckpoint = clock()
        lastDurableCheckpoint = lastCheckpoint
        guard offer.entryCount <= inbox.limits.maximumEntries else {
            throw StorageError(.overLimit, "\(offer.entryCount) files are more than the \(inbox.limits.maximumEntries) allowed")
        }
        if let limit = inbox.limits.maximumSize, let total = offer.totalSize, total > limit {
            throw StorageError(.overLimit, "\(total.asByteCount) are more than the \(limit.asByteCount) allowed")
        }
    }

    // MARK: Resuming

    /// An earlier try, as far as its journal, its list of names and what is on the disk agree.
    private struct Kept {
        let journal: TransferCheckpoint
        let names: CompletedNames
        /// The item's holder, then the folders that were open.
        let directories: [FileDescriptor]
        /// What is complete in each of them.
        let complete: [Set<String>]
        let file: FileDescriptor?

        init?(_ staged: StagedTransfer) {
            guard let journal = TransferCheckpoint.read(in: staged.directory, bootID: TransferCheckpoint.currentBootID),
                let names = try? CompletedNames(in: staged.directory, keeping: journal.namesByteCount),
                let complete = try? names.lastChain(), let holder = try? staged.items.openDirectory("\(journal.item)")
            else { return nil }
            var directories = [holder]
            for folder in journal.folders {
                guard let directory = try? directories.last?.openDirectory(folder.stored) else { return nil }
                directories.append(directory)
            }
            self.journal = journal
            self.names = names
            self.directories = directories
            self.complete = directories.indices.map { $0 < complete.count ? complete[$0] : [] }
            file = journal.file.flatMap { try? directories.last?.openForWriting($0.stored) }
        }
    }

    func resumePoint() throws(StorageError) -> ResumePoint {
        kept = Kept(staged)
        var point = ResumePoint.start
        var reserved: UInt64 = 0
        if let kept {
            point.completeEntries = kept.journal.completeEntries
            point.entriesDigest = kept.journal.entriesDigest
            // Of content of unknown size the sender can't skip what is here.
            if let file = kept.file, let size = kept.journal.file?.size {
                try digest(file, upTo: size, into: &point)
                reserved = UInt64(try file.status().st_blocks) * 512
            }
        }
        try checkRoom(beyond: (kept?.journal.completeBytes ?? 0) + max(point.partialSize, reserved))
        return point
    }

    /// - Parameter there: bytes that have their place on the disk already.
    private func checkRoom(beyond there: UInt64) throws(StorageError) {
        guard let total = offer.totalSize, let room = inbox.limits.usable(of: staged.items.freeBytes) else { return }
        let needed = total - min(total, there)
        guard needed > room else { return }
        throw StorageError(
            .noSpace,
            "\(needed.asByteCount) are to come and the disk has room for \(room.asByteCount); "
                + "make room for \((needed - room).asByteCount) more and try again")
    }

    private func digest(_ file: FileDescriptor, upTo limit: UInt64, into point: inout ResumePoint) throws(StorageError) {
        let size = min(UInt64(try file.status().st_size), limit)
        guard size > 0 else { return }
        var hasher = SHA256Hasher()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        var left = size
        while left > 0 {
            let room = Int(min(UInt64(buffer.count), left))
            let count = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room]))
            guard count > 0 else { return }
            hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            left -= UInt64(count)
        }
        point.partialSize = size
        point.partialDigest = hasher.finalize()
    }

    func resume(at point: ResumePoint) throws(StorageError) {
        guard point != .start, let kept else {
            self.kept = nil
            try staged.clear()
            names = try CompletedNames(in: staged.directory, keeping: 0)
            return
        }
        let journal = kept.journal
        completeEntries = journal.completeEntries
        completeBytes = journal.completeBytes
        completeDigest = journal.entriesDigest
        presentDigest = journal.entriesDigest
        itemHolder = (journal.item, kept.directories[0])
        folders = zip(journal.folders, kept.directories.dropFirst()).map { folder, directory in
            Folder(
                claimed: ClaimedFileName(bytes: folder.claimed) ?? ClaimedFileName("")!, stored: folder.stored,
                directory: directory, modified: folder.modified, permissions: folder.permissions)
        }
        names = kept.names
        try removeUnfinished(kept, keepsFile: point.partialSize > 0)
    }

    /// What was written after the journal, by a process that ended without a word, is complete or not: nobody knows. It is
    /// sent again. It can only be in folders that were open, or in later items (P13).
    private func removeUnfinished(_ kept: Kept, keepsFile: Bool) throws(StorageError) {
        for number in try staged.items.names() where UInt32(number) ?? .max > kept.journal.item {
            staged.items.removeTree(number)
        }
        for (depth, directory) in kept.directories.enumerated() {
            var expected = kept.complete[depth]
            if depth == kept.directories.count - 1, keepsFile, let open = kept.journal.file { expected.insert(open.stored) }
            for name in try directory.names() where !expected.contains(name) { directory.removeTree(name) }
        }
    }

    // MARK: Entries

    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        presentDigest = entriesDigest
        let directory = try parent(of: entry)
        let name = SafeFileName(entry.path.last!, mayBeHidden: entry.path.count > 1)
        switch entry.kind {
        case .folder:
            let stored = try create(name) { (candidate) throws(StorageError) -> String? in
                try directory.createDirectory(candidate) ? candidate : nil
            }
            presentName = (stored, entry.path.count - 1)
            if staged.needsModes { fchmodat(directory.number, stored, 0o700, 0) }
            folders.append(
                Folder(
                    claimed: entry.path.last!, stored: stored, directory: try directory.openDirectory(stored),
                    modified: entry.modified, permissions: entry.permissions))
        case .link(let target):
            guard inbox.limits.allowsLinks else { throw StorageError(.refused, "symbolic links are not taken here") }
            guard LinkTarget.staysInside(target, depth: entry.path.count) else {
                throw StorageError(.refused, "the link \(entry.path.last!) leads out of what was offered")
            }
            let text = String(decoding: target, as: UTF8.self)
            let stored = try create(name) { (candidate) throws(StorageError) -> String? in
                if symlinkat(text, directory.number, candidate) == 0 { return candidate }
                guard errno == EEXIST else { throw StorageError(errno, "can't make the link \(shown(candidate))") }
                return nil
            }
            presentName = (stored, entry.path.count - 1)
        case .file:
            if offset > 0 {
                file = try goOn(with: entry, at: offset, name, in: directory)
            } else {
                file = try createFile(entry, name, in: directory)
            }
        }
    }

    private func createFile(
        _ entry: EntryHeader, _ name: SafeFileName, in directory: FileDescriptor
    ) throws(StorageError) -> OpenFile {
        let (descriptor, stored) = try create(name) { (candidate) throws(StorageError) -> (FileDescriptor, String)? in
            guard let made = try directory.createFile(candidate) else { return nil }
            return (made, candidate)
        }
        if staged.needsModes { fchmod(descriptor.number, 0o600) }
        let file = OpenFile(descriptor: descriptor, header: entry, stored: stored, size: 0)
        guard entry.size ?? .max >= Self.notedFileSize else { return file }
        if let size = entry.size, nearshare_is_in_memory(descriptor.number) == 0 {
            // Keeps a large file in one piece on the disk. What the file system can't do is no matter.
            _ = nearshare_reserve(descriptor.number, off_t(clamping: size))
        }
        self.file = file
        try checkpoint()
        return file
    }

    /// The file that an earlier try has left unfinished, under the name and in the folder that it has now: what it was called
    /// is not part of what both ends have compared.
    private func goOn(
        with entry: EntryHeader, at offset: UInt64, _ name: SafeFileName, in directory: FileDescriptor
    ) throws(StorageError) -> OpenFile {
        guard let kept, let descriptor = kept.file, let open = kept.journal.file, let before = kept.directories.last else {
            throw StorageError(.failed, "there is nothing to go on with")
        }
        var stored = open.stored
        let isWhereItWas = try before.status().st_ino == directory.status().st_ino
        if !isWhereItWas || open.claimed != entry.path.last!.bytes {
            stored = try create(name) { (candidate) throws(StorageError) -> String? in
                do throws(FileDescriptor.Failure) {
                    return try before.rename(open.stored, to: candidate, in: directory) ? candidate : nil
                } catch {
                    throw StorageError(error.code, "can't go on with \(name)")
                }
            }
        }
        try descriptor.truncate(to: offset)
        try descriptor.seek(to: offset)
        return OpenFile(descriptor: descriptor, header: entry, stored: stored, size: offset)
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        guard file != nil else { throw StorageError(.failed, "content without a file") }
        let count = UInt64(bytes.count)
        if let limit = inbox.limits.maximumSize, completeBytes + file!.size + count > limit {
            throw StorageError(.overLimit, "more than the \(limit.asByteCount) allowed have come")
        }
        unchecked += count
        if unchecked >= Self.roomCheckInterval {
            unchecked = 0
            // Others write to the same disk, and of a stream nobody knows how long it gets.
            if let free = staged.items.freeBytes, free < inbox.limits.reserve { throw diskIsFull() }
        }
        do throws(StorageError) {
            try file!.descriptor.write(bytes)
        } catch {
            throw error.code == .noSpace ? diskIsFull() : error
        }
        file!.size += count
    }

    private func diskIsFull() -> StorageError {
        let there = completeBytes + (file?.size ?? 0)
        guard let total = offer.totalSize, total > there else {
            return StorageError(.noSpace, "the disk is full; make room and send it again")
        }
        return StorageError(
            .noSpace,
            "the disk is full and \((total - there).asByteCount) are still to come; "
                + "make room, and the same send goes on from here")
    }

    func endEntry() throws(StorageError) {
        if let file {
            if inbox.limits.keepsPermissions, let permissions = file.header.permissions {
                fchmod(file.descriptor.number, Self.allowed(permissions))
            }
            if let modified = file.header.modified { file.descriptor.setModified(modified) }
            if isMadeDurableOneByOne { try file.descriptor.synchronizeContent() }
            try names?.append(file.stored, depth: file.header.path.count - 1)
            completeBytes += file.size
        } else if let presentName {
            try names?.append(presentName.stored, depth: presentName.depth)
        }
        file = nil
        presentName = nil
        completeEntries += 1
        completeDigest = presentDigest
        if clock() - lastCheckpoint >= Self.checkpointInterval { try checkpoint() }
    }

    /// Trees and many files are made durable as a whole.
    private var isMadeDurableOneByOne: Bool { offer.itemCount <= Self.fewItems && offer.entryCount == UInt64(offer.itemCount) }

    // MARK: Ends

    func finish() throws(StorageError) -> [DeliveredItem] {
        closeFolders(downTo: 0)
        if !isMadeDurableOneByOne { try staged.items.synchronizeFileSystem() }
        try staged.markFinished(FinishedTransfer(offer))
        return inbox.deliver(staged)
    }

    func suspend() {
        // Ended before it was settled where to go on: what an earlier try has left stays as it is.
        guard names != nil else { return }
        // What can't be noted is sent again; nothing else is lost.
        do throws(StorageError) {
            if let file {
                // Gives back the room that was set aside beyond what has come.
                try file.descriptor.truncate(to: file.size)
                try file.descriptor.synchronizeContent()
            }
            try makeDurable()
        } catch {
            try? checkpoint()
        }
        file = nil
    }

    func discard() {
        file = nil
        staged.remove()
    }

    // MARK: Journal

    private func checkpoint() throws(StorageError) {
        let now = clock()
        if completeEntries > 0, now - lastDurableCheckpoint >= Self.durableCheckpointInterval { try makeDurable() }
        lastCheckpoint = now
        try names?.flush()
        try staged.replace(
            TransferCheckpoint.fileName, with: journal(bootID: TransferCheckpoint.currentBootID).encoded, durably: false)
    }

    private func makeDurable() throws(StorageError) {
        lastDurableCheckpoint = clock()
        try names?.flush()
        if completeEntries > 0 { try staged.items.synchronizeFileSystem() }
        let bytes = journal(bootID: nil).encoded
        try staged.replace(TransferCheckpoint.durableFileName, with: bytes, durably: true)
        try staged.replace(TransferCheckpoint.fileName, with: bytes, durably: false)
    }

    private func journal(bootID: String?) -> TransferCheckpoint {
        TransferCheckpoint(
            completeEntries: completeEntries, completeBytes: completeBytes,
            entriesDigest: completeEntries > 0 ? completeDigest : [], item: itemHolder?.item ?? 0,
            folders: folders.prefix(openFolderCount).map {
                TransferCheckpoint.OpenFolder(
                    claimed: $0.claimed.bytes, stored: $0.stored, modified: $0.modified, permissions: $0.permissions)
            },
            file: file.map {
                TransferCheckpoint.OpenFile(
                    claimed: $0.header.path.last!.bytes, stored: $0.stored, size: $0.header.size)
            },
            namesByteCount: names?.byteCount ?? 0, bootID: bootID)
    }

    /// A folder that has begun and not ended is not complete yet, so nothing is noted of it.
    private var openFolderCount: Int { presentName.map { min($0.depth, folders.count) } ?? folders.count }

    // MARK: Places

    /// The folder that an entry goes into: its own folders must have come before it.
    private func parent(of entry: EntryHeader) throws(StorageError) -> FileDescriptor {
        guard (1...EntryHeader.maximumDepth).contains(entry.path.count),
            entry.path.reduce(0, { $0 + $1.bytes.count }) <= EntryHeader.maximumPathByteCount
        else { throw StorageError(.refused, "a path that is too long") }
        if itemHolder?.item != entry.item {
            closeFolders(downTo: 0)
            if try staged.items.createDirectory("\(entry.item)"), staged.needsModes {
                fchmodat(staged.items.number, "\(entry.item)", 0o700, 0)
            }
            itemHolder = (entry.item, try staged.items.openDirectory("\(entry.item)"))
            try names?.appendItem()
        }
        let above = entry.path.dropLast()
        var common = 0
        while common < min(above.count, folders.count), above[common] == folders[common].claimed { common += 1 }
        guard common == above.count else {
            throw StorageError(.refused, "\(entry.path.last!) came before the folder that it is in")
        }
        closeFolders(downTo: common)
        return folders.last?.directory ?? itemHolder!.directory
    }

    /// Entries come in order, so a folder that is left is complete: now it gets its time and its permissions.
    private func closeFolders(downTo depth: Int) {
        while folders.count > depth {
            let folder = folders.removeLast()
            if inbox.limits.keepsPermissions, let permissions = folder.permissions {
                fchmod(folder.directory.number, Self.allowed(permissions) | 0o700)
            }
            if let modified = folder.modified { folder.directory.setModified(modified) }
        }
    }

    /// Tries the name, then it with numbers, for two that become alike (P9).
    private func create<Made>(
        _ name: SafeFileName, _ make: (String) throws(StorageError) -> Made?
    ) throws(StorageError) -> Made {
        if let made = try make(name.text) { return made }
        for number in 2...Self.highestNumber {
            if let made = try make(name.numbered(number).text) { return made }
        }
        throw StorageError(.refused, "too many files of one name")
    }

    /// Never set-uid, set-gid or sticky, never writable by all, always readable by the owner (P6).
    private static func allowed(_ permissions: UInt16) -> mode_t { mode_t(permissions) & 0o775 | 0o600 }
}

/// Where a symbolic link may point, on either end.
enum LinkTarget {
    /// Relative, upwards first if at all and not above the item's own folder. The folders upwards are real ones, and
    /// whatever link the rest leads through stays inside in the same way (P6).
    /// - Parameter depth: components of the link's own path from its item down, itself included; an item is at depth 1.
    static func staysInside(_ target: [UInt8], depth: Int) -> Bool {
        guard let first = target.first, first != UInt8(ascii: "/"), !target.contains(0),
            String(validating: target, as: UTF8.self) != nil
        else { return false }
        var upwards = 0
        var hasGoneDown = false
        for part in target.split(separator: UInt8(ascii: "/")) where part != [UInt8(ascii: ".")] {
            if part == [UInt8(ascii: "."), UInt8(ascii: ".")] {
                guard !hasGoneDown else { return false }
                upwards += 1
            } else {
                hasGoneDown = true
            }
        }
        // A link in the item's own folder is at depth 2: from there, upwards would leave the item.
        return upwards <= max(0, depth - 2) && depth >= 2
    }
}
