internal import CNearshareAudio
internal import Glibc
package import NearshareInterfaces

/// Decodes a voice note with libopusfile, when somebody wants to hear it. Used by one thread.
package final class NoteReader {
    package let summary: NoteSummary
    /// What ``read(into:)`` gives: 48,000 frames a second.
    package let format: AudioFormat

    private let library: nearshare_opusfile
    private let handle: OpaquePointer
    private let place: FileCursor

    /// Opening a sane note reads its beginning and its end. Looking through a file made of thousands of tiny streams ends here.
    private static let openingBudget = 4 << 20

    /// - Throws: when it is no voice note, or one that libopusfile does not accept.
    package init(_ file: NoteFile) throws(AudioError) {
        guard let library = AudioLibraries.opusfile else {
            throw AudioLibraries.missing("libopusfile", package: "libopusfile0")
        }
        self.library = library
        summary = try NoteSummary(of: file)
        guard let format = AudioFormat(rate: OpusHead.granulesPerSecond, channels: summary.head.channels) else {
            throw AudioError(.damaged, "a voice note has one or two channels")
        }
        self.format = format
        place = FileCursor(file, budget: Self.openingBudget)
        var callbacks = OpusFileCallbacks(
            read: { place, buffer, count in
                guard let buffer, count > 0 else { return 0 }
                return Int32(FileCursor.from(place).read(into: buffer, count: Int(count)) ?? -1)
            },
            seek: { place, offset, whence in FileCursor.from(place).seek(Int64(offset), whence) == nil ? -1 : 0 },
            tell: { Int64(FileCursor.from($0).offset) }, close: nil)
        var code: Int32 = 0
        guard let handle = library.op_open_callbacks(place.raw, &callbacks, nil, 0, &code)
        else {
            throw AudioError(.damaged, "\(shown(file.path)) can't be decoded: it is damaged (code \(code))")
        }
        self.handle = handle
        guard library.op_link_count(handle) == 1 else {
            library.op_free(handle)
            throw AudioError(.damaged, "\(shown(file.path)) holds several recordings; a voice note is a single one")
        }
        place.liftBudget()
    }

    deinit { library.op_free(handle) }

    /// Frames before ``read(into:)``'s next one.
    package var position: Int { Int(max(0, library.op_pcm_tell(handle))) }
    /// Frames in all, as the file claims.
    package var frames: Int { Int(summary.granules) }

    /// - Returns: how many frames were decoded; 0 at the end.
    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int {
        while true {
            let count = library.op_read(handle, buffer.baseAddress, Int32(clamping: buffer.count), nil)
            if count >= 0 { return Int(count) }
            // A gap where pages are missing: what follows can be heard.
            if count == OP_HOLE { continue }
            throw AudioError(.damaged, "\(shown(place.file.path)) is damaged from \(position / 48_000) s on (code \(count))")
        }
    }

    package func seek(to frame: Int) throws(AudioError) {
        // The end itself is no place that can be sought.
        let code = library.op_pcm_seek(handle, Int64(min(max(0, frame), max(0, frames - 1))))
        guard code == 0 else {
            throw AudioError(
                .damaged, "\(shown(place.file.path)) is damaged, so no other place of it can be found (code \(code))")
        }
    }
}
