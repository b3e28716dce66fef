package import NearshareBase

/// What takes a transfer's content as it comes out of the stream, in order and within the offer.
package protocol ContentReceiver<Failure> {
    /// What can go wrong where content is put.
    associatedtype Failure: Error

    /// The stream goes on after so many complete entries, `offset` bytes into the next one.
    mutating func start(completeEntries: UInt64, offset: UInt64) throws(Failure)
    /// - Parameter digest: the chain over all headers up to and including this one.
    mutating func begin(_ header: EntryHeader, at offset: UInt64, digest: [UInt8]) throws(Failure)
    /// More of the present file.
    mutating func content(_ bytes: UnsafeRawBufferPointer) throws(Failure)
    /// The present entry is whole.
    mutating func endEntry() throws(Failure)
}

/// Why a content stream is not taken any further.
package enum IncomingContentError<Failure: Error>: Error {
    /// The sender broke the protocol or went beyond its offer.
    case violation(MalformedInput)
    /// It can't be stored.
    case receiver(Failure)
}

/// Reads the bytes of a content stream, cut anywhere, and holds the sender to its offer
/// (`docs/PROTOCOL.md`, section 6).
///
///     expecting start ──► between entries ◄──► inside an entry (known size │ pieces)
///                               └──► complete
package struct IncomingContent: Sendable {
    private enum State {
        case expectingStart
        case between
        case known(remaining: UInt64)
        case pieceLength
        case piece(remaining: UInt32)
        case complete
    }

    private var state = State.expectingStart
    /// The beginning of a mark or header of which the rest is still to come; at most one header long.
    private var pending: [UInt8] = []
    private var digest = EntriesDigest()
    private var entryCount: UInt64 = 0
    private var currentItem: UInt32?
    private var offsetInNext: UInt64 = 0
    private let offer: Offer
    private let asked: ResumePoint

    /// Bytes of content that are there, those kept from an earlier try included.
    package private(set) var contentByteCount: UInt64 = 0
    /// Entries that are complete, those from an earlier try included.
    package private(set) var finishedEntryCount: UInt64 = 0
    /// Where the sender went on: bytes that did not have to be sent again.
    package private(set) var resumedByteCount: UInt64 = 0

    /// The end mark has come and agrees with what was received: the whole is there.
    package var isComplete: Bool {
        if case .complete = state { return true }
        return false
    }

    /// - Parameters:
    ///   - offer: what was accepted; nothing beyond it is taken.
    ///   - asked: from where the sender was asked to go on. It does, or starts again.
    package init(offer: Offer, asked: ResumePoint) {
        self.offer = offer
        self.asked = asked
    }

    /// Takes the next bytes of the stream.
    package mutating func consume<Receiver: ContentReceiver>(
        _ bytes: UnsafeRawBufferPointer, into receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        var rest = bytes
        while true {
            switch state {
            case .known(remaining: 0):
                try finishEntry(in: &receiver)
            case .known(let remaining):
                guard !rest.isEmpty else { return }
                let piece = take(min(UInt64(rest.count), remaining), from: &rest)
                try deliver(piece, to: &receiver)
                state = .known(remaining: remaining - UInt64(piece.count))
            case .piece(remaining: 0):
                state = .pieceLength
            case .piece(let remaining):
                guard !rest.isEmpty else { return }
                let piece = take(min(UInt64(rest.count), UInt64(remaining)), from: &rest)
                try deliver(piece, to: &receiver)
                state = .piece(remaining: remaining - UInt32(piece.count))
            case .pieceLength:
                guard let length = gather(ContentStreamFormat.pieceLengthByteCount, from: &rest) else { return }
                let count = length.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
                if count == 0 {
                    try finishEntry(in: &receiver)
                } else {
                    state = .piece(remaining: count)
                }
            case .expectingStart:
                guard let mark = gather(ContentStreamFormat.startByteCount, from: &rest) else { return }
                try start(mark, in: &receiver)
            case .between:
                guard try takeMark(from: &rest, into: &receiver) else { return }
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
                throw MalformedInput("content does not begin with its start mark")
            }
            complete = try reader.readInteger()
            completeBytes = try reader.readInteger()
            offset = try reader.readInteger()
            // The sender goes on where it was asked to, or from the beginning.
            let goesOn = complete == asked.completeEntries && offset == asked.partialSize
            guard goesOn || (complete == 0 && offset == 0) else {
                throw MalformedInput("content starts at a point that was not asked for")
            }
            let (sum, overflow) = completeBytes.addingReportingOverflow(offset)
            guard complete <= offer.entryCount, !overflow, sum <= offer.totalSize ?? .max, complete > 0 || completeBytes == 0
            else { throw MalformedInput("content starts beyond what was offered") }
        } catch {
            throw .violation(error)
        }
        if complete > 0 { digest = EntriesDigest(resuming: asked.entriesDigest) }
        entryCount = complete
        finishedEntryCount = complete
        offsetInNext = offset
        contentByteCount = completeBytes + offset
        resumedByteCount = contentByteCount
        do {
            try receiver.start(completeEntries: complete, offset: offset)
        } catch {
            throw .receiver(error)
        }
        state = .between
    }

    /// - Returns: false when more bytes are needed.
    private mutating func takeMark<Receiver: ContentReceiver>(
        from rest: inout UnsafeRawBufferPointer, into receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) -> Bool {
        guard let mark = pending.first ?? rest.first else { return false }
        switch mark {
        case ContentStreamFormat.entry:
            guard let prefix = peek(ContentStreamFormat.entryPrefixByteCount, of: &rest) else { return false }
            let length = Int(prefix[1]) << 8 | Int(prefix[2])
            guard length <= EntryHeader.maximumEncodedByteCount else {
                throw .violation(MalformedInput("entry: a header of \(length) bytes"))
            }
            guard let whole = gather(ContentStreamFormat.entryPrefixByteCount + length, from: &rest) else { return false }
            try begin(whole[ContentStreamFormat.entryPrefixByteCount...], in: &receiver)
        case ContentStreamFormat.end:
            guard let whole = gather(ContentStreamFormat.endByteCount, from: &rest) else { return false }
            var reader = ByteReader(whole[1...], of: "end of content")
            do throws(MalformedInput) {
                let count: UInt64 = try reader.readInteger()
                guard count == entryCount, count == offer.entryCount, reader.readRemaining().elementsEqual(digest.bytes),
                    offer.totalSize == nil || offer.totalSize == contentByteCount
                else {
                    throw MalformedInput("the transfer ended with less than was offered")
                }
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
        _ encoded: ArraySlice<UInt8>, in receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        let header: EntryHeader
        do throws(MalformedInput) {
            header = try EntryHeader(decoding: encoded)
            try check(header)
        } catch {
            throw .violation(error)
        }
        digest.append(encodedHeader: encoded)
        entryCount += 1
        currentItem = header.item
        let offset = offsetInNext
        offsetInNext = 0
        do {
            try receiver.begin(header, at: offset, digest: digest.bytes)
        } catch {
            throw .receiver(error)
        }
        state = header.size.map { .known(remaining: $0 - offset) } ?? .pieceLength
    }

    /// Is this entry part of what was accepted?
    private func check(_ header: EntryHeader) throws(MalformedInput) {
        guard entryCount < offer.entryCount else { throw MalformedInput("more entries than were offered") }
        guard header.item < offer.itemCount else { throw MalformedInput("an item that was not offered") }
        if let currentItem {
            guard header.item >= currentItem else { throw MalformedInput("items out of their order") }
        }
        if let size = header.size {
            guard size >= offsetInNext else { throw MalformedInput("an entry shorter than what is there of it") }
            if let total = offer.totalSize {
                let (sum, overflow) = contentByteCount.addingReportingOverflow(size - offsetInNext)
                guard !overflow, sum <= total else { throw MalformedInput("more content than was offered") }
            }
        } else if offsetInNext > 0 || offer.totalSize != nil {
            throw MalformedInput("an entry of unknown size where all sizes were offered")
        }
        let described = offer.items.prefix(Int(clamping: UInt64(header.item) + 1))
        let upToItem = described.reduce(0) { $0 + $1.entryCount }
        guard header.item < UInt32(offer.items.count) else {
            guard entryCount >= upToItem else { throw MalformedInput("an item with fewer entries than were offered") }
            return
        }
        let item = offer.items[Int(header.item)]
        // No item may take another's place, not even with the same totals.
        guard (upToItem - item.entryCount..<upToItem).contains(entryCount) else {
            throw MalformedInput("an item with more or fewer entries than were offered")
        }
        guard header.path[0] == item.name else { throw MalformedInput("an item under another name than it was offered") }
        switch item.kind {
        case .file, .text:
            guard header.kind == .file, header.path.count == 1, header.size == item.size else {
                throw MalformedInput("something else than the file that was offered")
            }
        case .folder:
            guard header.path.count > 1 || header.kind == .folder else {
                throw MalformedInput("something else than the folder that was offered")
            }
        }
    }

    private mutating func deliver<Receiver: ContentReceiver>(
        _ bytes: UnsafeRawBufferPointer, to receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        do {
            try receiver.content(bytes)
        } catch {
            throw .receiver(error)
        }
        contentByteCount += UInt64(bytes.count)
    }

    private mutating func finishEntry<Receiver: ContentReceiver>(
        in receiver: inout Receiver
    ) throws(IncomingContentError<Receiver.Failure>) {
        do {
            try receiver.endEntry()
        } catch {
            throw .receiver(error)
        }
        finishedEntryCount += 1
        state = .between
    }

    // MARK: Bytes

    private func take(_ count: UInt64, from rest: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let piece = UnsafeRawBufferPointer(rebasing: rest.prefix(Int(count)))
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(Int(count)))
        return piece
    }

    /// `count` bytes from what is pending and what has come; nil, with all of it pending, when there are fewer.
    private mutating func gather(_ count: Int, from rest: inout UnsafeRawBufferPointer) -> [UInt8]? {
        guard peek(count, of: &rest) != nil else { return nil }
        defer { pending.removeAll(keepingCapacity: true) }
        return pending
    }

    /// Like ``gather(_:from:)``, but the bytes stay pending.
    private mutating func peek(_ count: Int, of rest: inout UnsafeRawBufferPointer) -> [UInt8]? {
        let missing = count - pending.count
        if missing > 0 {
            pending.append(contentsOf: take(UInt64(min(missing, rest.count)), from: &rest))
        }
        return pending.count >= count ? pending : nil
    }
}

extension EntriesDigest {
    init(resuming bytes: [UInt8]) {
        self.init()
        self.bytes = bytes
    }
}
