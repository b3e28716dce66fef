internal import NearshareBase
package import NearshareInterfaces

/// Encodes samples of one channel into an Ogg Opus file, page by page: recorded sound is in the file within a second, and a
/// full disk or a size limit loses nothing that is there.
///
/// The waveform and the end are known last: the tags contain a placeholder for the one, and the file is truncated for the
/// other. Used by one thread.
package final class NoteWriter {
    private let file: NoteFile
    private let settings: NoteSettings
    private let rate: Int
    private var encoder: OpusEncoder?
    private var waveform: WaveformBuilder
    private var pages: NotePageIndex
    private var frameCount = 0
    /// The error that stops writing, such as a full disk.
    package private(set) var failure: AudioError?
    /// The result of ``finish(frames:)``.
    private var ending: Result<Bool, AudioError>?

    /// libopusenc's packets are of 20 ms.
    private static let granulesPerPacket: Int64 = 960

    /// - Parameters:
    ///   - file: empty.
    ///   - rate: frames a second of the samples.
    package init(to file: NoteFile, rate: Int, settings: NoteSettings) throws(AudioError) {
        self.file = file
        self.settings = settings
        self.rate = rate
        waveform = WaveformBuilder(rate: rate)
        pages = NotePageIndex(limit: settings.limit?.byteCount ?? .max)
        encoder = try OpusEncoder(rate: rate, settings: settings) { [unowned self] in writePage($0) }
    }

    /// The size of the complete pages in the file, in bytes.
    package var byteCount: UInt64 { pages.byteCount }

    /// The length of the file's sound.
    package var duration: Duration { .frames(Int(pages.duration), rate: OpusHead.granulesPerSecond) }

    // MARK: Recording

    /// Encodes samples.
    /// - Parameters:
    ///   - samples: of one channel.
    ///   - soundEnd: the number of frames, of all that were passed and these, that are known to belong to the note.
    /// - Throws: when the disk is full; ``finish(frames:)`` keeps what was written.
    package func write(_ samples: UnsafeBufferPointer<Int16>, soundEnd: Int) throws(AudioError) {
        guard !samples.isEmpty else { return }
        frameCount += samples.count
        waveform.append(samples)
        pages.extendSound(to: granules(soundEnd))
        do throws(AudioError) {
            try encoder?.encode(samples)
        } catch {
            throw failure ?? error
        }
        if let failure { throw failure }
    }

    /// The seconds that may still be recorded; nil without a limit.
    package var secondsLeft: Int? {
        settings.limit?.secondsLeft(written: byteCount, unwritten: unwritten, bitrate: settings.bitrate)
    }

    /// Whether recording has to stop for everything to fit.
    package var isAtLimit: Bool {
        settings.limit?.isReached(written: byteCount, unwritten: unwritten, bitrate: settings.bitrate) ?? false
    }

    /// The seconds of sound that the encoder has not written yet.
    private var unwritten: Double {
        Double(max(0, granules(frameCount) - pages.duration)) / Double(OpusHead.granulesPerSecond)
    }

    private func writePage(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard failure == nil else { return false }
        do throws(AudioError) {
            try file.write(bytes, at: pages.byteCount)
        } catch {
            failure = error
            return false
        }
        pages.append(bytes)
        return true
    }

    // MARK: Ending

    /// Completes the file, also after an error.
    /// - Parameter frames: the number of frames that belong to the note; the rest is removed.
    /// - Returns: whether the note contains any sound.
    package func finish(frames: Int) throws(AudioError) -> Bool {
        if let ending { return try ending.get() }
        do throws(AudioError) {
            let hasSound = try complete(frames: frames)
            ending = .success(hasSound)
            return hasSound
        } catch {
            ending = .failure(error)
            throw error
        }
    }

    private func complete(frames: Int) throws(AudioError) -> Bool {
        if failure == nil, frameCount > 0 { encoder?.drain() }
        try cutEnd(frames: frames)
        guard pages.last != nil else {
            try file.truncate(to: 0)
            return false
        }
        let writtenFrames = Int(pages.duration) * rate / OpusHead.granulesPerSecond
        try fillInWaveform(waveform.waveform(frames: min(frames, writtenFrames)))
        // A full disk was reported before.
        if failure == nil { try file.synchronize() }
        return true
    }

    /// Truncates the file after the page in which the note ends and marks that page as the last one.
    private func cutEnd(frames: Int) throws(AudioError) {
        let end = pages.preSkip + granules(frames)
        guard let page = pages.cutPage(at: end) else { return }
        let granule = min(page.granule, end)
        // Frees the space of an incomplete page.
        try file.truncate(to: page.end)
        pages.cut(at: page)
        guard var lastPage = OggPage(startOf: try file.read(page.byteCount, at: page.offset)[...]) else {
            throw AudioError(.failed, "\(shown(file.path)) was changed by another program")
        }
        guard !lastPage.isLast || granule < page.granule else { return }
        let packets = lastPage.packets
        let complete = packets.ranges.count - (packets.lastContinues ? 1 : 0)
        let surplus = Int((page.granule - granule) / Self.granulesPerPacket)
        lastPage.truncate(toPackets: max(1, complete - surplus), granule: granule)
        try file.write(lastPage.bytes, at: page.offset)
        pages.cut(at: NotePageIndex.Page(offset: page.offset, byteCount: lastPage.bytes.count, granule: granule))
        try file.truncate(to: pages.byteCount)
    }

    private func fillInWaveform(_ waveform: Waveform) throws(AudioError) {
        guard let tags = pages.tags, var page = OggPage(startOf: try file.read(tags.byteCount, at: tags.offset)[...]),
            let placeholder = page.bytes.firstRange(of: Waveform.placeholder)
        else { return }
        page.replace(placeholder, with: waveform.text)
        try file.write(page.bytes, at: tags.offset)
    }

    private func granules(_ frames: Int) -> Int64 {
        Int64((Double(frames) * Double(OpusHead.granulesPerSecond) / Double(rate)).rounded())
    }
}
