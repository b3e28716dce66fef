internal import CNearshareAudio
internal import Glibc
package import NearshareInterfaces

/// A WAV, FLAC or other sound file in place of a microphone, read with libsndfile; several channels become one.
package final class SoundFileInput: AudioInput {
    package let format: AudioFormat
    package var lostFrames: UInt64 { 0 }

    private let library: nearshare_sndfile
    private let handle: OpaquePointer
    private let place: FileCursor
    private let channels: Int
    private var mixed: [Int16] = []

    /// libsndfile's callbacks know the file by this.
    /// More channels than anybody records speech with would only make room for mischief.
    private static let maximumChannels = 64

    /// - Throws: when it is none of libsndfile's formats, or of an absurd rate.
    package init(_ file: NoteFile) throws(AudioError) {
        guard let library = AudioLibraries.sndfile else {
            throw AudioLibraries.missing("libsndfile", package: "libsndfile1")
        }
        self.library = library
        place = FileCursor(file)
        var callbacks = SF_VIRTUAL_IO(
            get_filelen: { sf_count_t(FileCursor.from($0).file.size) },
            seek: { offset, whence, place in FileCursor.from(place).seek(Int64(offset), whence) ?? -1 },
            read: { buffer, count, place in
                guard count > 0, let buffer else { return 0 }
                return sf_count_t(FileCursor.from(place).read(into: buffer, count: Int(count)) ?? 0)
            },
            write: { _, _, _ in 0 }, tell: { sf_count_t(FileCursor.from($0).offset) })
        var info = SF_INFO()
        guard
            let handle = library.sf_open_virtual(&callbacks, Int32(SFM_READ), &info, place.raw)
        else {
            let reason = library.sf_strerror(nil).map { String(cString: $0) } ?? "unknown"
            throw AudioError(
                .damaged,
                "\(shown(file.path)) is not a sound file that can be read (\(shown(reason).lowercased())); "
                    + "WAV and FLAC can, and raw samples with --raw")
        }
        self.handle = handle
        channels = Int(info.channels)
        guard (1...Self.maximumChannels).contains(channels), let format = AudioFormat(rate: Int(info.samplerate), channels: 1)
        else {
            _ = library.sf_close(handle)
            throw AudioError(
                .damaged,
                "\(shown(file.path)) has \(info.channels) channels and \(info.samplerate) samples a second, "
                    + "which is nothing to make a voice note of")
        }
        self.format = format
        // Files of floating-point samples are read on the scale of whole ones, and clipped rather than wrapped.
        _ = library.sf_command(handle, Int32(SFC_SET_SCALE_FLOAT_INT_READ), nil, Int32(SF_TRUE))
        _ = library.sf_command(handle, Int32(SFC_SET_CLIPPING), nil, Int32(SF_TRUE))
    }

    deinit { _ = library.sf_close(handle) }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        let wanted = channels == 1 ? buffer.count : min(buffer.count, Self.mixedFrames)
        let count: Int
        if channels == 1 {
            count = Int(library.sf_readf_short(handle, buffer.baseAddress, sf_count_t(wanted)))
        } else {
            if mixed.isEmpty { mixed = [Int16](repeating: 0, count: Self.mixedFrames * channels) }
            count = Int(library.sf_readf_short(handle, &mixed, sf_count_t(wanted)))
            for frame in 0..<max(0, count) {
                let sum = mixed[(frame * channels)..<((frame + 1) * channels)].reduce(0) { $0 + Int($1) }
                buffer[frame] = Int16(sum / channels)
            }
        }
        if count > 0 { return .frames(count) }
        let code = library.sf_error(handle)
        if code != 0 {
            let reason = library.sf_strerror(handle).map { String(cString: $0) } ?? "code \(code)"
            throw AudioError(.damaged, "\(shown(place.file.path)) is damaged: \(shown(reason).lowercased())")
        }
        return .end
    }

    /// Nothing to give back; the file is closed with the last who holds it.
    package func close() {}

    private static let mixedFrames = 4096
}

/// Samples without any header: one channel, 16 bits, little-endian.
package final class RawSampleInput: AudioInput {
    package let format: AudioFormat
    package var lostFrames: UInt64 { 0 }
    private let descriptor: Int32
    private let file: NoteFile?
    private var oddByte: UInt8?

    /// - Parameters:
    ///   - descriptor: stays open; may be a pipe.
    ///   - rate: frames a second.
    package convenience init(descriptor: Int32, rate: Int) throws(AudioError) {
        try self.init(descriptor, nil, rate: rate)
    }

    /// - Parameters:
    ///   - file: read from its start.
    ///   - rate: frames a second.
    package convenience init(file: NoteFile, rate: Int) throws(AudioError) {
        try self.init(file.descriptor, file, rate: rate)
    }

    private init(_ descriptor: Int32, _ file: NoteFile?, rate: Int) throws(AudioError) {
        guard let format = AudioFormat(rate: rate, channels: 1) else {
            throw AudioError(.failed, "\(rate) samples a second is nothing to make a voice note of")
        }
        self.format = format
        self.descriptor = descriptor
        self.file = file
    }

    package func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let ready = poll(&waiting, 1, AudioTimeout.milliseconds)
        if ready == 0 || (ready < 0 && errno == EINTR) { return .timedOut }
        let bytes = UnsafeMutableRawBufferPointer(buffer)
        // A pipe may be cut in the middle of a sample.
        let kept = oddByte == nil ? 0 : 1
        if let oddByte { bytes[0] = oddByte }
        let count = Glibc.read(descriptor, bytes.baseAddress! + kept, bytes.count - kept)
        if count < 0 {
            if errno == EINTR || errno == EAGAIN { return .timedOut }
            throw AudioError(errno, "can't read the samples")
        }
        if count == 0 { return .end }
        let total = kept + count
        oddByte = total % 2 == 1 ? bytes[total - 1] : nil
        for index in 0..<(total / 2) { buffer[index] = Int16(littleEndian: buffer[index]) }
        return total >= 2 ? .frames(total / 2) : .timedOut
    }

    package func close() {}
}

/// Standard input as a file: formats with tables and sizes are read at places, and a pipe has none.
package enum PipeSpooler {
    /// Copies all of it to a file without a name, unless it is a file already.
    package static func spool(_ descriptor: Int32) throws(AudioError) -> NoteFile {
        let file = try NoteFile.temporary()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        defer { buffer.deallocate() }
        var offset: UInt64 = 0
        while true {
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count == 0 { return file }
            if count < 0 {
                if errno == EINTR { continue }
                throw AudioError(errno, "can't read standard input")
            }
            try file.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: offset)
            offset += UInt64(count)
        }
    }
}
