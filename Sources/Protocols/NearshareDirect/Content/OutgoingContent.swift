package import NearshareBase

/// Encodes entries and their content as a content stream, incrementally into the caller's buffers (`docs/PROTOCOL.md`, section
/// 6).
///
///     start ──► between entries ◄──► within an entry (known size │ unknown size)
///                     └──► ended
///
/// Towards a receiver that knows withdrawn entries, files of known size are sent in chunks, so that each can end early.
package struct OutgoingContent: Sendable {
    private enum State {
        case between
        case knownSize(remaining: UInt64)
        case chunks(remaining: UInt64)
        case unknownSize
        case ended
    }

    private var state = State.between
    /// Bytes of a mark or header that are not copied to a buffer yet.
    private var pending: ArraySlice<UInt8>
    private var digest: EntriesDigest
    private var entryCount: UInt64
    private var hasBegunEntry = false
    private let start: StartPoint
    private let present: PresentFiles
    private let withdrawsEntries: Bool
    private var tally: EntryTally
    private var currentHeader: EntryHeader?

    /// The entries that were withdrawn; nil for none.
    package var missing: MissingFiles? { tally.missing }
    /// Whether entries were withdrawn, and no file remains: a receiver rejects such a content.
    package var isAllWithdrawn: Bool { tally.isAllWithdrawn }
    /// Bytes of content so far, including those that the receiver had kept and those of withdrawn entries.
    package private(set) var contentByteCount: UInt64
    /// The part of ``contentByteCount`` in files that the receiver has without an earlier attempt.
    package private(set) var presentByteCount: UInt64 = 0
    /// Entries completed so far, including those that the receiver had kept.
    package private(set) var finishedEntryCount: UInt64

    /// Whether the whole stream, the end mark included, was returned.
    package var isFinished: Bool {
        if case .ended = state { return pending.isEmpty }
        return false
    }

    /// - Parameters:
    ///   - start: The position of the provider, from ``StartPoint/find(_:in:)``.
    ///   - present: The files whose content is not sent.
    ///   - withdrawsEntries: Whether the receiver knows withdrawn entries. Otherwise the provider must withdraw none.
    package init(from start: StartPoint, present: PresentFiles = .none, withdrawsEntries: Bool = false) {
        self.start = start
        self.present = present
        self.withdrawsEntries = withdrawsEntries
        tally = EntryTally(keptCount: start.completeEntries)
        digest = start.digest
        entryCount = start.completeEntries
        finishedEntryCount = start.completeEntries
        contentByteCount = start.completeByteCount.addingClamped(start.offset)
        var writer = ByteWriter(reserving: ContentStreamFormat.startByteCount)
        writer.write(ContentStreamFormat.start)
        writer.write(start.completeEntries)
        writer.write(start.completeByteCount)
        writer.write(start.offset)
        pending = writer.bytes[...]
    }

    /// Fills `buffer` with the next bytes of the stream.
    /// - Returns: The number of bytes; 0 only after the end, or for an empty buffer. A source of unknown size may fill only a part
    ///   of the buffer.
    package mutating func fill<Provider: ContentProvider>(
        _ buffer: UnsafeMutableRawBufferPointer, from provider: inout Provider
    ) throws(Provider.Failure) -> Int {
        var filled = 0
        while filled < buffer.count {
            if !pending.isEmpty {
                filled += pending.removePrefix(into: buffer[filled...])
                continue
            }
            switch state {
            case .between:
                try beginNextEntry(of: &provider)
            case .knownSize(remaining: 0):
                finishedEntryCount = finishedEntryCount.addingClamped(1)
                state = .between
            case .knownSize(let remaining):
                let requestedCount = Int(min(UInt64(buffer.count - filled), remaining))
                let count = try provider.read(
                    into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<filled + requestedCount]))
                // Safe: the engine's provider, which reads files that anything may change, throws in this case.
                precondition(count > 0, "a provider must throw when an entry is shorter than its header says")
                filled += count
                contentByteCount = contentByteCount.addingClamped(UInt64(count))
                state = .knownSize(remaining: remaining.subtractingClamped(UInt64(count)))
            case .chunks(remaining: 0):
                state = .knownSize(remaining: 0)
            case .chunks(let remaining):
                let lengthEnd = filled + ContentStreamFormat.chunkLengthByteCount
                guard lengthEnd < buffer.count else {
                    finishChunk(of: try bufferChunk(of: &provider, upTo: remaining), remaining, in: provider)
                    continue
                }
                let requestedCount = Int(min(UInt64(buffer.count - lengthEnd), remaining))
                let count = try provider.read(
                    into: UnsafeMutableRawBufferPointer(rebasing: buffer[lengthEnd..<lengthEnd + requestedCount]))
                buffer.storeBytes(of: UInt32(count).bigEndian, toByteOffset: filled, as: UInt32.self)
                filled = lengthEnd + count
                finishChunk(of: count, remaining, in: provider)
            case .unknownSize:
                let lengthEnd = filled + ContentStreamFormat.chunkLengthByteCount
                guard lengthEnd < buffer.count else {
                    // A receiver chooses how much room there is; without a byte the caller would try again at once (R5).
                    if filled > 0 { return filled }
                    finishUnsizedChunk(of: try bufferChunk(of: &provider))
                    continue
                }
                let count = try provider.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[lengthEnd...]))
                buffer.storeBytes(of: UInt32(count).bigEndian, toByteOffset: filled, as: UInt32.self)
                filled = lengthEnd + count
                finishUnsizedChunk(of: count)
                guard count == 0 else { return filled }
            case .ended:
                return filled
            }
        }
        return filled
    }

    /// Reads a small chunk for a buffer that has no room for its length.
    /// - Returns: The number of bytes of its content.
    private mutating func bufferChunk<Provider: ContentProvider>(
        of provider: inout Provider, upTo limit: UInt64 = .max
    ) throws(Provider.Failure) -> Int {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(min(limit, 64)), alignment: 1)
        defer { bytes.deallocate() }
        let count = try provider.read(into: bytes)
        pending = (UInt32(count).bigEndianBytes + bytes[..<count])[...]
        return count
    }

    /// Counts a chunk of an entry of unknown size. An empty one ends it.
    private mutating func finishUnsizedChunk(of count: Int) {
        contentByteCount = contentByteCount.addingClamped(UInt64(count))
        guard count == 0 else { return }
        finishedEntryCount = finishedEntryCount.addingClamped(1)
        state = .between
    }

    /// Counts a chunk. An empty one ends a file that the provider has withdrawn.
    private mutating func finishChunk<Provider: ContentProvider>(of count: Int, _ remaining: UInt64, in provider: Provider) {
        guard count == 0 else {
            contentByteCount = contentByteCount.addingClamped(UInt64(count))
            state = .chunks(remaining: remaining.subtractingClamped(UInt64(count)))
            return
        }
        // Safe: for the same reason as in fill(_:from:).
        precondition(provider.isWithdrawn, "a provider must throw or withdraw an entry that is shorter than its header says")
        contentByteCount = contentByteCount.addingClamped(remaining)
        if let currentHeader { tally.recordWithdrawal(of: currentHeader) }
        state = .knownSize(remaining: 0)
    }

    private mutating func beginNextEntry<Provider: ContentProvider>(of provider: inout Provider) throws(Provider.Failure) {
        let header: EntryHeader
        var offset: UInt64 = 0
        if let resumed = start.entry, !hasBegunEntry {
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
        hasBegunEntry = true
        let encoded = header.encoded
        let isPresent = offset == 0 && present.contains(number: entryCount, encodedHeader: encoded)
        let rest = header.size.map { $0.subtractingClamped(offset) }
        let isWithdrawn = !isPresent && provider.isWithdrawn
        let isChunked = withdrawsEntries && rest ?? 0 > 0
        entryCount = entryCount.addingClamped(1)
        digest.append(encodedHeader: encoded)
        tally.record(header)
        currentHeader = header
        var writer = ByteWriter(reserving: ContentStreamFormat.entryPrefixByteCount + encoded.count)
        writer.write(
            isPresent
                ? ContentStreamFormat.presentEntry
                : isWithdrawn
                    ? ContentStreamFormat.withdrawnEntry
                    : isChunked ? ContentStreamFormat.chunkedEntry : ContentStreamFormat.entry)
        writer.writeCounted(encoded, by: UInt16.self)
        pending = writer.bytes[...]
        guard !isPresent, !isWithdrawn else {
            contentByteCount = contentByteCount.addingClamped(rest ?? 0)
            if isPresent { presentByteCount = presentByteCount.addingClamped(rest ?? 0) }
            if isWithdrawn { tally.recordWithdrawal(of: header) }
            state = .knownSize(remaining: 0)
            return
        }
        state = rest.map { isChunked ? .chunks(remaining: $0) : .knownSize(remaining: $0) } ?? .unknownSize
    }
}

extension ArraySlice<UInt8> {
    /// Moves bytes from the front into `buffer`, as far as it has room.
    /// - Returns: The number of bytes.
    mutating func removePrefix(into buffer: Slice<UnsafeMutableRawBufferPointer>) -> Int {
        let moved = prefix(buffer.count)
        UnsafeMutableRawBufferPointer(rebasing: buffer).copyBytes(from: moved)
        self = dropFirst(moved.count)
        return moved.count
    }
}
