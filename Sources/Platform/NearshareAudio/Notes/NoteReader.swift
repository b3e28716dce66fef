internal import CNearshareAudio
package import NearshareInterfaces

/// The decoded samples of a voice note. Used by one thread.
package protocol NoteSamples: AnyObject {
    /// The format of the decoded samples; Opus always has 48,000 frames a second.
    var format: AudioFormat { get }
    /// The position of the next ``read(into:)``, in frames.
    var position: Int { get }
    /// The length that the file claims, in frames.
    var frames: Int { get }

    /// Decodes the next frames.
    /// - Parameter buffer: has room for the longest packet of Opus: 5,760 frames.
    /// - Returns: the number of frames; 0 at the end.
    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int

    func seek(to frame: Int) throws(AudioError)
}

/// Decodes an Opus note with libopusfile in this process.
package final class NoteReader: NoteSamples {
    package let summary: NoteSummary
    package let format: AudioFormat

    private let library: nearshare_opusfile
    private let handle: OpaquePointer
    private let cursor: FileCursor

    /// Limit on the bytes read while opening. A valid note needs its beginning and end only; a file of thousands of tiny
    /// streams is rejected.
    private static let openingBudget = 4 << 20

    /// - Throws: for a file that is not a voice note, or that libopusfile refuses.
    package init(_ file: NoteFile) throws(AudioError) {
        guard let library = AudioLibraries.opusfile else {
            throw AudioLibraries.missing("libopusfile", package: "libopusfile0")
        }
        self.library = library
        summary = try NoteSummary(of: file)
        guard let format = AudioFormat(rate: OpusHead.granulesPerSecond, channels: summary.channels) else {
            throw AudioError(.damaged, "a voice note has one or two channels")
        }
        self.format = format
        cursor = FileCursor(file, budget: Self.openingBudget)
        var callbacks = OpusFileCallbacks(
            read: { context, buffer, count in
                guard let buffer, count > 0 else { return 0 }
                return Int32(FileCursor.from(context).read(into: buffer, count: Int(count)) ?? -1)
            },
            seek: { context, offset, whence in FileCursor.from(context).seek(Int64(offset), whence) == nil ? -1 : 0 },
            tell: { Int64(FileCursor.from($0).offset) }, close: nil)
        var code: Int32 = 0
        guard let handle = library.op_open_callbacks(cursor.context, &callbacks, nil, 0, &code)
        else {
            throw AudioError(.damaged, "\(shown(file.path)) cannot be decoded: it is damaged (code \(code))")
        }
        self.handle = handle
        guard library.op_link_count(handle) == 1 else {
            library.op_free(handle)
            throw AudioError(.damaged, "\(shown(file.path)) contains several recordings; a voice note is a single one")
        }
        cursor.removeBudget()
    }

    deinit { library.op_free(handle) }

    /// The position of the next ``read(into:)``, in frames. Computed from the positions that the file claims for its pages, and
    /// so limited to its length.
    package var position: Int { min(Int(max(0, library.op_pcm_tell(handle))), frames) }
    package var frames: Int { Int(summary.granules) }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int {
        while true {
            let count = library.op_read(handle, buffer.baseAddress, Int32(clamping: buffer.count), nil)
            if count >= 0 { return Int(count) }
            // A gap where pages are missing; the rest can be decoded.
            if count == OP_HOLE { continue }
            throw AudioError(
                .damaged,
                "\(shown(cursor.file.path)) is damaged after \(position / OpusHead.granulesPerSecond) s (code \(count))")
        }
    }

    package func seek(to frame: Int) throws(AudioError) {
        // libopusfile cannot seek to the end itself.
        let code = library.op_pcm_seek(handle, Int64(min(max(0, frame), max(0, frames - 1))))
        guard code == 0 else {
            throw AudioError(
                .damaged, "\(shown(cursor.file.path)) is damaged: seeking failed (code \(code))")
        }
    }
}
