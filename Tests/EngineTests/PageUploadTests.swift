import NearshareBase
import NearshareInterfaces
import NearshareTesting
import NearshareWeb
import Testing

@testable import NearshareEngine

@Suite("uploads of the page") struct PageUploadTests {
    /// A sink whose disk is full from the first byte on.
    private final class FullSink: ResourceSink {
        let changedNames = ChangedNames()

        func resumePoint() throws(StorageError) -> ResumePoint { .start }
        func resume(at point: ResumePoint) throws(StorageError) {}
        func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {}
        func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) { throw StorageError(.noSpace, "the disk is full") }
        func endEntry() throws(StorageError) {}
        func finish() throws(StorageError) -> [DeliveredItem] { [] }
        func suspend() {}
        func discard() {}
    }

    private static func upload(_ sink: any ResourceSink, size: UInt64 = 1 << 20) throws -> PageUpload {
        // One file of that size, without a name.
        let offer = try PageOffer(decoding: [0, 1, 0, 0, 0] + size.bigEndianBytes + [UInt8](repeating: 0, count: 8))
        let clock: @Sendable () -> MonotonicInstant = { MonotonicInstant(nanoseconds: 0) }
        let progress = TransferProgress(
            id: TransferID(rawValue: 1), direction: .incoming, total: size, totalEntries: 1)
        return PageUpload(offer, transfer: Transfer(progress: progress, clock: clock), sink: sink, clock: clock)
    }

    @Test("R8: a full disk ends the upload, and no connection waits for it") func fullDisk() throws {
        let upload = try Self.upload(FullSink())
        for _ in 0..<20 { upload.append([[1]], isComplete: false) }
        let result = upload.run()
        #expect(result.outcome == .failed(.noSpace, at: .local) && result.detail == "the disk is full")
        upload.append([[1]], isComplete: false)
        upload.waitForRoom()
    }

    @Test func `an upload that is cancelled before it begins stores nothing`() throws {
        let upload = try Self.upload(FullSink())
        upload.append([[1]], isComplete: false)
        upload.end(.cancelled(by: .remote))
        upload.waitForRoom()
        #expect(upload.run().outcome == .cancelled(by: .remote))
    }

    @Test("R12: content beyond the offer is rejected") func tooMuch() throws {
        let upload = try Self.upload(FullSink(), size: 0)
        upload.append([[1]], isComplete: true)
        #expect(upload.run().outcome == .failed(.refused, at: .local))
    }
}
