internal import NearshareBase

/// Encodes entries and their content as a content stream, incrementally into the caller's buffers (`docs/PROTOCOL.md`, section
/// 6).
///
///     start ──► between entries ◄──► within an entry (known size │ unknown size)
///                     └──► ended
package struct OutgoingContent: Sendable {
    private enum State {
        case between
        case knownSize(remaining: UInt64)
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

    /// Bytes of content so far, including those that the receiver had kept.
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
    package init(from start: StartPoint, present: PresentFiles = .none) {
        self.start = start
        self.present = present
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
    /// - Returns: The number of bytes; 0 after the end. A source of unknown size may fill only a part of the buffer.
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
                let room = Int(min(UInt64(buffer.count - filled), remaining))
                let count = try provider.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<filled + room]))
                precondition(count > 0, "a provider must throw when an entry is shorter than its header says")
                filled += count
                contentByteCount = contentByteCount.addingClamped(UInt64(count))
                state = .knownSize(remaining: remaining.subtractingClamped(UInt64(count)))
            case .unknownSize:
                let lengthEnd = filled + ContentStreamFormat.chunkLengthByteCount
                guard lengthEnd < buffer.count else { return filled }
                let count = try provider.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[lengthEnd...]))
                buffer.storeBytes(of: UInt32(count).bigEndian, toByteOffset: filled, as: UInt32.self)
                filled = lengthEnd + count
                contentByteCount = contentByteCount.addingClamped(UInt64(count))
                guard count == 0 else { return filled }
                finishedEntryCount = finishedEntryCount.addingClamped(1)
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
        entryCount = entryCount.addingClamped(1)
        digest.append(encodedHeader: encoded)
        var writer = ByteWriter(reserving: ContentStreamFormat.entryPrefixByteCount + encoded.count)
        writer.write(isPresent ? ContentStreamFormat.presentEntry : ContentStreamFormat.entry)
        writer.writeCounted(encoded, by: UInt16.self)
        pending = writer.bytes[...]
        if isPresent {
            contentByteCount = contentByteCount.addingClamped(header.size ?? 0)
            presentByteCount = presentByteCount.addingClamped(header.size ?? 0)
            state = .knownSize(remaining: 0)
            return
        }
        state = header.size.map { .knownSize(remaining: $0.subtractingClamped(offset)) } ?? .unknownSize
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
