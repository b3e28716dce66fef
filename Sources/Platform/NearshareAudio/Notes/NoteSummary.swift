internal import NearshareBase
package import NearshareInterfaces

/// The description of a voice note, read from the first and last pages of an Ogg file, or the tables of an MP4 file.
///
/// It is read as soon as a file is received, from an untrusted peer as well: in Swift, without a decoder, and from at most 260
/// KiB of an Ogg file. The tables of an MP4 file have at most 12 MiB, for three hours of sound; see ``AACTrack``.
package struct NoteSummary: Sendable, Hashable {
    package enum Codec: Sendable, Hashable {
        /// Opus in Ogg, as this program records it.
        case opus
        /// AAC in MP4, as phones record it.
        case aac
    }

    package let codec: Codec
    /// One or two.
    package let channels: Int
    package let tags: NoteTags
    /// The length in frames at ``frameRate``.
    private let frameCount: Int
    /// Frames a second of the file, before SBR (spectral band replication) doubles them.
    private let frameRate: Int
    package let byteCount: UInt64
    /// Whether the end is missing: the last page is not marked as such.
    package let isTruncated: Bool
    /// Numbers that are the same for all copies of a note. Of an Ogg file, the checksums of the first page, which has the random
    /// serial number of the stream, and of the last one.
    package let checksums: [UInt32]

    package var duration: Duration { .frames(frameCount, rate: frameRate) }

    /// The length in samples at 48 kHz, rounded down.
    package var granules: Int64 { Int64(frames(at: OpusHead.granulesPerSecond)) }

    /// The length in frames at the rate of a decoder, rounded down.
    package func frames(at rate: Int) -> Int {
        let (frames, overflow) = frameCount.multipliedReportingOverflow(by: rate)
        return rate == frameRate ? frameCount : (overflow ? .max : frames) / frameRate
    }

    /// Bits a second, including headers; at most ``maximumBitrate``, for files that are no notes in truth.
    package var bitrate: Int {
        guard granules > 0 else { return 0 }
        let bitrate = Double(byteCount) * 8 * Double(OpusHead.granulesPerSecond) / Double(granules)
        return Int(min(bitrate, Self.maximumBitrate))
    }

    private static let maximumBitrate = 1e12

    /// - Throws: ``AudioError/Code/damaged`` for a file that is not a voice note.
    package init(of file: NoteFile) throws(AudioError) {
        let size = file.size
        guard try !SoundFormat(of: file).isAAC else {
            self.init(try AACTrack(of: file))
            return
        }
        let front = try file.read(Int(min(size, UInt64(Self.windowByteCount))), at: 0)
        let tailCount = min(size, UInt64(Self.windowByteCount))
        let tail = try file.read(Int(tailCount), at: size - tailCount)
        try self.init(front: front, tail: tail, size: size)
    }

    package init(_ track: AACTrack) {
        codec = .aac
        channels = track.configuration.channels
        tags = NoteTags(recorded: track.recorded)
        (frameCount, frameRate) = (track.frameCount, track.configuration.rate)
        byteCount = track.byteCount
        isTruncated = track.isTruncated
        checksums = track.checksums
    }

    /// Twice the longest page: a window that begins or ends inside a page contains a whole one as well.
    static let windowByteCount = 2 * OggPage.maximumByteCount

    /// - Parameters:
    ///   - front: the first ``windowByteCount`` bytes of the file.
    ///   - tail: its last ``windowByteCount`` bytes.
    ///   - size: the size of the file, in bytes.
    package init(front: [UInt8], tail: [UInt8], size: UInt64) throws(AudioError) {
        guard front.starts(with: OggPage.capture) else { throw AudioError(.damaged, "not an Ogg, MP4 or AAC file") }
        guard let first = OggPage(startOf: front[...]), first.isFirst, let packet = first.packets.ranges.first else {
            throw AudioError(.damaged, "its first page is damaged")
        }
        let head = try OpusHead(first.bytes[packet])
        codec = .opus
        channels = head.channels
        tags = try Self.tags(in: front[first.bytes.count...], serial: first.serial)
        guard let last = Self.lastPage(of: tail) else { throw AudioError(.damaged, "its last page is damaged or missing") }
        guard last.serial == first.serial else {
            throw AudioError(.damaged, "it contains several recordings; a voice note is a single one")
        }
        let granules = last.granule.subtractingReportingOverflow(Int64(head.preSkip))
        guard last.granule >= 0, !granules.overflow, granules.partialValue >= 0 else {
            throw AudioError(.damaged, "its last page has an invalid position")
        }
        // A packet of two bytes, one of them in the segment table, lasts at most 120 ms (RFC 6716, section 3.2).
        let (most, overflow) = (size / 2).multipliedReportingOverflow(by: UInt64(120 * OpusHead.granulesPerSecond / 1000))
        guard overflow || UInt64(granules.partialValue) <= most else {
            throw AudioError(.damaged, "it claims a length that \(size.formattedByteCount) cannot contain")
        }
        (frameCount, frameRate) = (Int(granules.partialValue), OpusHead.granulesPerSecond)
        byteCount = size
        isTruncated = !last.isLast
        checksums = [first.checksum, last.checksum]
    }

    /// Parses the second packet, which may span several pages.
    private static func tags(in pages: ArraySlice<UInt8>, serial: UInt32) throws(AudioError) -> NoteTags {
        var packet: [UInt8] = []
        var rest = pages
        while let page = OggPage(startOf: rest) {
            guard page.serial == serial, !page.isFirst else {
                throw AudioError(.damaged, "it contains several streams; a voice note has a single one")
            }
            let (ranges, continues) = page.packets
            guard let range = ranges.first else { throw AudioError(.damaged, "its tags are damaged") }
            packet += page.bytes[range]
            if ranges.count > 1 || !continues { return try NoteTags(packet[...]) }
            guard packet.count <= NoteTags.maximumByteCount else { return NoteTags() }
            rest = rest.dropFirst(page.bytes.count)
        }
        throw AudioError(.damaged, "its tags are damaged or truncated")
    }

    /// Searches backwards for the last complete page. The number of attempts is limited: each costs a checksum.
    private static func lastPage(of tail: [UInt8]) -> OggPage? {
        var attempts = 0
        var index = tail.count - OggPage.fixedByteCount
        while index >= 0, attempts < maximumAttempts {
            if tail[index] == OggPage.capture[0], OggPage.byteCount(startOf: tail[index...]) != nil {
                attempts += 1
                // A page in which no packet ends has no position.
                if let page = OggPage(startOf: tail[index...]), page.granule != -1 { return page }
            }
            index -= 1
        }
        return nil
    }

    private static let maximumAttempts = 256
}
