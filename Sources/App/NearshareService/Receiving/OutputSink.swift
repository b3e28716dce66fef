internal import Glibc
internal import Nearshare

/// Writes received files to a descriptor, one after the other. Nothing is stored, so a transfer cannot be resumed.
final class OutputSink: ResourceSink {
    private let descriptor: Int32
    private let limit: UInt64?
    private var written: UInt64 = 0

    init(descriptor: Int32, limit: UInt64?) {
        self.descriptor = descriptor
        self.limit = limit
    }

    func resumePoint() throws(StorageError) -> ResumePoint { .start }

    func resume(at point: ResumePoint) throws(StorageError) {}

    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {}

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        written += UInt64(bytes.count)
        if let limit, written > limit {
            throw StorageError(.overLimit, "more than the limit of \(limit.asByteCount) was received")
        }
        do throws(SystemCallError) {
            try DescriptorIO.writeAll(bytes, to: descriptor)
        } catch {
            throw StorageError(.failed, "could not write to standard output: \(String(cString: strerror(error.code)))")
        }
    }

    func endEntry() throws(StorageError) {}

    func finish() throws(StorageError) -> [DeliveredItem] { [] }

    func suspend() {}

    func discard() {}
}
