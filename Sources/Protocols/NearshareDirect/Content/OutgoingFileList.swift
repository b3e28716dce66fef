package import NearshareBase
internal import NearshareCrypto

/// Encodes the list of a transfer's files, then the digests of those that the receiver asks for, incrementally into the caller's
/// buffers (`docs/PROTOCOL.md`, section 6.1).
///
///     listing ──all listed──► listed ──candidates, a provider at the first entry──► hashing ──all sent──► hashed
package struct OutgoingFileList: Sendable {
    private enum State {
        case listing
        case listed
        case hashing(candidates: FileSet, left: Int)
        case hashed
    }

    private var state = State.listing
    private var pending: ArraySlice<UInt8> = []
    /// The number of the provider's next entry.
    private var entryNumber: UInt64 = 0
    /// The index of the next listed file while hashing.
    private var fileIndex = 0
    private var hashedByteCount: UInt64 = 0
    private let offer: Offer

    /// Content that is hashed before the digests so far are sent: the receiver hashes the same files meanwhile.
    private static let hashedByteCountPerFill: UInt64 = 4 << 20

    /// Whether the source had fewer files when they were hashed than when they were listed.
    package private(set) var hasLostFiles = false
    /// The listed files so far.
    package private(set) var list = FileList()

    package init(of offer: Offer) {
        self.offer = offer
    }

    /// Whether the present part, the list or the digests, was returned as a whole.
    package var isPartFinished: Bool {
        switch state {
        case .listing, .hashing: false
        case .listed, .hashed: pending.isEmpty
        }
    }

    /// Starts the digests. ``fill(_:from:)`` is called with a new provider from now on.
    package mutating func begin(hashing candidates: FileSet) {
        state = .hashing(candidates: candidates, left: candidates.memberCount)
        (entryNumber, fileIndex) = (0, 0)
    }

    /// Fills `buffer` with the next bytes of the stream; a digest reads a whole file.
    /// - Returns: The number of bytes; 0 at the end of the present part.
    package mutating func fill<Provider: ContentProvider>(
        _ buffer: UnsafeMutableRawBufferPointer, from provider: inout Provider
    ) throws(Provider.Failure) -> Int {
        var filled = 0
        let hashedBefore = hashedByteCount
        while filled < buffer.count {
            if !pending.isEmpty {
                filled += pending.removePrefix(into: buffer[filled...])
                continue
            }
            switch state {
            case .listing: try listNext(of: &provider)
            case .hashing(_, left: 0): state = .hashed
            case .hashing(let candidates, let left):
                guard filled == 0 || hashedByteCount.subtractingClamped(hashedBefore) < Self.hashedByteCountPerFill else {
                    return filled
                }
                guard try hashNext(of: &provider, candidates) else {
                    hasLostFiles = true
                    state = .hashed
                    continue
                }
                state = .hashing(candidates: candidates, left: left - 1)
            case .listed, .hashed: return filled
            }
        }
        return filled
    }

    private mutating func listNext<Provider: ContentProvider>(of provider: inout Provider) throws(Provider.Failure) {
        var writer = ByteWriter(reserving: 128)
        if list.count < FileSet.maximumCount, let header = try provider.nextEntry() {
            defer { entryNumber = entryNumber.addingClamped(1) }
            guard isListed(header) else { return }
            let encoded = header.encoded
            list.append(number: entryNumber, encodedHeader: encoded)
            writer.write(ContentStreamFormat.listed)
            writer.write(entryNumber)
            writer.writeCounted(encoded, by: UInt16.self)
        } else {
            writer.write(ContentStreamFormat.listEnd)
            state = .listed
        }
        pending = writer.bytes[...]
    }

    /// - Returns: false after the last entry.
    private mutating func hashNext<Provider: ContentProvider>(
        of provider: inout Provider, _ candidates: FileSet
    ) throws(Provider.Failure) -> Bool {
        while let header = try provider.nextEntry() {
            guard isListed(header) else { continue }
            defer { fileIndex += 1 }
            guard candidates.contains(fileIndex) else { continue }
            var digest = FileDigest(encodedHeader: header.encoded)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
            defer { buffer.deallocate() }
            while case let count = try provider.read(into: buffer), count > 0 {
                digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                hashedByteCount = hashedByteCount.addingClamped(UInt64(count))
            }
            // A file that can no longer be read gets a digest that fits no file.
            let value = digest.finalize()
            pending =
                ([ContentStreamFormat.fileDigest]
                + (provider.isWithdrawn ? [UInt8](repeating: 0, count: value.count) : value))[...]
            return true
        }
        return false
    }

    private func isListed(_ header: EntryHeader) -> Bool {
        guard header.kind == .file, header.size != nil else { return false }
        return header.item >= UInt32(offer.items.count) || offer.items[Int(header.item)].kind != .text
    }
}
