internal import CNearshareAudio
internal import CNearshareShims
package import NearshareBase
package import NearshareInterfaces

/// How a note is encoded.
package struct NoteSettings: Sendable, Hashable {
    /// Bits a second that the encoder aims at.
    package let bitrate: Int
    package var speaker: String?
    package var recorded: WallTime?
    package var limit: NoteSizeLimit?
    /// What the encoder may hold back to decide better, in seconds; while recording none, for what is not in the file is
    /// lost with the process.
    package var lookAhead: Double

    /// What libopus accepts for one channel.
    package static let bitrates = 6000...256_000
    package static let speechBitrate = 24_000

    /// - Returns: nil for a bit rate outside ``bitrates``.
    package init?(
        bitrate: Int = Self.speechBitrate, speaker: String? = nil, recorded: WallTime? = nil, limit: NoteSizeLimit? = nil,
        lookAhead: Double = 0
    ) {
        guard Self.bitrates.contains(bitrate) else { return nil }
        self.bitrate = bitrate
        self.speaker = speaker
        self.recorded = recorded
        self.limit = limit
        self.lookAhead = lookAhead
    }
}

/// Encodes samples of one channel into a file of Ogg Opus, page by page, so that what was recorded is in the file within a
/// second, and a full disk or a limit costs nothing of what is there.
///
/// The waveform and the true end are known last: the tags hold a place for the one, and the file is cut for the other.
/// Used by one thread.
package final class NoteWriter {
    private struct PageFacts {
        var offset: UInt64
        var byteCount: Int
        var granule: Int64
        var end: UInt64 { offset + UInt64(byteCount) }
    }

    private let file: NoteFile
    private let settings: NoteSettings
    private let rate: Int
    private let library: nearshare_opusenc
    private var encoder: OpaquePointer!
    private var comments: OpaquePointer!
    private var builder: WaveformBuilder

    /// Bytes of whole pages in the file.
    package private(set) var byteCount: UInt64 = 0
    private var framesTaken = 0
    private var preSkip: Int64 = 0
    private var pageCount = 0
    private var tagsPage: PageFacts?
    private var last: PageFacts?
    /// The first page that reaches what is known to belong to the note: where it would be cut.
    private var cutCandidate: PageFacts?
    /// The last page that ends within the limit, should the encoder ever pass it.
    private var lastFitting: PageFacts?
    private var soundEnd: Int64 = 0
    /// Why no more can be written, such as a full disk.
    package private(set) var failure: AudioError?
    private var isFinished = false

    /// - Parameters:
    ///   - file: empty, and written from its start.
    ///   - rate: frames a second that ``write(_:soundEnd:)`` gets.
    package init(to file: NoteFile, rate: Int, settings: NoteSettings) throws(AudioError) {
        guard let library = AudioLibraries.opusenc else {
            throw AudioLibraries.missing("libopusenc", package: "libopusenc0")
        }
        self.library = library
        self.file = file
        self.settings = settings
        self.rate = rate
        builder = WaveformBuilder(rate: rate)
        comments = library.ope_comments_create()
        guard comments != nil else { throw AudioError(.failed, "no memory for the note's tags") }
        try add(NoteTags.speakerName, settings.speaker)
        try add(NoteTags.dateName, settings.recorded?.iso8601)
        try add(NoteTags.waveformName, String(decoding: Waveform.unknownText, as: UTF8.self))
        try startEncoder()
    }

    deinit {
        if let encoder { library.ope_encoder_destroy(encoder) }
        if let comments { library.ope_comments_destroy(comments) }
    }

    private func add(_ name: String, _ value: String?) throws(AudioError) {
        guard let value else { return }
        try check(library.ope_comments_add(comments, name, value), "can't tag the note")
    }

    private func startEncoder() throws(AudioError) {
        var callbacks = OpusEncCallbacks(
            write: { writer, bytes, count in
                let writer = Unmanaged<NoteWriter>.fromOpaque(writer!).takeUnretainedValue()
                return writer.keep(UnsafeRawBufferPointer(start: bytes, count: Int(count))) ? 0 : 1
            }, close: { _ in 0 })
        var code: Int32 = 0
        // The encoder calls back only while one of our own methods runs, so it needs no hold on us.
        encoder = library.ope_encoder_create_callbacks(
            &callbacks, Unmanaged.passUnretained(self).toOpaque(), comments, Int32(rate), 1, 0, &code)
        guard encoder != nil else { throw error(code, "can't start the encoder") }
        let requests: [(Int32, Int)] = [
            (nearshare_opus_set_bitrate, settings.bitrate), (nearshare_opus_set_signal, Int(OPUS_SIGNAL_VOICE)),
            // As opusenc does: the best that libopus can, and bits where speech needs them rather than evenly.
            (nearshare_opus_set_complexity, 10), (nearshare_opus_set_vbr_constraint, 0), (nearshare_opus_set_lsb_depth, 16),
            (nearshare_ope_set_decision_delay, Int(settings.lookAhead * Double(OpusHead.granulesPerSecond))),
            // Nobody edits the tags of a voice note.
            (nearshare_ope_set_comment_padding, 0),
            // libopusenc takes the same one in each process; two notes in one file are to be told apart.
            (nearshare_ope_set_serial, Self.randomSerial),
        ]
        for (request, value) in requests {
            try check(set(request, value), "can't set up the encoder")
        }
    }

    private static var randomSerial: Int {
        var serial: Int32 = 0
        _ = nearshare_random(&serial, MemoryLayout<Int32>.size)
        return Int(serial)
    }

    private func set(_ request: Int32, _ value: Int) -> Int32 {
        withUnsafePointer(to: library) { nearshare_opusenc_set($0, encoder, request, Int32(value)) }
    }

    // MARK: Recording

    /// - Parameters:
    ///   - samples: of one channel.
    ///   - soundEnd: how many of all frames are known to belong to the note, these among them.
    /// - Throws: when the disk is full; ``finish(frames:)`` keeps what is there.
    package func write(_ samples: UnsafeBufferPointer<Int16>, soundEnd: Int) throws(AudioError) {
        guard let start = samples.baseAddress, !samples.isEmpty else { return }
        framesTaken += samples.count
        builder.take(samples)
        let end = granules(soundEnd)
        if end > self.soundEnd {
            self.soundEnd = end
            if let candidate = cutCandidate, candidate.granule < preSkip + end { cutCandidate = nil }
        }
        let code = library.ope_encoder_write(encoder, start, Int32(samples.count))
        if let failure { throw failure }
        try check(code, "can't encode")
    }

    /// Seconds that may still be recorded; nil where there is no limit.
    package var secondsLeft: Int? {
        settings.limit?.secondsLeft(written: byteCount, unwritten: unwritten, bitrate: settings.bitrate)
    }

    /// Whether recording has to stop for all of it to fit.
    package var isAtLimit: Bool {
        settings.limit?.isReached(written: byteCount, unwritten: unwritten, bitrate: settings.bitrate) ?? false
    }

    /// Seconds that the encoder has and the file does not.
    private var unwritten: Double {
        let done = max(0, (last?.granule ?? 0) - preSkip)
        return Double(max(0, granules(framesTaken) - done)) / Double(OpusHead.granulesPerSecond)
    }

    /// Ends the file so that it is whole, whatever has happened before.
    /// - Parameter frames: how many of all frames belong to the note; the rest is cut off.
    /// - Returns: whether anything is in it.
    package func finish(frames: Int) throws(AudioError) -> Bool {
        guard !isFinished else { return last != nil }
        isFinished = true
        // libopusenc 0.2.1 may abort the process when there is nothing at all to drain.
        if failure == nil, framesTaken > 0 { _ = library.ope_encoder_drain(encoder) }
        try cutEnd(frames: frames)
        guard let last else {
            try file.cut(at: 0)
            return false
        }
        let heard = Int(max(0, last.granule - preSkip)) * rate / OpusHead.granulesPerSecond
        try fillInWaveform(builder.waveform(frames: min(frames, heard)))
        // A disk that is full has told so before.
        if failure == nil { try file.synchronize() }
        return true
    }

    /// How long the file plays.
    package var duration: Duration {
        .frames(Int(max(0, (last?.granule ?? 0) - preSkip)), rate: OpusHead.granulesPerSecond)
    }

    // MARK: Pages

    /// One page from the encoder.
    private func keep(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard failure == nil else { return false }
        do throws(AudioError) {
            try file.write(bytes, at: byteCount)
        } catch {
            failure = error
            return false
        }
        var facts = PageFacts(offset: byteCount, byteCount: bytes.count, granule: 0)
        for index in (0..<8).reversed() { facts.granule = facts.granule << 8 | Int64(bytes[6 + index]) }
        byteCount = facts.end
        pageCount += 1
        switch pageCount {
        case 1: preSkip = Int64(bytes[28 + 10]) | Int64(bytes[28 + 11]) << 8
        case 2: tagsPage = facts
        default:
            last = facts
            if cutCandidate == nil, facts.granule >= preSkip + soundEnd { cutCandidate = facts }
            if facts.end <= settings.limit?.byteCount ?? .max { lastFitting = facts }
        }
        return true
    }

    /// Makes the page the last one in which the note ends, or the last whole one on a full disk, or the last within the
    /// limit, whichever comes first.
    private func cutEnd(frames: Int) throws(AudioError) {
        guard let end = last else { return }
        let wanted = preSkip + granules(frames)
        var page = end
        if let candidate = cutCandidate, candidate.granule >= wanted, candidate.offset < page.offset { page = candidate }
        if let fitting = lastFitting, fitting.offset < page.offset { page = fitting }
        let granule = min(page.granule, wanted)
        // What was half written is above it, and gives room back.
        try file.cut(at: page.end)
        byteCount = page.end
        last = page
        guard var fresh = OggPage(startOf: try file.read(page.byteCount, at: page.offset)[...]) else {
            throw AudioError(.failed, "\(shown(file.path)) was changed by somebody else")
        }
        guard !fresh.isLast || granule < page.granule else { return }
        let packets = fresh.packets
        let whole = packets.ranges.count - (packets.lastGoesOn ? 1 : 0)
        let surplus = Int(page.granule - granule) / Self.granulesPerPacket
        fresh.end(afterPackets: max(1, whole - surplus), granule: granule)
        try file.write(fresh.bytes, at: page.offset)
        byteCount = page.offset + UInt64(fresh.bytes.count)
        try file.cut(at: byteCount)
        last = PageFacts(offset: page.offset, byteCount: fresh.bytes.count, granule: granule)
    }

    private func fillInWaveform(_ waveform: Waveform) throws(AudioError) {
        guard let tagsPage, var page = OggPage(startOf: try file.read(tagsPage.byteCount, at: tagsPage.offset)[...]),
            let start = page.bytes.firstRange(of: Waveform.unknownText)
        else { return }
        page.replace(start, with: waveform.text)
        try file.write(page.bytes, at: tagsPage.offset)
    }

    /// libopusenc makes packets of 20 ms.
    private static let granulesPerPacket = 960

    private func granules(_ frames: Int) -> Int64 {
        Int64((Double(frames) * Double(OpusHead.granulesPerSecond) / Double(rate)).rounded())
    }

    private func check(_ code: Int32, _ what: String) throws(AudioError) {
        if code != OPE_OK { throw error(code, what) }
    }

    private func error(_ code: Int32, _ what: String) -> AudioError {
        let reason = library.ope_strerror(code).map { String(cString: $0) } ?? "code \(code)"
        return AudioError(.failed, "\(what): \(reason.lowercased())")
    }
}
