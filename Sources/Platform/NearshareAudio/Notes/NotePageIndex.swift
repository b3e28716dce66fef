/// The positions of the pages of a note that is being written, as far as they are needed to end it: its tags, its last page,
/// and the page at which it would be cut.
struct NotePageIndex {
    struct Page: Hashable {
        var offset: UInt64
        var byteCount: Int
        /// The granule position at its end.
        var granule: Int64

        var end: UInt64 { offset + UInt64(byteCount) }
    }

    /// The size of all pages, in bytes.
    private(set) var byteCount: UInt64 = 0
    private(set) var preSkip: Int64 = 0
    private(set) var tags: Page?
    /// The last page with sound.
    private(set) var last: Page?
    private var pageCount = 0
    /// The first page that contains the end of the known sound.
    private var cutCandidate: Page?
    /// The last page that ends within the size limit, in case that the encoder exceeds it.
    private var lastWithinLimit: Page?
    private var soundEnd: Int64 = 0
    private let limit: UInt64

    /// - Parameter limit: limit on the size of the note, in bytes.
    init(limit: UInt64 = .max) {
        self.limit = limit
    }

    /// Appends a page that the encoder has written.
    /// - Parameter bytes: the page with its header.
    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= OggPage.fixedByteCount else { return }
        let granule = (0..<8).reversed().reduce(Int64(0)) { $0 << 8 | Int64(bytes[6 + $1]) }
        let page = Page(offset: byteCount, byteCount: bytes.count, granule: granule)
        byteCount = page.end
        pageCount += 1
        switch pageCount {
        // The identification header, whose packet begins after a segment table of one byte.
        case 1: if bytes.count > 28 + 11 { preSkip = Int64(bytes[28 + 10]) | Int64(bytes[28 + 11]) << 8 }
        case 2: tags = page
        default:
            last = page
            if cutCandidate == nil, page.granule >= preSkip + soundEnd { cutCandidate = page }
            if page.end <= limit { lastWithinLimit = page }
        }
    }

    /// Records the end of the sound that is known to belong to the note.
    /// - Parameter end: in granules, without pre-skip.
    mutating func extendSound(to end: Int64) {
        guard end > soundEnd else { return }
        soundEnd = end
        if let candidate = cutCandidate, candidate.granule < preSkip + end { cutCandidate = nil }
    }

    /// The granules of sound in the complete pages.
    var duration: Int64 { max(preSkip, last?.granule ?? 0) - preSkip }

    /// The page that becomes the last one: the one that contains `end`, the last one that was written, or the last one within
    /// the limit, whichever comes first.
    /// - Parameter end: the end of the note in granules, with pre-skip.
    func cutPage(at end: Int64) -> Page? {
        guard var page = last else { return nil }
        if let cutCandidate, cutCandidate.granule >= end, cutCandidate.offset < page.offset { page = cutCandidate }
        if let lastWithinLimit, lastWithinLimit.offset < page.offset { page = lastWithinLimit }
        return page
    }

    /// Makes a page the last one.
    mutating func cut(at page: Page) {
        last = page
        byteCount = page.end
    }
}
