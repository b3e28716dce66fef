import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("quota of an incoming transfer")
struct TransferQuotaTests {
    private func quota(total: UInt64?, entries: UInt64 = 1, _ change: (inout InboxLimits) -> Void = { _ in })
        throws(StorageError)
        -> TransferQuota
    {
        var limits = InboxRig.limits
        change(&limits)
        let quota = try TransferQuota(
            offer: Offer(items: [], itemCount: 1, entryCount: entries, totalSize: total), limits: limits)
        try quota.checkSize()
        return quota
    }

    @Test("R8, R13: offers beyond the limits are rejected")
    func offers() throws {
        #expect(throws: StorageError.self) { try quota(total: 11) { $0.maximumSize = 10 } }
        #expect(throws: StorageError.self) { try quota(total: nil, entries: 4) { $0.maximumEntries = 3 } }
        #expect(throws: Never.self) { try quota(total: 10) { ($0.maximumSize, $0.maximumEntries) = (10, 1) } }
        #expect(throws: StorageError.self) { try quota(total: 10, entries: 3) { $0.maximumSize = 8201 } }
        #expect(throws: Never.self) { try quota(total: 10, entries: 3) { $0.maximumSize = 8202 } }
    }

    @Test("R8: the rest of a transfer has to fit beside the reserve")
    func space() throws {
        let quota = try quota(total: 100) { $0.minimumFreeByteCount = 50 }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 0, free: 4246) }
        #expect(throws: StorageError.self) { try quota.checkSpace(beyond: 0, free: 4245) }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 1, free: 4245) }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: .max, free: 0) }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 0, free: nil) }
        #expect(throws: Never.self) { try self.quota(total: nil).checkSpace(beyond: 0, free: 4096) }
    }

    @Test("R7, R8: a limit holds while writing, also for counts near the end of 64 bits")
    func writing() throws {
        var quota = try quota(total: nil) { $0.maximumSize = 1000 }
        #expect(throws: Never.self) { try quota.checkWrite(of: 400, received: 600) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 401, received: 600) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 2, received: .max) { nil } }
    }

    @Test("R8: files that are present do not count, unless they are sent all the same")
    func presentFiles() throws {
        var limits = InboxRig.limits
        limits.maximumSize = 5000
        var quota = try TransferQuota(
            offer: Offer(items: [], itemCount: 1, entryCount: 2, totalSize: 9000), limits: limits)
        #expect(throws: StorageError.self) { try quota.checkSize() }
        quota.recordPresent((1, 8000))
        #expect(throws: Never.self) { try quota.checkSize() }
        #expect(quota.storedByteCount == 1000 + Offer.diskByteCountPerEntry)
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 0, free: 5096) }
        #expect(throws: StorageError.self) { try quota.checkSpace(beyond: 0, free: 5095) }
        #expect(throws: Never.self) { try quota.checkWrite(of: 1000, received: 0) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 1001, received: 0) { nil } }
        quota.recordUnsent(8000)
        #expect(throws: Never.self) { try quota.checkWrite(of: 1000, received: 8000) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 1001, received: 8000) { nil } }
    }

    @Test("R8: a transfer is admitted, and its bytes reserved, once all limits hold")
    func admission() throws {
        let reserved = Monitor<[UInt64]>([])
        var limits = InboxRig.limits
        (limits.maximumSize, limits.minimumFreeByteCount) = (5000, 50)
        let unused = try TransferQuota(
            offer: Offer(items: [], itemCount: 1, entryCount: 1, totalSize: 1000), limits: limits
        ) { bytes throws(StorageError) in
            if reserved.withLock({ !$0.isEmpty }) { throw StorageError(.overLimit, "full") }
            reserved.withLock { $0.append(bytes) }
        }
        var quota = unused
        let noSpace = #expect(throws: StorageError.self) { try quota.admit(beyond: 0, free: 1000) }
        #expect(noSpace?.code == .noSpace && !quota.isAdmitted && reserved.withLock { $0.isEmpty })
        try quota.admit(beyond: 0, free: 10_000)
        #expect(quota.isAdmitted && reserved.withLock { $0 } == [quota.storedByteCount])
        // A second transfer of the peer, whose bytes cannot be reserved beside those of the first.
        var second = unused
        let full = #expect(throws: StorageError.self) { try second.admit(beyond: 0, free: 10_000) }
        #expect(full?.code == .overLimit && !second.isAdmitted)
    }

    @Test("the free space is read only now and then")
    func interval() throws {
        var quota = try quota(total: 64 << 20) { $0.minimumFreeByteCount = 10 }
        var reads = 0
        for _ in 0..<31 {
            try quota.checkWrite(of: 64 << 10, received: 0) {
                reads += 1
                return 10
            }
        }
        #expect(reads == 1)
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 64 << 10, received: 0) { 9 } }
    }

    @Test func `R8: a stream of unknown size leaves the reserve, however small it is`() throws {
        let reserve: UInt64 = 64 << 20
        for free: UInt64 in [reserve, 100 << 20] {
            var quota = try quota(total: nil) { $0.minimumFreeByteCount = reserve }
            var written: UInt64 = 0
            let failure = #expect(throws: StorageError.self) {
                while written < 200 << 20 {
                    try quota.checkWrite(of: 96 << 10, received: written) { free - written }
                    written += 96 << 10
                }
            }
            #expect(failure?.code == .noSpace && free - written >= reserve)
            #expect(free - written <= reserve + 2 * TransferQuota.checkIntervalByteCount)
        }
    }
}
