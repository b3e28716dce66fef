package import NearshareBase
internal import NearshareCrypto

/// The position at which a sender starts, after it has compared the receiver's resume point with its source.
package struct StartPoint: Sendable, Hashable {
    /// Entries to skip, because the receiver has kept them.
    package let completeEntries: UInt64
    /// Bytes of content in these entries.
    package let completeByteCount: UInt64
    /// Bytes of the next entry to skip.
    package let offset: UInt64
    /// The entry to resume, at which the provider stands; nil when ``offset`` is 0.
    let entry: EntryHeader?
    let digest: EntriesDigest

    /// The start of the content.
    package static let beginning = StartPoint(
        completeEntries: 0, completeByteCount: 0, offset: 0, entry: nil, digest: EntriesDigest())

    /// Advances `provider` from its first entry to the receiver's resume point.
    ///
    /// Complete entries are compared by the hash chain over their headers, a partial one by the SHA-256 of its bytes, which
    /// reads them.
    /// - Returns: nil when the source differs. The provider's position is then undefined; the transfer starts from the beginning, with a new provider.
    package static func find<Provider: ContentProvider>(
        _ point: ResumePoint, in provider: inout Provider
    ) throws(Provider.Failure) -> StartPoint? {
        var digest = EntriesDigest()
        var skippedBytes: UInt64 = 0
        for _ in 0..<point.completeEntries {
            guard let header = try provider.nextEntry() else { return nil }
            // The receiver knows how much it stored of a file of unknown size; this side does not.
            guard let size = header.size else { return nil }
            digest.append(header)
            skippedBytes = skippedBytes.addingClamped(size)
        }
        if point.completeEntries > 0, digest.bytes != point.entriesDigest { return nil }
        guard point.partialSize > 0 else {
            return StartPoint(
                completeEntries: point.completeEntries, completeByteCount: skippedBytes, offset: 0, entry: nil, digest: digest)
        }
        guard let header = try provider.nextEntry(), let size = header.size, size >= point.partialSize else { return nil }
        // The receiver removes the part of an entry that is withdrawn.
        if !provider.isWithdrawn {
            let isEqual = try Self.digest(ofFirst: point.partialSize, in: &provider) == point.partialDigest
            guard isEqual || provider.isWithdrawn else { return nil }
            if !provider.isWithdrawn { try provider.seek(to: point.partialSize) }
        }
        return StartPoint(
            completeEntries: point.completeEntries, completeByteCount: skippedBytes, offset: point.partialSize, entry: header,
            digest: digest)
    }

    private static func digest<Provider: ContentProvider>(
        ofFirst count: UInt64, in provider: inout Provider
    ) throws(Provider.Failure) -> [UInt8] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        var hasher = SHA256Hasher()
        var remaining = count
        while remaining > 0 {
            let requestedCount = Int(min(UInt64(buffer.count), remaining))
            let read = try provider.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<requestedCount]))
            guard read > 0 else { break }
            hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<read]))
            remaining = remaining.subtractingClamped(UInt64(read))
        }
        return hasher.finalize()
    }
}
