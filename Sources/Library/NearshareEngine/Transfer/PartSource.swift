internal import NearshareBase
internal import NearshareInterfaces

/// The part of a source that a receiver has selected, as a source of its own.
struct PartSource: ResourceSource {
    private let part: OfferPart
    private let base: any ResourceSource

    init(_ part: OfferPart, of base: any ResourceSource) {
        (self.part, self.base) = (part, base)
    }

    var offer: Offer { part.offer }
    var contents: [EntryHeader] { part.contents }

    func makeReader() throws(StorageError) -> any ResourceReader { Reader(part, try base.makeReader()) }
    func cancel() { base.cancel() }

    private final class Reader: ResourceReader {
        private let part: OfferPart
        private let base: any ResourceReader
        /// The index of the next entry of `base`, counted from 0.
        private var number: UInt64 = 0

        init(_ part: OfferPart, _ base: any ResourceReader) {
            (self.part, self.base) = (part, base)
        }

        func nextEntry() throws(StorageError) -> EntryHeader? {
            while number <= part.selection.lastNumber, let header = try base.nextEntry() {
                defer { number = number.addingClamped(1) }
                guard part.selection.contains(number) else { continue }
                // nil: the source has changed. The caller rejects the header as one that was not offered.
                return part.renumbered(header) ?? header
            }
            return nil
        }

        func allowWithdrawal() { if part.offer.entryCount > 1 { base.allowWithdrawal() } }
        var withdrawal: StorageError? { base.withdrawal }
        func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int { try base.read(into: buffer) }
        func seek(to offset: UInt64) throws(StorageError) { try base.seek(to: offset) }
        func cancel() { base.cancel() }
    }
}
