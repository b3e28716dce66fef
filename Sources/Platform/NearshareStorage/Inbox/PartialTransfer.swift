internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces

/// The state of an earlier attempt at a transfer, as far as its checkpoint, its list of names and the files on the disk agree.
struct PartialTransfer {
    let checkpoint: TransferCheckpoint
    let names: CompletedNames
    /// The cursor at the directory that was written into last, below the item's directory.
    let cursor: DirectoryCursor
    /// The file that was being received.
    let file: FileDescriptor?
    /// The point to resume from, as ``findPoint(_:)`` has found it.
    private(set) var point = ResumePoint.start
    /// The names of complete entries in the item's directory and in each of the open folders.
    private let completeNames: [Set<[UInt8]>]

    /// - Parameter offer: the offer that was accepted now, as ``OfferDigest``.
    /// - Returns: nil when there is nothing to resume, or only what was kept for another offer.
    init?(in staged: StagedTransfer, of offer: [UInt8]) {
        guard
            let checkpoint = TransferCheckpoint.read(in: staged.directory, bootID: TransferCheckpoint.currentBootID),
            checkpoint.offerDigest == offer,
            var names = try? CompletedNames(in: staged.directory, keeping: checkpoint.namesByteCount),
            let completeNames = try? names.namesInOpenFolders(),
            let itemDirectory = try? staged.items.openDirectory("\(checkpoint.item)")
        else { return nil }
        var cursor = DirectoryCursor(itemDirectory)
        for folder in checkpoint.folders {
            guard (try? cursor.descend(into: folder.stored)) != nil else { return nil }
        }
        self.checkpoint = checkpoint
        self.names = names
        self.cursor = cursor
        self.completeNames = (0...checkpoint.folders.count).map { $0 < completeNames.count ? completeNames[$0] : [] }
        file = checkpoint.file.flatMap { try? cursor.directory.openForWriting($0.stored) }
    }

    // MARK: The resume point

    /// Finds the point to resume from, with the digest of the partial file. Content of unknown size cannot be resumed: the sender
    /// cannot skip what is here.
    mutating func findPoint(_ cancellation: Cancellation) throws(StorageError) {
        var point = ResumePoint.start
        point.completeEntries = checkpoint.completeEntries
        point.entriesDigest = checkpoint.entriesDigest
        point.completeByteCount = checkpoint.completeBytes
        point.lastItem = checkpoint.item
        if let file, let size = checkpoint.file?.size { try hash(file, upTo: size, into: &point, cancellation) }
        self.point = point
    }

    /// Entries that need not be received, or of which a part is not received again.
    var storedEntryCount: UInt64 { checkpoint.completeEntries.addingClamped(point.partialSize > 0 ? 1 : 0) }

    /// Bytes of the transfer that are on the disk, or reserved there.
    func storedByteCount() throws(StorageError) -> UInt64 {
        var reserved: UInt64 = 0
        if let file, checkpoint.file?.size != nil { reserved = UInt64(try file.status().st_blocks) * 512 }
        return checkpoint.completeBytes.addingClamped(max(point.partialSize, reserved))
            .addingClamped(checkpoint.completeEntries.multipliedClamped(by: Offer.diskByteCountPerEntry))
    }

    private func hash(
        _ file: FileDescriptor, upTo limit: UInt64, into point: inout ResumePoint, _ cancellation: Cancellation
    ) throws(StorageError) {
        let size = min(UInt64(try file.status().st_size), limit)
        guard size > 0 else { return }
        var hasher = SHA256Hasher()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        var remaining = size
        while remaining > 0 {
            try cancellation.check()
            let requestedCount = Int(min(UInt64(buffer.count), remaining))
            let count = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<requestedCount]))
            guard count > 0 else { return }
            hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            remaining -= UInt64(count)
        }
        point.partialSize = size
        point.partialDigest = hasher.finalize()
    }

    // MARK: Resuming

    /// Opens the partial file for the rest of its content, moving it if the sender has renamed it since: names of unfinished files
    /// are not part of what both ends compare.
    func openFile(
        _ entry: EntryHeader, _ claimed: ClaimedFileName, at offset: UInt64, named name: SafeFileName,
        in directory: FileDescriptor
    ) throws(StorageError) -> OpenEntry.File {
        guard let file, let open = checkpoint.file else {
            throw StorageError(.failed, "there is no partial file to resume")
        }
        let formerDirectory = cursor.directory
        var stored = open.stored
        let isInPlace = try formerDirectory.status().st_ino == directory.status().st_ino
        if !isInPlace || open.claimed != claimed.bytes {
            stored = try StagedTree.create(name) { (candidate) throws(StorageError) -> String? in
                do throws(SystemCallError) {
                    return try formerDirectory.rename(open.stored, to: candidate, in: directory) ? candidate : nil
                } catch {
                    throw StorageError(error.code, "could not resume \(name)")
                }
            }
        }
        try file.truncate(to: offset)
        try file.seek(to: offset)
        return OpenEntry.File(entry, claimed, storedAs: stored, file, size: offset)
    }

    /// Removes everything that was written after the checkpoint: a killed process may have left it incomplete. It can only be
    /// in folders that were open, or in later items (P13).
    func removeUnfinished(from staged: StagedTransfer, keepsFile: Bool) throws(StorageError) {
        for number in try staged.items.names() where UInt32(number) ?? .max > checkpoint.item {
            staged.items.removeTree(number)
        }
        var cursor = cursor
        for depth in completeNames.indices.reversed() {
            var expected = completeNames[depth]
            if depth == completeNames.count - 1, keepsFile, let file = checkpoint.file {
                expected.insert(Array(file.stored.utf8))
            }
            let directory = cursor.directory
            for name in try directory.names() where !expected.contains(Array(name.utf8)) { directory.removeTree(name) }
            if depth > 0 { try cursor.ascend() }
        }
    }
}
