package import NearshareBase

/// The files of a destination, with which offered ones are compared.
package protocol FileComparer<Failure> {
    /// The error of the destination.
    associatedtype Failure: Error

    /// Compares the name, size and time of a listed file.
    /// - Parameter number: The number of its entry.
    mutating func compare(
        _ header: EntryHeader, encodedHeader: [UInt8], number: UInt64
    ) throws(Failure) -> FilePresence
    /// Compares the digest of a candidate with that of the file that is present.
    mutating func decide(number: UInt64, digest: [UInt8]) throws(Failure) -> FilePresence
}

/// Decodes the list of a transfer's files and the digests of candidates incrementally, and checks them against the offer
/// (`docs/PROTOCOL.md`, section 6.1).
///
///     listing ──end of the list──► listed ──candidates──► comparing ──all digests──► complete
///                                     └──no candidate──► complete
package struct IncomingFileList: Sendable {
    private enum State {
        case listing
        case listed
        case comparing(next: Int)
        case complete
    }

    private var state = State.listing
    private var input = PartialInput()
    private var list = FileList()
    private var numbers: [UInt64] = []
    private var identical = FileSet()
    private var newer = FileSet()
    private let offer: Offer
    /// The sizes of the listed files, in bytes.
    private var listedByteCount: UInt64 = 0

    /// The listed files that are to be compared by their content.
    package private(set) var candidates = FileSet()

    package init(of offer: Offer) {
        self.offer = offer
    }

    /// Whether all files are listed and no digest was asked for.
    package var isListed: Bool { if case .listed = state { true } else { false } }
    /// Whether the answers are known.
    package var isComplete: Bool { if case .complete = state { true } else { false } }

    /// Starts the comparison of the candidates.
    package mutating func beginComparison() {
        guard case .listed = state else { return }
        state = candidates.memberCount > 0 ? .comparing(next: 0) : .complete
    }

    /// The two sets of the answer.
    package var answer: (identical: FileSet, newer: FileSet) { (identical, newer) }
    /// The files that need not be sent.
    package var presentFiles: PresentFiles { PresentFiles(list: list, identical: identical, newer: newer) }

    /// Decodes the next bytes of the stream.
    package mutating func consume<Comparer: FileComparer>(
        _ bytes: UnsafeRawBufferPointer, with comparer: inout Comparer
    ) throws(IncomingContentError<Comparer.Failure>) {
        var rest = bytes
        while true {
            switch state {
            case .listing:
                guard try readListed(from: &rest, with: &comparer) else { return }
            case .comparing(let next):
                guard try readDigest(from: &rest, at: next, with: &comparer) else { return }
            case .listed, .complete:
                guard rest.isEmpty else { throw .violation(MalformedInput("content before it was asked for")) }
                return
            }
        }
    }

    /// - Returns: false when more bytes are needed.
    private mutating func readListed<Comparer: FileComparer>(
        from rest: inout UnsafeRawBufferPointer, with comparer: inout Comparer
    ) throws(IncomingContentError<Comparer.Failure>) -> Bool {
        guard let mark = input.first(of: rest) else { return false }
        switch mark {
        case ContentStreamFormat.listed:
            guard let prefix = input.peek(ContentStreamFormat.listedPrefixByteCount, of: &rest) else { return false }
            let length = Int(prefix[9]) << 8 | Int(prefix[10])
            guard length <= EntryHeader.maximumEncodedByteCount else {
                throw .violation(MalformedInput("file list: a header of \(length) bytes"))
            }
            guard let whole = input.gather(ContentStreamFormat.listedPrefixByteCount + length, from: &rest) else {
                return false
            }
            let encoded = Array(whole[ContentStreamFormat.listedPrefixByteCount...])
            let (header, number): (EntryHeader, UInt64)
            do throws(MalformedInput) {
                number = UInt64(bigEndianBytes: whole[1..<9]) ?? .max
                header = try EntryHeader(decoding: encoded[...])
                try check(header, number)
            } catch {
                throw .violation(error)
            }
            list.append(number: number, encodedHeader: encoded)
            numbers.append(number)
            let presence: FilePresence
            do {
                presence = try comparer.compare(header, encodedHeader: encoded, number: number)
            } catch {
                throw .receiver(error)
            }
            candidates.append(presence == .candidate)
            newer.append(presence == .newer)
            identical.append(presence == .candidate)
        case ContentStreamFormat.listEnd:
            _ = input.gather(1, from: &rest)
            state = .listed
        default:
            throw .violation(MalformedInput("file list: unknown mark \(mark)"))
        }
        return true
    }

    private mutating func check(_ header: EntryHeader, _ number: UInt64) throws(MalformedInput) {
        guard list.count < FileSet.maximumCount else { throw MalformedInput("file list: too many files") }
        guard number < offer.entryCount, list.lastNumber.map({ number > $0 }) ?? true else {
            throw MalformedInput("file list: numbers out of order or beyond the offer")
        }
        guard header.kind == .file, let size = header.size, size <= offer.totalSize ?? 0, header.item < offer.itemCount else {
            throw MalformedInput("file list: an entry that is not an offered file")
        }
        listedByteCount = try listedByteCount.adding(size, named: "file list")
        guard listedByteCount <= offer.totalSize ?? 0 else { throw MalformedInput("file list: more content than was offered") }
        // A file of an item that the user has not seen is none that this side would look for (X5).
        try offer.check(header, number: number)
    }

    /// - Returns: false when more bytes are needed.
    private mutating func readDigest<Comparer: FileComparer>(
        from rest: inout UnsafeRawBufferPointer, at next: Int, with comparer: inout Comparer
    ) throws(IncomingContentError<Comparer.Failure>) -> Bool {
        guard let index = (next..<candidates.count).first(where: candidates.contains) else {
            state = .complete
            return true
        }
        guard let mark = input.first(of: rest) else { return false }
        guard mark == ContentStreamFormat.fileDigest else { throw .violation(MalformedInput("file list: not a digest")) }
        guard let whole = input.gather(ContentStreamFormat.fileDigestByteCount, from: &rest) else { return false }
        do {
            switch try comparer.decide(number: numbers[index], digest: Array(whole[1...])) {
            case .identical: break
            case .newer:
                identical.remove(index)
                newer.insert(index)
            case .absent, .candidate: identical.remove(index)
            }
        } catch {
            throw .receiver(error)
        }
        state = .comparing(next: index + 1)
        return true
    }
}
