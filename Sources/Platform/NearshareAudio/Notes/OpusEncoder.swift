internal import CNearshareAudio
internal import NearshareInterfaces

/// libopusenc's encoder for one note: samples in, Ogg pages out through a callback. Used by one thread.
final class OpusEncoder {
    private let library: nearshare_opusenc
    private let comments: OpaquePointer
    private var encoder: OpaquePointer?
    private let writePage: (UnsafeRawBufferPointer) -> Bool

    /// - Parameters:
    ///   - rate: sample rate in hertz.
    ///   - writePage: receives each complete page, during a call of this type; returns false to stop the encoder.
    init(
        rate: Int, settings: NoteSettings, writePage: @escaping (UnsafeRawBufferPointer) -> Bool
    ) throws(AudioError) {
        guard let library = AudioLibraries.opusenc else {
            throw AudioLibraries.missing("libopusenc", package: "libopusenc0")
        }
        guard let comments = library.ope_comments_create() else { throw AudioError(.failed, "no memory for the note's tags") }
        self.library = library
        self.comments = comments
        self.writePage = writePage
        try addTag(NoteTags.speakerName, settings.speaker)
        try addTag(NoteTags.dateName, settings.recorded?.iso8601)
        try addTag(NoteTags.waveformName, String(decoding: Waveform.placeholder, as: UTF8.self))
        try start(rate: rate, settings: settings)
    }

    deinit {
        if let encoder { library.ope_encoder_destroy(encoder) }
        library.ope_comments_destroy(comments)
    }

    private func addTag(_ name: String, _ value: String?) throws(AudioError) {
        guard let value else { return }
        try check(library.ope_comments_add(comments, name, value), "could not tag the note")
    }

    private func start(rate: Int, settings: NoteSettings) throws(AudioError) {
        var callbacks = OpusEncCallbacks(
            write: { context, bytes, count in
                guard let context else { return 1 }
                let encoder = Unmanaged<OpusEncoder>.fromOpaque(context).takeUnretainedValue()
                return encoder.writePage(UnsafeRawBufferPointer(start: bytes, count: Int(count))) ? 0 : 1
            }, close: { _ in 0 })
        var code: Int32 = 0
        // Unretained: callbacks are made only during this object's own methods.
        guard
            let encoder = library.ope_encoder_create_callbacks(
                &callbacks, Unmanaged.passUnretained(self).toOpaque(), comments, Int32(rate), 1, 0, &code)
        else { throw error(code, "could not start the encoder") }
        self.encoder = encoder
        let lookAhead = Int32(clamping: Int(min(settings.lookAhead, 60) * Double(OpusHead.granulesPerSecond)))
        let requests: [(Int32, Int32)] = [
            (nearshare_opus_set_bitrate, Int32(settings.bitrate)), (nearshare_opus_set_signal, Int32(OPUS_SIGNAL_VOICE)),
            // The defaults of opusenc: best quality, and bits where speech needs them rather than evenly.
            (nearshare_opus_set_complexity, 10), (nearshare_opus_set_vbr_constraint, 0), (nearshare_opus_set_lsb_depth, 16),
            (nearshare_ope_set_decision_delay, lookAhead),
            // Padding is for editing tags, which voice notes do not need.
            (nearshare_ope_set_comment_padding, 0),
            // libopusenc uses the same number in each process; two notes in one file have to be distinguished.
            (nearshare_ope_set_serial, Int32.random(in: .min ... .max)),
        ]
        for (request, value) in requests {
            let result = withUnsafePointer(to: library) { nearshare_opusenc_set($0, encoder, request, value) }
            try check(result, "could not set up the encoder")
        }
    }

    func encode(_ samples: UnsafeBufferPointer<Int16>) throws(AudioError) {
        guard let encoder, let start = samples.baseAddress, !samples.isEmpty else { return }
        try check(library.ope_encoder_write(encoder, start, Int32(samples.count)), "could not encode")
    }

    /// Encodes everything that the encoder holds. libopusenc 0.2.1 may abort the process if no samples were encoded before.
    func drain() {
        if let encoder { _ = library.ope_encoder_drain(encoder) }
    }

    private func check(_ code: Int32, _ what: String) throws(AudioError) {
        if code != OPE_OK { throw error(code, what) }
    }

    private func error(_ code: Int32, _ what: String) -> AudioError {
        let reason = library.ope_strerror(code).map { String(cString: $0) } ?? "code \(code)"
        return AudioError(.failed, "\(what): \(reason.lowercased())")
    }
}
