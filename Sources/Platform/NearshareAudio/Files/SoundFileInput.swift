internal import CNearshareAudio
package import NearshareInterfaces

/// A WAV, FLAC or other sound file as input, read with libsndfile. Several channels are mixed into one.
package final class SoundFileInput: AudioInput {
    package let format: AudioFormat
    package var lostFrames: UInt64 { 0 }

    private let library: nearshare_sndfile
    private let handle: OpaquePointer
    private let cursor: FileCursor
    private let channels: Int
    /// The samples of all channels that were read last, of which full scale is ±1.
    private var samples: [Float]

    /// Limit on channels, which determine the size of the buffer.
    private static let maximumChannels = 64

    /// - Throws: for a format that libsndfile does not support, and for rates outside ``AudioFormat/rates``.
    package init(_ file: NoteFile) throws(AudioError) {
        guard let library = AudioLibraries.sndfile else {
            throw AudioLibraries.missing("libsndfile", package: "libsndfile1")
        }
        self.library = library
        cursor = FileCursor(file)
        var callbacks = SF_VIRTUAL_IO(
            get_filelen: { sf_count_t(FileCursor.from($0).file.size) },
            seek: { offset, whence, context in FileCursor.from(context).seek(Int64(offset), whence) ?? -1 },
            read: { buffer, count, context in
                guard count > 0, let buffer else { return 0 }
                return sf_count_t(FileCursor.from(context).read(into: buffer, count: Int(count)) ?? 0)
            },
            write: { _, _, _ in 0 }, tell: { sf_count_t(FileCursor.from($0).offset) })
        var info = SF_INFO()
        guard
            let handle = library.sf_open_virtual(&callbacks, Int32(SFM_READ), &info, cursor.context)
        else {
            let sentence = library.sf_strerror(nil).map { String(cString: $0) } ?? "unknown"
            let reason = sentence.hasSuffix(".") ? String(sentence.dropLast()) : sentence
            throw AudioError(
                .damaged,
                "\(shown(file.path)) is not a supported sound file (\(shown(reason))); "
                    + "use WAV, FLAC, MP3, Ogg, M4A or AAC, or raw samples with --raw")
        }
        self.handle = handle
        channels = Int(info.channels)
        guard (1...Self.maximumChannels).contains(channels) else {
            _ = library.sf_close(handle)
            throw AudioError(
                .damaged, "\(shown(file.path)) has \(info.channels) channels; at most \(Self.maximumChannels) are supported")
        }
        guard let format = AudioFormat(rate: Int(info.samplerate), channels: 1) else {
            _ = library.sf_close(handle)
            throw AudioError(
                .damaged,
                "\(shown(file.path)) has a sample rate of \(info.samplerate) Hz, which is not supported; convert it to 48000 Hz"
            )
        }
        self.format = format
        samples = [Float](repeating: 0, count: Self.frameCountPerRead * channels)
    }

    deinit { _ = library.sf_close(handle) }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        let wanted = min(buffer.count, Self.frameCountPerRead)
        // Read as integers, a file of floating-point samples, such as Ogg, would be amplified to its own peak.
        let count = Int(library.sf_readf_float(handle, &samples, sf_count_t(wanted)))
        for frame in 0..<max(0, count) {
            let sum = samples[(frame * channels)..<((frame + 1) * channels)].reduce(0, +)
            buffer[frame] = Self.sample(sum / Float(channels))
        }
        if count > 0 { return .frames(count) }
        let code = library.sf_error(handle)
        if code != 0 {
            let reason = library.sf_strerror(handle).map { String(cString: $0) } ?? "code \(code)"
            throw AudioError(.damaged, "\(shown(cursor.file.path)) is damaged: \(shown(reason))")
        }
        return .end
    }

    /// The file is closed when it is released.
    package func close() {}

    private static let frameCountPerRead = 4096

    /// The 16-bit sample of a floating-point one, which is clipped. A file may contain values that are no number.
    private static func sample(_ value: Float) -> Int16 {
        value.isNaN ? 0 : Int16(max(-32_768, min(32_767, (value * 32_768).rounded())))
    }
}
