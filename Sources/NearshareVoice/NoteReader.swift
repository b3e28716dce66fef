internal import CNearshareVoice
internal import Glibc
public import NearshareEdges

/// Decodes a voice note with libopusfile, when somebody wants to hear it. Used by one thread.
public final class NoteReader {
    public let summary: NoteSummary
    /// What ``read(into:)`` gives: 48,000 frames a second.
    public let format: AudioFormat

    private let library: nearshare_opusfile
    private let handle: OpaquePointer
    private let place: Place

    private final class Place {
        let file: NoteFile
        var offset: UInt64 = 0
        /// Bytes that opening may still read: looking through a file made of thousands of tiny streams ends here.
        var budget: Int
        init(_ file: NoteFile, budget: Int) {
            self.file = file
            self.budget = budget
        }
    }

    /// Opening a sane note reads its beginning and its end.
    private static let openingBudget = 4 << 20

    /// - Throws: when it is no voice note, or one that libopusfile does not accept.
    public init(_ file: NoteFile) throws(AudioError) {
        guard let library = VoiceLibraries.opusfile else {
            throw VoiceLibraries.missing("libopusfile", package: "libopusfile0")
        }
        self.library = library
        summary = try NoteSummary(of: file)
        guard let format = AudioFormat(rate: OpusHead.granulesPerSecond, channels: summary.head.channels) else {
            throw AudioError(.damaged, "a voice note has one or two channels")
        }
        self.format = format
        place = Place(file, budget: Self.openingBudget)
        var callbacks = OpusFileCallbacks(
            read: { place, buffer, count in NoteReader.read(NoteReader.place(place), buffer, count) },
            seek: { place, offset, whence in NoteReader.seek(NoteReader.place(place), Int64(offset), whence) },
            tell: { Int64(NoteReader.place($0).offset) }, close: nil)
        var code: Int32 = 0
        guard let handle = library.op_open_callbacks(Unmanaged.passUnretained(place).toOpaque(), &callbacks, nil, 0, &code)
        else {
            throw AudioError(.damaged, "\(shown(file.path)) can't be decoded: it is damaged (code \(code))")
        }
        self.handle = handle
        guard library.op_link_count(handle) == 1 else {
            library.op_free(handle)
            throw AudioError(.damaged, "\(shown(file.path)) holds several recordings; a voice note is a single one")
        }
        place.budget = .max
    }

    deinit { library.op_free(handle) }

    /// Frames before ``read(into:)``'s next one.
    public var position: Int { Int(max(0, library.op_pcm_tell(handle))) }
    /// Frames in all, as the file claims.
    public var frames: Int { Int(summary.granules) }

    /// - Returns: how many frames were decoded; 0 at the end.
    public func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> Int {
        while true {
            let count = library.op_read(handle, buffer.baseAddress, Int32(clamping: buffer.count), nil)
            if count >= 0 { return Int(count) }
            // A gap where pages are missing: what follows can be heard.
            if count == OP_HOLE { continue }
            throw AudioError(.damaged, "\(shown(place.file.path)) is damaged from \(position / 48_000) s on (code \(count))")
        }
    }

    public func seek(to frame: Int) throws(AudioError) {
        // The end itself is no place that can be sought.
        let code = library.op_pcm_seek(handle, Int64(min(max(0, frame), max(0, frames - 1))))
        guard code == 0 else {
            throw AudioError(
                .damaged, "\(shown(place.file.path)) is damaged, so no other place of it can be found (code \(code))")
        }
    }

    private static func place(_ raw: UnsafeMutableRawPointer?) -> Place {
        Unmanaged<Place>.fromOpaque(raw!).takeUnretainedValue()
    }

    private static func read(_ place: Place, _ buffer: UnsafeMutablePointer<UInt8>?, _ count: Int32) -> Int32 {
        guard let buffer, count > 0 else { return 0 }
        guard place.budget >= Int(count) else { return -1 }
        if place.budget != .max { place.budget -= Int(count) }
        let bytes = UnsafeMutableRawBufferPointer(start: buffer, count: Int(count))
        guard let read = try? place.file.read(into: bytes, at: place.offset) else { return -1 }
        place.offset += UInt64(read)
        return Int32(read)
    }

    private static func seek(_ place: Place, _ offset: Int64, _ whence: Int32) -> Int32 {
        let base: Int64 =
            switch whence {
            case SEEK_CUR: Int64(clamping: place.offset)
            case SEEK_END: Int64(clamping: place.file.size)
            default: 0
            }
        let (target, overflow) = base.addingReportingOverflow(offset)
        guard !overflow, target >= 0 else { return -1 }
        place.offset = UInt64(target)
        return 0
    }
}
