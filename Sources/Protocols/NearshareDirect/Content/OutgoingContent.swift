package import NearshareBase
internal import NearshareCrypto

/// Where a transfer's content comes from, as the stream needs it: a walk over entries, with reading inside the present one.
package protocol ContentProvider<Failure> {
    /// What can go wrong where content comes from.
    associatedtype Failure: Error

    /// Goes on to the next entry; nil after the last.
    mutating func nextEntry() throws(Failure) -> EntryHeader?
    /// Returns 0 at the end of the present entry, and never reads beyond its header's size.
    mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    /// Goes to a place in the present file.
    mutating func seek(to offset: UInt64) throws(Failure)
}

/// Turns a walk over entries into the bytes of a content stream, piece by piece into the caller's buffers
/// (`docs/PROTOCOL.md`, section 6).
///
///     start ──► between entries ◄──► inside an entry (known size │ unknown size)
///                     └──► end
package struct OutgoingContent: Sendable {
    private enum State {
        case between
        case known(remaining: UInt64)
        case unknown
        case ended
    }

    private var state = State.between
    /// Bytes of a mark or header that are still to be copied out.
    private var pending: ArraySlice<UInt8>
    private var digest: EntriesDigest
    private var entryCount: UInt64
    private var isFirstEntryBegun = false
    private let start: StartPoint

    /// Bytes of content put into the stream so far, those that the receiver had already included.
    package private(set) var contentByteCount: UInt64
    /// Entries finished so far, those that the receiver had already included.
    package private(set) var finishedEntryCount: UInt64

    /// Everything has been handed out, the end mark included.
    package var isFinished: Bool {
        if case .ended = state { return pending.isEmpty }
        return false
    }

    /// - Parameter start: where ``StartPoint/find(_:in:)`` left the provider.
    package init(from start: StartPoint) {
        self.start = start
        digest = start.digest
        entryCount = start.completeEntries
        finishedEntryCount = start.completeEntries
        contentByteCount = start.completeByteCount + start.offset
        var writer = ByteWriter(reserving: ContentStreamFormat.startByteCount)
        writer.write(ContentStreamFormat.start)
        writer.write(start.completeEntries)
        writer.write(start.completeByteCount)
        writer.write(start.offset)
        pending = writer.bytes[...]
    }

    /// Fills `buffer` with the next bytes of the stream.
    /// - Returns: how many; 0 when the stream has ended. Fewer than there is room for when a source of unknown size has no
    ///   more at the moment.
    package mutating func fill<Provider: ContentProvider>(
        _ buffer: UnsafeMutableRawBufferPointer, from provider: inout Provider
    ) throws(Provider.Failure) -> Int {
        var filled = 0
        while filled < buffer.count {
            if !pending.isEmpty {
                let count = min(pending.count, buffer.count - filled)
                UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<filled + count]).copyBytes(from: pending.prefix(count))
                pending = pending.dropFirst(count)
                filled += count
                continue
            }
            switch state {
            case .between:
                try beginNextEntry(of: &provider)
            case .known(remaining: 0):
                finishedEntryCount += 1
                state = .between
            case .known(let remaining):
                let room = Int(min(UInt64(buffer.count - filled), remaining))
                let count = try provider.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<filled + room]))
                precondition(count > 0, "a provider throws rather than end before its header's size")
                filled += count
                contentByteCount += UInt64(count)
                state = .known(remaining: remaining - UInt64(count))
            case .unknown:
                let lengthEnd = filled + ContentStreamFormat.pieceLengthByteCount
                guard lengthEnd < buffer.count else { return filled }
                let count = try provider.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[lengthEnd...]))
                buffer.storeBytes(of: UInt32(count).bigEndian, toByteOffset: filled, as: UInt32.self)
                filled = lengthEnd + count
                contentByteCount += UInt64(count)
                guard count == 0 else { return filled }
                finishedEntryCount += 1
                state = .between
            case .ended:
                return filled
            }
        }
        return filled
    }

    private mutating func beginNextEntry<Provider: ContentProvider>(of provider: inout Provider) throws(Provider.Failure) {
        let header: EntryHeader
        var offset: UInt64 = 0
        if let resumed = start.entry, !isFirstEntryBegun {
            header = resumed
            offset = start.offset
        } else if let next = try provider.nextEntry() {
            header = next
        } else {
            var writer = ByteWriter(reserving: ContentStreamFormat.endByteCount)
            writer.write(ContentStreamFormat.end)
            writer.write(entryCount)
            writer.write(digest.bytes)
            pending = writer.bytes[...]
            state = .ended
            return
        }
        isFirstEntryBegun = true
        entryCount += 1
        let encoded = header.encoded
        digest.append(encodedHeader: encoded)
        var writer = ByteWriter(reserving: ContentStreamFormat.entryPrefixByteCount + encoded.count)
        writer.write(ContentStreamFormat.entry)
        writer.writeCounted(encoded, by: UInt16.self)
        pending = writer.bytes[...]
        state = header.size.map { .known(remaining: $0 - offset) } ?? .unknown
    }
}

/// Where a sender goes on in its source, after it has compared what the receiver kept with what there is.
package struct StartPoint: Sendable, Hashable {
    /// Entries that are skipped because the receiver has them.
    package let completeEntries: UInt64
    /// Content in these.
    package let completeByteCount: UInt64
    /// Bytes of the next entry that are skipped.
    package let offset: UInt64
    /// The entry that is gone on with, when ``offset`` is not 0: the provider stands inside it already.
    let entry: EntryHeader?
    let digest: EntriesDigest

    /// The very beginning.
    package static let beginning = StartPoint(
        completeEntries: 0, completeByteCount: 0, offset: 0, entry: nil, digest: EntriesDigest())

    /// Walks `provider`, which stands before its first entry, to the point up to which the receiver has the same.
    ///
    /// Complete entries are the same when the chain over their headers is; the bytes of a partial one when their SHA-256
    /// is. The latter reads them all.
    /// - Returns: nil when the source is not the one that the receiver has the beginning of; the provider is then
    ///   somewhere, and the transfer starts again with a new one.
    package static func find<Provider: ContentProvider>(
        _ point: ResumePoint, in provider: inout Provider
    ) throws(Provider.Failure) -> StartPoint? {
        var digest = EntriesDigest()
        var skippedBytes: UInt64 = 0
        for _ in 0..<point.completeEntries {
            guard let header = try provider.nextEntry() else { return nil }
            digest.append(header)
            skippedBytes += header.size ?? 0
        }
        if point.completeEntries > 0, digest.bytes != point.entriesDigest { return nil }
        guard point.partialSize > 0 else {
            return StartPoint(
                completeEntries: point.completeEntries, completeByteCount: skippedBytes, offset: 0, entry: nil, digest: digest)
        }
        guard let header = try provider.nextEntry(), let size = header.size, size >= point.partialSize else { return nil }
        guard try Self.digest(ofFirst: point.partialSize, in: &provider) == point.partialDigest else { return nil }
        try provider.seek(to: point.partialSize)
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
            let room = Int(min(UInt64(buffer.count), remaining))
            let read = try provider.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room]))
            guard read > 0 else { break }
            hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<read]))
            remaining -= UInt64(read)
        }
        return hasher.finalize()
    }
}
