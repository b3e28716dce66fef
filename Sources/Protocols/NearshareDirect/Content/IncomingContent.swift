package import NearshareBase

/// The reason why a content stream is rejected.
package enum IncomingContentError<Failure: Error>: Error {
    /// The sender violated the protocol, or exceeded its offer.
    case violation(MalformedInput)
    /// The destination failed.
    case receiver(Failure)
}

/// Decodes a content stream incrementally, and checks it against the offer (`docs/PROTOCOL.md`, section 6).
///
///     expecting start ──► between entries ◄──► within an entry (known size │ chunks)
///                               └──► complete
package struct IncomingContent: Sendable {
    private enum State {
        case expectingStart
        case between
        case knownSize(remaining: UInt64)
        case chunkLength
        case chunk(remaining: UInt32)
        /// The chunks of a file of known size, which its sender can withdraw.
        case sizedChunkLength(remaining: UInt64)
        case sizedChunk(remaining: UInt64, inChunk: UInt64)
        case complete
    }

    private var state = State.expectingStart
    private var input = PartialInput()
    private var digest = EntriesDigest()
    private var entryCount: UInt64 = 0
    private var currentItem: UInt32?
    private var offsetInNext: UInt64 = 0
    private let offer: Offer
    private let resumePoint: ResumePoint
    private let present: PresentFiles
    private let contents: [EntryHeader]
    private let allowsWithdrawal: Bool
    private var tally = EntryTally()
    private var currentHeader: EntryHeader?

    /// The entries that the sender has withdrawn; nil for none.
    package var missing: MissingFiles? { tally.missing }
    /// Bytes of content so far, including those kept from an interrupted transfer and those of withdrawn entries.
    package private(set) var contentByteCount: UInt64 = 0
    /// Entries completed so far, including those kept from an interrupted transfer.
    package private(set) var finishedEntryCount: UInt64 = 0
    /// Bytes of content that the sender did not repeat.
    package private(set) var resumedByteCount: UInt64 = 0

    /// Whether the end mark has arrived and matches the content.
    package var isComplete: Bool {
        if case .complete = state { return true }
        return false
    }

    /// - Parameters:
    ///   - offer: The accepted offer.
    ///   - resumePoint: The requested start. The sender starts there or at the first byte.
    ///   - present: The files whose content need not be sent.
    ///   - contents: The first entries, as the receiver has seen them before it accepted.
    ///   - allowsWithdrawal: Whether both ends know withdrawn entries.
    package init(
        offer: Offer, resumePoint: ResumePoint, present: PresentFiles = .none, contents: [EntryHeader] = [],
        allowsWithdrawal: Bool = false
    ) {
        self.allowsWithdrawal = allowsWithdrawal
        self.offer = offer
        self.contents = contents
        self.present = present
        self.resumePoint = resumePoint
    }

    /// Decodes the next bytes of the stream.
    package mutating func consume<Receiver: ContentReceiver>(
        _ bytes: UnsafeRawBufferPointer, into receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        var rest = bytes
        while true {
            switch state {
            case .knownSize(remaining: 0):
                try finishEntry(in: &receiver)
            case .knownSize(let remaining):
                guard !rest.isEmpty else { return }
                let part = rest.removePrefix(min(UInt64(rest.count), remaining))
                try deliver(part, to: &receiver)
                state = .knownSize(remaining: remaining.subtractingClamped(UInt64(part.count)))
            case .chunk(remaining: 0):
                state = .chunkLength
            case .chunk(let remaining):
                guard !rest.isEmpty else { return }
                let part = rest.removePrefix(min(UInt64(rest.count), UInt64(remaining)))
                try deliver(part, to: &receiver)
                // Bounded: the part has at most that many bytes.
                state = .chunk(remaining: remaining - UInt32(part.count))
            case .chunkLength:
                guard let length = input.gather(ContentStreamFormat.chunkLengthByteCount, from: &rest) else { return }
                let chunkSize = UInt32(bigEndianBytes: length) ?? 0
                if chunkSize == 0 {
                    try finishEntry(in: &receiver)
                } else {
                    state = .chunk(remaining: chunkSize)
                }
            case .sizedChunkLength(remaining: 0):
                try finishEntry(in: &receiver)
            case .sizedChunkLength(let remaining):
                guard let length = input.gather(ContentStreamFormat.chunkLengthByteCount, from: &rest) else { return }
                let chunkSize = UInt64(UInt32(bigEndianBytes: length) ?? 0)
                guard chunkSize <= remaining else {
                    throw .violation(MalformedInput("a chunk beyond the size of its file"))
                }
                if chunkSize == 0 {
                    // A text is one that is read, not a file among others.
                    guard let header = currentHeader, !isText(header) else {
                        throw .violation(MalformedInput("an entry that cannot be withdrawn"))
                    }
                    try withdraw(remaining, in: &receiver)
                } else {
                    state = .sizedChunk(remaining: remaining, inChunk: chunkSize)
                }
            case .sizedChunk(let remaining, inChunk: 0):
                state = .sizedChunkLength(remaining: remaining)
            case .sizedChunk(let remaining, let inChunk):
                guard !rest.isEmpty else { return }
                let part = rest.removePrefix(min(UInt64(rest.count), inChunk))
                try deliver(part, to: &receiver)
                // Bounded: the part has at most that many bytes.
                state = .sizedChunk(remaining: remaining - UInt64(part.count), inChunk: inChunk - UInt64(part.count))
            case .expectingStart:
                guard let mark = input.gather(ContentStreamFormat.startByteCount, from: &rest) else { return }
                try start(mark, in: &receiver)
            case .between:
                guard try readMark(from: &rest, into: &receiver) else { return }
            case .complete:
                guard rest.isEmpty else { throw .violation(MalformedInput("content after the end of the transfer")) }
                return
            }
        }
    }

    // MARK: Marks

    private mutating func start<Receiver: ContentReceiver>(
        _ mark: [UInt8], in receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        let (complete, completeBytes, offset): (UInt64, UInt64, UInt64)
        do throws(MalformedInput) {
            var reader = ByteReader(mark, of: "start of content")
            guard try reader.readInteger(UInt8.self) == ContentStreamFormat.start else {
                throw MalformedInput("content does not start with its start mark")
            }
            complete = try reader.readInteger()
            completeBytes = try reader.readInteger()
            offset = try reader.readInteger()
            let isResumed = complete == resumePoint.completeEntries && offset == resumePoint.partialSize
            guard isResumed || (complete == 0 && offset == 0) else {
                throw MalformedInput("content starts at a position that was not requested")
            }
            // The receiver counted these bytes when it stored them (Q1).
            guard completeBytes == (complete > 0 ? resumePoint.completeByteCount : 0) else {
                throw MalformedInput("content starts after another number of bytes than was kept")
            }
            contentByteCount = try completeBytes.adding(offset, named: "start of content")
            guard complete <= offer.entryCount, contentByteCount <= offer.totalSize ?? .max else {
                throw MalformedInput("content starts beyond the offer")
            }
        } catch {
            throw .violation(error)
        }
        if complete > 0 {
            digest = EntriesDigest(resuming: resumePoint.entriesDigest)
            currentItem = resumePoint.lastItem
        }
        entryCount = complete
        tally = EntryTally(keptCount: complete)
        finishedEntryCount = complete
        offsetInNext = offset
        resumedByteCount = contentByteCount
        do {
            try receiver.start(completeEntries: complete, offset: offset)
        } catch {
            throw .receiver(error)
        }
        state = .between
    }

    /// Reads the mark after an entry.
    /// - Returns: false when more bytes are needed.
    private mutating func readMark<Receiver: ContentReceiver>(
        from rest: inout UnsafeRawBufferPointer, into receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) -> Bool {
        guard let mark = input.first(of: rest) else { return false }
        switch mark {
        case ContentStreamFormat.withdrawnEntry, ContentStreamFormat.chunkedEntry:
            guard allowsWithdrawal, offer.totalSize != nil else {
                throw .violation(MalformedInput("content: a mark that was not agreed on"))
            }
            fallthrough
        case ContentStreamFormat.entry, ContentStreamFormat.presentEntry:
            guard let prefix = input.peek(ContentStreamFormat.entryPrefixByteCount, of: &rest) else { return false }
            let length = Int(prefix[1]) << 8 | Int(prefix[2])
            guard length <= EntryHeader.maximumEncodedByteCount else {
                throw .violation(MalformedInput("entry: a header of \(length) bytes"))
            }
            guard let whole = input.gather(ContentStreamFormat.entryPrefixByteCount + length, from: &rest) else { return false }
            try begin(whole[ContentStreamFormat.entryPrefixByteCount...], mark, in: &receiver)
        case ContentStreamFormat.end:
            guard let whole = input.gather(ContentStreamFormat.endByteCount, from: &rest) else { return false }
            var reader = ByteReader(whole[1...], of: "end of content")
            do throws(MalformedInput) {
                let total: UInt64 = try reader.readInteger()
                guard total == entryCount, total == offer.entryCount, reader.readRemaining().elementsEqual(digest.bytes),
                    offer.totalSize == nil || offer.totalSize == contentByteCount
                else {
                    throw MalformedInput("the content ended before the offer was complete")
                }
                guard !tally.isAllWithdrawn else { throw MalformedInput("all of the offer was withdrawn") }
            } catch {
                throw .violation(error)
            }
            state = .complete
        default:
            throw .violation(MalformedInput("content: unknown mark \(mark)"))
        }
        return true
    }

    private mutating func begin<Receiver: ContentReceiver>(
        _ encoded: ArraySlice<UInt8>, _ mark: UInt8, in receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        let header: EntryHeader
        let isPresent = mark == ContentStreamFormat.presentEntry
        do throws(MalformedInput) {
            header = try EntryHeader(decoding: encoded)
            try check(header)
            if isPresent, offsetInNext > 0 || !present.contains(number: entryCount, encodedHeader: encoded) {
                throw MalformedInput("an entry without its content")
            }
            try check(header, mark)
        } catch {
            throw .violation(error)
        }
        let number = entryCount
        digest.append(encodedHeader: encoded)
        // Bounded: less than the offer's number, see ``check(_:)``.
        entryCount += 1
        currentItem = header.item
        tally.record(header)
        currentHeader = header
        let offset = offsetInNext
        offsetInNext = 0
        if isPresent { return try keepPresent(header, number: number, in: &receiver) }
        let rest = header.size.map { $0.subtractingClamped(offset) }
        if mark == ContentStreamFormat.withdrawnEntry, offset == 0 { return try withdraw(rest ?? 0, in: &receiver) }
        do {
            try receiver.begin(header, at: offset, digest: digest.bytes)
        } catch {
            throw .receiver(error)
        }
        switch mark {
        // Its kept part is removed.
        case ContentStreamFormat.withdrawnEntry: try withdraw(rest ?? 0, in: &receiver)
        case ContentStreamFormat.chunkedEntry: state = .sizedChunkLength(remaining: rest ?? 0)
        default: state = rest.map { .knownSize(remaining: $0) } ?? .chunkLength
        }
    }

    private func isText(_ header: EntryHeader) -> Bool {
        header.item < UInt32(offer.items.count) && offer.items[Int(header.item)].kind == .text
    }

    /// Checks the entries that a sender can withdraw.
    private func check(_ header: EntryHeader, _ mark: UInt8) throws(MalformedInput) {
        switch mark {
        case ContentStreamFormat.withdrawnEntry:
            guard header.size != nil, !isText(header) else { throw MalformedInput("an entry that cannot be withdrawn") }
        case ContentStreamFormat.chunkedEntry:
            guard header.kind == .file, let size = header.size, size > offsetInNext else {
                throw MalformedInput("chunks of an entry without content")
            }
        default: break
        }
    }

    /// Ends the current entry without the rest of its content.
    /// - Parameter rest: bytes of content that are not sent, within the offer.
    private mutating func withdraw<Receiver: ContentReceiver>(
        _ rest: UInt64, in receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        guard let header = currentHeader else { return }
        tally.recordWithdrawal(of: header)
        // Bounded: with all of the entry's content at most the offered total, see ``check(_:)``.
        contentByteCount = contentByteCount.addingClamped(rest)
        do {
            try receiver.withdraw(header)
        } catch {
            throw .receiver(error)
        }
        // Bounded: never more than have begun.
        finishedEntryCount += 1
        state = .between
    }

    private mutating func keepPresent<Receiver: ContentReceiver>(
        _ header: EntryHeader, number: UInt64, in receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        // Bounded: within the offered total, see ``check(_:)``.
        contentByteCount = contentByteCount.addingClamped(header.size ?? 0)
        do {
            try receiver.keepPresent(header, number: number, digest: digest.bytes)
        } catch {
            throw .receiver(error)
        }
        try finishEntry(in: &receiver)
    }

    /// Checks an entry against the offer.
    private func check(_ header: EntryHeader) throws(MalformedInput) {
        guard entryCount < offer.entryCount else { throw MalformedInput("more entries than were offered") }
        guard header.item < offer.itemCount else { throw MalformedInput("an item that was not offered") }
        if entryCount < UInt64(contents.count), contents[Int(entryCount)] != header.listed {
            throw MalformedInput("another entry than was listed")
        }
        if let currentItem {
            guard header.item >= currentItem else { throw MalformedInput("items out of order") }
        }
        if let size = header.size {
            guard size >= offsetInNext else { throw MalformedInput("an entry shorter than its kept part") }
            if let total = offer.totalSize {
                // Bounded: the size is at least the offset, see above.
                let (sum, overflow) = contentByteCount.addingReportingOverflow(size - offsetInNext)
                guard !overflow, sum <= total else { throw MalformedInput("more content than was offered") }
            }
        } else if offsetInNext > 0 || offer.totalSize != nil {
            throw MalformedInput("an entry of unknown size in an offer of known sizes")
        }
        try offer.check(header, number: entryCount)
    }

    private mutating func deliver<Receiver: ContentReceiver>(
        _ bytes: UnsafeRawBufferPointer, to receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        do {
            contentByteCount = try contentByteCount.adding(UInt64(bytes.count), named: "content")
        } catch {
            throw .violation(error)
        }
        do {
            try receiver.content(bytes)
        } catch {
            throw .receiver(error)
        }
    }

    private mutating func finishEntry<Receiver: ContentReceiver>(
        in receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        do {
            try receiver.endEntry()
        } catch {
            throw .receiver(error)
        }
        // Bounded: never more than have begun.
        finishedEntryCount += 1
        state = .between
    }
}

extension Offer {
    /// Checks the list of the first entries, by which the user decides: what the content stream may not contain cannot be listed
    /// (A12).
    func check(listed entries: [EntryHeader]) throws(MalformedInput) {
        guard UInt64(entries.count) <= entryCount else { throw MalformedInput("contents beyond the offer") }
        var item: UInt32 = 0
        var size: UInt64 = 0
        for (number, header) in entries.enumerated() {
            guard (item..<max(item, itemCount)).contains(header.item) else {
                throw MalformedInput("contents of items out of order or beyond the offer")
            }
            item = header.item
            try check(header, number: UInt64(number))
            guard let totalSize else { continue }
            guard let entrySize = header.size else {
                throw MalformedInput("contents of unknown size in an offer of known sizes")
            }
            size = try size.adding(entrySize, named: "contents")
            guard size <= totalSize else { throw MalformedInput("contents larger than the offer") }
        }
        guard UInt64(entries.count) < entryCount || totalSize == nil || size == totalSize else {
            throw MalformedInput("contents smaller than the offer")
        }
    }

    /// Checks that an entry is one of the item to which it claims to belong, as far as the offer describes it.
    /// - Parameter number: of the entry in the stream, from 0.
    func check(_ header: EntryHeader, number: UInt64) throws(MalformedInput) {
        // Bounded: an item's number has 32 bits.
        let described = items.prefix(Int(header.item) + 1)
        let upToItem = described.reduce(UInt64(0)) { $0.addingClamped($1.entryCount) }
        guard header.item < UInt32(items.count) else {
            guard number >= upToItem else { throw MalformedInput("an item with fewer entries than offered") }
            return
        }
        let item = items[Int(header.item)]
        // Items with equal totals must not replace one another.
        guard (upToItem.subtractingClamped(item.entryCount)..<upToItem).contains(number) else {
            throw MalformedInput("an item with more or fewer entries than offered")
        }
        guard header.path[0] == item.name else { throw MalformedInput("an item with another name than offered") }
        switch item.kind {
        case .file, .text:
            guard header.kind == .file, header.path.count == 1, header.size == item.size else {
                throw MalformedInput("an entry that is not the offered file")
            }
        case .folder:
            guard header.path.count > 1 || header.kind == .folder else {
                throw MalformedInput("an entry that is not the offered folder")
            }
        }
    }
}
