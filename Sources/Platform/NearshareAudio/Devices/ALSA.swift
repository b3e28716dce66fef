internal import CNearshareAudio
internal import Glibc
internal import NearshareBase
package import NearshareInterfaces

/// ALSA, for systems without a sound server.
package struct ALSA: AudioSystem {
    package var title: String { "ALSA" }
    private let library: nearshare_alsa

    /// - Throws: when libasound is not installed.
    package init() throws(AudioError) {
        guard let library = AudioLibraries.alsa else { throw AudioLibraries.missing("libasound", package: "libasound2") }
        self.library = library
    }

    package func devices() throws(AudioError) -> [AudioDevice] {
        var hints: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
        guard library.snd_device_name_hint(-1, "pcm", &hints) == 0, let hints else { return [] }
        defer { _ = library.snd_device_name_free_hint(hints) }
        var found: [AudioDevice] = []
        var next = hints
        while let hint = next.pointee {
            next += 1
            guard let name = text(hint, "NAME"), !Self.isPlugIn(name) else { continue }
            let title = text(hint, "DESC")?.split(separator: "\n").joined(separator: ", ") ?? name
            let direction = text(hint, "IOID")
            if direction != "Output" {
                found.append(
                    AudioDevice(
                        name: LinuxAudio.alsaPrefix + name, title: title, direction: .input,
                        isDefault: name == ALSADevice.defaultName))
            }
            if direction != "Input" {
                found.append(
                    AudioDevice(
                        name: LinuxAudio.alsaPrefix + name, title: title, direction: .output,
                        isDefault: name == ALSADevice.defaultName))
            }
        }
        return found
    }

    /// Whether a name is that of a plug-in: a converter of rates or channels, the null device, or the emulation of OSS. ALSA
    /// lists each as a device of its own.
    static func isPlugIn(_ name: String) -> Bool {
        let kind = name.split(separator: ":", maxSplits: 1).first.map(String.init) ?? name
        return plugIns.contains(kind)
    }

    private static let plugIns: Set<String> = [
        "a52", "lavrate", "null", "oss", "samplerate", "speex", "speexrate", "upmix", "vdownmix",
    ]

    private func text(_ hint: UnsafeMutableRawPointer, _ field: String) -> String? {
        guard let raw = library.snd_device_name_get_hint(hint, field) else { return nil }
        defer { free(raw) }
        return String(cString: raw)
    }

    package func openInput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioInput {
        try ALSAInput(
            ALSADevice(library, name: device ?? ALSADevice.defaultName, direction: SND_PCM_STREAM_CAPTURE, format: format))
    }

    package func openOutput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioOutput {
        try ALSAOutput(
            ALSADevice(library, name: device ?? ALSADevice.defaultName, direction: SND_PCM_STREAM_PLAYBACK, format: format))
    }
}

/// An open PCM device, configured for an ``AudioFormat``; ALSA's plug-ins convert where the hardware cannot.
private final class ALSADevice {
    let library: nearshare_alsa
    let raw: OpaquePointer
    let format: AudioFormat
    let name: String
    static let defaultName = "default"
    /// Recoveries since the last successful call. Where the sound server behind a device has stopped, `snd_pcm_recover` reports
    /// success for ever.
    private var recoveries = 0
    private static let maximumRecoveries = 8

    init(_ library: nearshare_alsa, name: String, direction: snd_pcm_stream_t, format: AudioFormat) throws(AudioError) {
        self.library = library
        self.name = name
        self.format = format
        var raw: OpaquePointer?
        let code = library.snd_pcm_open(&raw, name, direction, 0)
        guard code == 0, let raw else {
            let kind = direction == SND_PCM_STREAM_CAPTURE ? "microphone" : "loudspeaker"
            let what = name == Self.defaultName ? "ALSA's default \(kind)" : "\"\(shown(name))\""
            throw AudioError(
                .unavailable,
                "\(what) cannot be opened (\(Self.reason(library, code))); `nearshare voice --list-devices` lists "
                    + "the devices of this machine")
        }
        self.raw = raw
        var parameters: OpaquePointer?
        guard library.snd_pcm_hw_params_malloc(&parameters) == 0, let parameters else {
            throw AudioError(.failed, "no memory for the sound device")
        }
        defer { library.snd_pcm_hw_params_free(parameters) }
        try check(library.snd_pcm_hw_params_any(raw, parameters), Self.notUsable)
        try check(library.snd_pcm_hw_params_set_rate_resample(raw, parameters, 1), Self.notUsable)
        try check(
            library.snd_pcm_hw_params_set_access(raw, parameters, SND_PCM_ACCESS_RW_INTERLEAVED),
            "does not support interleaved channels")
        try check(
            library.snd_pcm_hw_params_set_format(raw, parameters, SND_PCM_FORMAT_S16), "does not support samples of 16 bits")
        try check(
            library.snd_pcm_hw_params_set_channels(raw, parameters, UInt32(format.channels)),
            "does not support \(format.channels == 1 ? "one channel" : "\(format.channels) channels")")
        try check(
            library.snd_pcm_hw_params_set_rate(raw, parameters, UInt32(format.rate), 0),
            "does not support \(format.rate) samples a second")
        // The buffer bridges a slow disk; the period determines how smoothly the level moves. A device that cannot do it keeps
        // its own.
        var buffer: UInt32 = direction == SND_PCM_STREAM_CAPTURE ? 2_000_000 : 200_000
        _ = library.snd_pcm_hw_params_set_buffer_time_near(raw, parameters, &buffer, nil)
        var period: UInt32 = 20_000
        _ = library.snd_pcm_hw_params_set_period_time_near(raw, parameters, &period, nil)
        try check(library.snd_pcm_hw_params(raw, parameters), Self.notUsable)
    }

    deinit {
        _ = library.snd_pcm_close(raw)
        // The configuration that alsa-lib has parsed for opening. Open devices need it no more, and opening another one parses it.
        _ = library.snd_config_update_free_global()
    }

    private static let notUsable = "could not be set up"

    /// Throws for the error code of a parameter.
    /// - Parameter problem: the predicate of a sentence about the device, for a negative code.
    private func check(_ code: Int32, _ problem: String) throws(AudioError) {
        guard code >= 0 else {
            throw AudioError(.unavailable, "\"\(shown(name))\" \(problem) (\(Self.reason(library, code)))")
        }
    }

    /// The number of frames that one call reads or writes at most: the usual period, 20 ms. A call for more would block until all of
    /// them are there, because the device is opened for blocking calls.
    var maximumFrameCount: Int { format.rate / 50 }

    static func reason(_ library: nearshare_alsa, _ code: Int32) -> String {
        library.snd_strerror(code).map { String(cString: $0).lowercased() } ?? "code \(code)"
    }

    func recordSuccess() { recoveries = 0 }

    /// Recovers from an overrun, an underrun or a suspension; throws for a disconnected device, and for one that fails again each
    /// time.
    func recover(from code: Int) throws(AudioError) {
        let code = Int32(clamping: code)
        recoveries += 1
        guard recoveries <= Self.maximumRecoveries else {
            throw AudioError(.deviceGone, "the sound device does not recover (\(Self.reason(library, code)))")
        }
        guard library.snd_pcm_recover(raw, code, 1) >= 0 else {
            throw AudioError(.deviceGone, "the sound device was disconnected (\(Self.reason(library, code)))")
        }
    }
}

private final class ALSAInput: AudioInput {
    var format: AudioFormat { device.format }
    private(set) var lostFrames: UInt64 = 0
    private let device: ALSADevice
    private var isStarted = false
    private var lastSound = SystemClock.monotonic()
    /// nil before the first read, and after an interruption that is no overrun, such as a suspension.
    private var clock: CaptureClock?
    /// Frames of silence that replace lost ones and are still to be returned.
    private var silence = 0

    init(_ device: ALSADevice) {
        self.device = device
    }

    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        let library = device.library
        if !isStarted { try start() }
        // After the start: the device records while silence is handled, in place of what was lost.
        if silence > 0 { return .frames(fillSilence(buffer)) }
        let ready = library.snd_pcm_wait(device.raw, AudioTimeout.milliseconds)
        if ready == 0 { return try timeOut() }
        let frames = min(buffer.count / format.channels, device.maximumFrameCount)
        let count = library.snd_pcm_readi(device.raw, buffer.baseAddress, snd_pcm_uframes_t(frames))
        switch count {
        case 1...:
            device.recordSuccess()
            lastSound = SystemClock.monotonic()
            clock?.recordFrames(count)
            return .frames(count)
        case 0: return try timeOut()
        default:
            // The recovery from an overrun empties the buffer; the next start counts what is lost.
            if count != -Int(EPIPE) { clock = nil }
            isStarted = false
            try device.recover(from: count)
            return .timedOut
        }
    }

    /// - Throws: when no sound has come for too long.
    private func timeOut() throws(AudioError) -> AudioReading {
        guard SystemClock.monotonic() - lastSound <= LinuxAudio.sampleTimeout else {
            throw AudioError(.deviceGone, "the microphone sends no sound any more")
        }
        return .timedOut
    }

    /// Starts the device, at first or after an interruption, and counts what an overrun has lost.
    private func start() throws(AudioError) {
        let code = device.library.snd_pcm_start(device.raw)
        if code < 0 { try device.recover(from: Int(code)) }
        isStarted = true
        let now = SystemClock.monotonic()
        lastSound = now
        let lost = clock?.recordLoss(at: now) ?? 0
        if clock == nil { clock = CaptureClock(rate: format.rate, start: now) }
        lostFrames += UInt64(lost)
        silence += lost
    }

    private func fillSilence(_ buffer: UnsafeMutableBufferPointer<Int16>) -> Int {
        let frames = min(silence, buffer.count / format.channels)
        for index in 0..<(frames * format.channels) { buffer[index] = 0 }
        silence -= frames
        return frames
    }

    func close() {}
}

private final class ALSAOutput: AudioOutput {
    var format: AudioFormat { device.format }
    private let device: ALSADevice

    init(_ device: ALSADevice) {
        self.device = device
    }

    var pendingFrames: Int {
        var frames: snd_pcm_sframes_t = 0
        return device.library.snd_pcm_delay(device.raw, &frames) == 0 ? max(0, frames) : 0
    }

    func write(_ samples: UnsafeBufferPointer<Int16>) throws(AudioError) -> Int {
        let library = device.library
        guard library.snd_pcm_wait(device.raw, AudioTimeout.milliseconds) != 0 else { return 0 }
        let frames = min(samples.count / format.channels, device.maximumFrameCount)
        let count = library.snd_pcm_writei(device.raw, samples.baseAddress, snd_pcm_uframes_t(frames))
        if count > 0 {
            device.recordSuccess()
            return count
        }
        if count < 0 { try device.recover(from: count) }
        return 0
    }

    func idle(until wakeup: EventFD) {
        _ = DescriptorPoll.wait(for: wakeup.descriptor, .readable, timeout: nil)
    }

    /// Does nothing: most devices cannot pause. The queued sound is played: about a fifth of a second, more where a
    /// device has a larger buffer of its own.
    func setPaused(_ isPaused: Bool) throws(AudioError) {}

    func discard() throws(AudioError) {
        _ = device.library.snd_pcm_drop(device.raw)
        let code = device.library.snd_pcm_prepare(device.raw)
        if code < 0 { try device.recover(from: Int(code)) }
    }

    func drain() throws(AudioError) -> Bool {
        // Blocks until the buffer is played, see ``setPaused(_:)``.
        _ = device.library.snd_pcm_drain(device.raw)
        return true
    }

    func close() {}
}
