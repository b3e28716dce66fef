internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// The entry of an incoming transfer that was begun and not ended.
enum OpenEntry {
    case file(File)
    case created(Created)

    /// A folder, a link, or a file that is taken from the inbox: whole as soon as it is created.
    struct Created {
        let claimed: ClaimedFileName
        let stored: String
        let depth: Int
        var size: UInt64 = 0
    }

    /// A file whose content is being received.
    struct File {
        let header: EntryHeader
        let claimed: ClaimedFileName
        let stored: String
        private var writer: SparseWriter

        /// A checkpoint for a smaller file would cost more than sending the file again.
        private static let checkpointedSize: UInt64 = 1 << 20

        /// - Parameters:
        ///   - file: the open file, whose position is the end of its content.
        ///   - size: received bytes, including those of earlier attempts.
        init(
            _ header: EntryHeader, _ claimed: ClaimedFileName, storedAs stored: String, _ file: FileDescriptor, size: UInt64 = 0
        ) {
            (self.header, self.claimed, self.stored) = (header, claimed, stored)
            // Space is preallocated for large files, which keeps them unfragmented.
            let isPreallocated =
                header.size ?? 0 >= Self.checkpointedSize && nearshare_is_in_memory(file.rawValue) == 0
            writer = SparseWriter(file, size: size, preallocated: isPreallocated ? size : .max)
        }

        var descriptor: FileDescriptor { writer.file }
        /// Received bytes, including those of earlier attempts.
        var size: UInt64 { writer.size }
        /// Whether a checkpoint is written as soon as the file is begun.
        var isCheckpointed: Bool { header.size ?? .max >= Self.checkpointedSize }

        /// Writes the next bytes of the content.
        /// - Parameter free: reads the free bytes on the disk.
        mutating func write(
            _ bytes: UnsafeRawBufferPointer, within quota: TransferQuota, free: () -> UInt64?
        ) throws(StorageError) {
            preallocate(upTo: size.addingClamped(UInt64(bytes.count)), within: quota, free: free)
            try writer.write(bytes)
        }

        /// Preallocates space for the next bytes, a step ahead of those that were received (Q7).
        private mutating func preallocate(upTo written: UInt64, within quota: TransferQuota, free: () -> UInt64?) {
            guard written > writer.preallocated, let size = header.size else { return }
            let start = writer.preallocated
            guard let end = quota.preallocationEnd(after: written, of: size, free: free()), end > start else { return }
            // File systems that cannot preallocate do without.
            let length = off_t(clamping: end.subtractingClamped(start))
            let isPreallocated = nearshare_preallocate(descriptor.rawValue, off_t(clamping: start), length) == 0
            writer.preallocated = isPreallocated ? end : .max
        }

        /// Completes the content.
        mutating func finish() throws(StorageError) { try writer.finish() }

        /// Makes the received content durable, and releases the space that was preallocated beyond it.
        func synchronize() throws(StorageError) {
            try descriptor.truncate(to: size)
            try descriptor.synchronizeContent()
        }
    }
}
