internal import NearshareBase
package import NearshareInterfaces

/// What a voice note is, found without decoding it: from the first pages of its file and the last.
///
/// This reads strangers' bytes as soon as they have arrived, so it is Swift with bounds, reads at the most 260 KiB whatever
/// the file's size, and calls no decoder.
package struct NoteSummary: Sendable, Hashable {
    package let head: OpusHead
    package let tags: NoteTags
    /// 48,000ths of a second.
    package let granules: Int64
    package let byteCount: UInt64
    /// The end is missing: the last page is not marked as one.
    package let isCut: Bool

    package var duration: Duration {
        .nanoseconds(granules * 1_000_000 / Int64(OpusHead.granulesPerSecond / 1000))
    }

    /// Bits a second, headers and all.
    package var bitrate: Int {
        guard granules > 0 else { return 0 }
        return Int(Double(byteCount) * 8 * Double(OpusHead.granulesPerSecond) / Double(granules))
    }

    /// - Throws: ``AudioError/Code/damaged`` with a sentence for the person when this is no voice note.
    package init(of file: NoteFile) throws(AudioError) {
        let size = file.size
        let front = try file.read(Int(min(size, UInt64(Self.windowByteCount))), at: 0)
        let tailCount = min(size, UInt64(Self.windowByteCount))
        let tail = try file.read(Int(tailCount), at: size - tailCount)
        try self.init(front: front, tail: tail, size: size)
    }

    /// Twice the longest page, so that a window that ends or begins inside one holds a whole one beside it.
    static let windowByteCount = 2 * OggPage.maximumByteCount

    /// - Parameters:
    ///   - front: the file's beginning, as far as the window reaches.
    ///   - tail: its end, as far as the window reaches.
    ///   - size: of the whole file, in bytes.
    init(front: [UInt8], tail: [UInt8], size: UInt64) throws(AudioError) {
        guard front.starts(with: OggPage.capture) else { throw AudioError(.damaged, "this is not an Ogg file") }
        guard let first = OggPage(startOf: front[...]), first.isFirst, let packet = first.packets.ranges.first else {
            throw AudioError(.damaged, "its first page is damaged")
        }
        head = try OpusHead(first.bytes[packet])
        tags = try Self.tags(in: front[first.bytes.count...], serial: first.serial)
        guard let last = Self.lastPage(of: tail) else { throw AudioError(.damaged, "its last page is damaged or missing") }
        guard last.serial == first.serial else {
            throw AudioError(.damaged, "it holds several recordings one after the other; a voice note is a single one")
        }
        let granules = last.granule.subtractingReportingOverflow(Int64(head.preSkip))
        guard last.granule >= 0, !granules.overflow, granules.partialValue >= 0 else {
            throw AudioError(.damaged, "its last page counts no sound")
        }
        // A packet of two bytes, one of them in the page's table, holds 120 ms at the most (RFC 6716, section 3.2).
        let most = UInt64(120 * OpusHead.granulesPerSecond / 1000) * (size / 2)
        guard UInt64(granules.partialValue) <= most else {
            throw AudioError(.damaged, "it claims to be far longer than \(size.asByteCount) can hold")
        }
        self.granules = granules.partialValue
        byteCount = size
        isCut = !last.isLast
    }

    /// The second packet, which may go over several pages.
    private static func tags(in pages: ArraySlice<UInt8>, serial: UInt32) throws(AudioError) -> NoteTags {
        var packet: [UInt8] = []
        var rest = pages
        while let page = OggPage(startOf: rest) {
            guard page.serial == serial, !page.isFirst else {
                throw AudioError(.damaged, "it holds several streams side by side; a voice note is a single one")
            }
            let (ranges, goesOn) = page.packets
            guard let range = ranges.first else { throw AudioError(.damaged, "its tags are damaged") }
            packet += page.bytes[range]
            if ranges.count > 1 || !goesOn { return try NoteTags(packet[...]) }
            guard packet.count <= NoteTags.maximumByteCount else { return NoteTags() }
            rest = rest.dropFirst(page.bytes.count)
        }
        throw AudioError(.damaged, "its tags are damaged or cut off")
    }

    /// Looks for the last whole page from the end on. Each look costs a checksum, so there are only some.
    private static func lastPage(of tail: [UInt8]) -> OggPage? {
        var tries = 0
        var index = tail.count - OggPage.fixedByteCount
        while index >= 0, tries < maximumTries {
            if tail[index] == OggPage.capture[0], OggPage.byteCount(startOf: tail[index...]) != nil {
                tries += 1
                // A page in which no packet ends says nothing of time.
                if let page = OggPage(startOf: tail[index...]), page.granule != -1 { return page }
            }
            index -= 1
        }
        return nil
    }

    private static let maximumTries = 256
}
