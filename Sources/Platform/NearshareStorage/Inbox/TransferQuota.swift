internal import NearshareBase
internal import NearshareInterfaces

/// Checks the size of one incoming transfer against the user's limits and the free space of the disk.
struct TransferQuota {
    private let offer: Offer
    private let limits: InboxLimits
    /// The part that needs no space, because its files are present: files, and their offered bytes.
    private var present: (count: UInt64, byteCount: UInt64) = (0, 0)
    /// Offered bytes of present files that were not sent.
    private var unsentByteCount: UInt64 = 0
    /// Bytes written since the free space was last read.
    private var uncheckedByteCount: UInt64 = 0
    /// Reserves the bytes of the rest of the transfer in the limit of its peer.
    private let reserve: @Sendable (UInt64) throws(StorageError) -> Void
    /// Whether limits and free space were checked; no content is received before.
    private(set) var isAdmitted = false

    /// Interval between reads of the free space: other programs write to the same disk, and a stream has no known size. Small
    /// against the space that stays free (R8).
    static let checkIntervalByteCount: UInt64 = 1 << 20

    /// - Throws: ``StorageError/Code/overLimit`` for an offer beyond the limits.
    init(
        offer: Offer, limits: InboxLimits,
        reserve: @escaping @Sendable (UInt64) throws(StorageError) -> Void = { _ throws(StorageError) in }
    ) throws(StorageError) {
        guard offer.entryCount <= limits.maximumEntries else {
            throw StorageError(.overLimit, "\(offer.entryCount) files and folders exceed the limit of \(limits.maximumEntries)")
        }
        (self.offer, self.limits, self.reserve) = (offer, limits, reserve)
        // Nothing was compared with the space on the disk: the first entry is.
        if offer.totalSize == nil { uncheckedByteCount = Self.checkIntervalByteCount }
    }

    /// The disk space that the transfer takes, without the files that are present.
    var storedByteCount: UInt64 {
        offer.storedByteCount.subtractingClamped(present.byteCount)
            .subtractingClamped(present.count.multipliedClamped(by: Offer.diskByteCountPerEntry))
    }

    /// Checks the size of the offer, or of what is missing of it.
    func checkSize() throws(StorageError) {
        let size = Offer.byteCountForLimit(storedByteCount)
        guard let limit = limits.maximumSize, size > limit else { return }
        throw StorageError(.overLimit, "\(size.formattedByteCount) exceed the limit of \(limit.formattedByteCount)")
    }

    /// Admits the content that is still to be received, if it keeps to all limits, and reserves its bytes.
    /// - Parameters:
    ///   - stored: bytes that are on the disk already.
    ///   - free: free bytes on the disk; nil when they are not known.
    mutating func admit(beyond stored: UInt64, free: UInt64?) throws(StorageError) {
        try checkSize()
        try checkSpace(beyond: stored, free: free)
        try reserve(storedByteCount)
        isAdmitted = true
    }

    /// Records the files that are present, whose content needs no space.
    mutating func recordPresent(_ present: (count: UInt64, byteCount: UInt64)) { self.present = present }

    /// Records a present file that is not sent.
    mutating func recordUnsent(_ byteCount: UInt64) { unsentByteCount = unsentByteCount.addingClamped(byteCount) }

    /// Checks before the first byte that the rest of the transfer fits on the disk.
    /// - Parameters:
    ///   - stored: bytes that are on the disk already.
    ///   - free: free bytes on the disk; nil when they are not known.
    func checkSpace(beyond stored: UInt64, free: UInt64?) throws(StorageError) {
        guard let free, let space = limits.usable(of: free) else { return }
        let needed = storedByteCount.subtractingClamped(stored)
        guard needed > space else { return }
        let missing = needed.addingClamped(limits.minimumFreeByteCount).subtractingClamped(free)
        throw StorageError(
            .noSpace,
            "\(needed.formattedByteCount) are still to be received, and \(space.formattedByteCount) of the disk can be used, as "
                + "\(limits.minimumFreeByteCount.formattedByteCount) stay free; free \(missing.formattedByteCount) more and try again"
        )
    }

    /// Checks one write.
    /// - Parameters:
    ///   - byteCount: bytes that are about to be written.
    ///   - received: bytes received before.
    ///   - free: reads the free bytes on the disk, which is done only now and then.
    mutating func checkWrite(of byteCount: UInt64, received: UInt64, free: () -> UInt64?) throws(StorageError) {
        let sent = received.addingClamped(byteCount).subtractingClamped(unsentByteCount)
        // A file that was admitted because it is present must not be sent all the same.
        if present.byteCount > 0, let total = offer.totalSize, sent > total.subtractingClamped(present.byteCount) {
            throw StorageError(.overLimit, "the sender sent files that the inbox already has")
        }
        let entries = offer.byteCountForLimit.subtractingClamped(offer.totalSize ?? 0)
            .subtractingClamped(present.count.multipliedClamped(by: Offer.diskByteCountPerEntry))
        if let limit = limits.maximumSize, sent.addingClamped(entries) > limit {
            throw StorageError(.overLimit, "more than the limit of \(limit.formattedByteCount) was received")
        }
        try checkFreeSpace(beyond: byteCount, received: received, free: free)
    }

    /// Checks one entry: a million empty ones fill a disk as well.
    mutating func checkEntry(received: UInt64, free: () -> UInt64?) throws(StorageError) {
        try checkFreeSpace(beyond: Offer.diskByteCountPerEntry, received: received, free: free)
    }

    private mutating func checkFreeSpace(
        beyond byteCount: UInt64, received: UInt64, free: () -> UInt64?
    ) throws(StorageError) {
        uncheckedByteCount = uncheckedByteCount.addingClamped(byteCount)
        guard uncheckedByteCount >= Self.checkIntervalByteCount else { return }
        uncheckedByteCount = 0
        // All that a stream writes before the next check has to fit.
        let ahead = offer.totalSize == nil ? byteCount.addingClamped(Self.checkIntervalByteCount) : 0
        if let free = free(), free < limits.minimumFreeByteCount.addingClamped(ahead) {
            throw diskFullError(received: received)
        }
    }

    /// The end of the space to preallocate for a file: a step beyond the received content, so that a claimed size alone takes
    /// none; nil where nothing is to be preallocated.
    /// - Parameters:
    ///   - written: the file's bytes after the current write.
    ///   - size: the claimed size.
    func preallocationEnd(after written: UInt64, of size: UInt64, free: UInt64?) -> UInt64? {
        let step = min(max(written, Self.minimumPreallocation), Self.maximumPreallocation)
        guard let space = limits.usable(of: free), space > step else { return nil }
        return min(size, written.addingClamped(step))
    }

    private static let minimumPreallocation: UInt64 = 1 << 20
    private static let maximumPreallocation: UInt64 = 16 << 20

    func diskFullError(received: UInt64) -> StorageError {
        guard let totalSize = offer.totalSize, totalSize > received else {
            return StorageError(.noSpace, "the disk is full; free some space and send it again")
        }
        return StorageError(
            .noSpace,
            "the disk is full and \(totalSize.subtractingClamped(received).formattedByteCount) are still to come; "
                + "free some space, and repeat the send to resume")
    }
}
