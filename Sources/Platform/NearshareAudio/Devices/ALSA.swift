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

/// An open PCM device, configured for an ``AudioFormat``; ALSA's plug-ins convert where the hardware can't.
private final class ALSADevice {
    let library: nearshare_alsa
    let raw: OpaquePointer
    let format: AudioFormat
    let name: String
    static let defaultName = "default"
    /// Recoveries since the last successful call. A device behind a stopped server reports success for ever.
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
                "\(what) can't be opened (\(Self.reason(library, code))); `nearshare voice --list-devices` lists "
                    + "the devices of this machine")
        }
        self.raw = raw
        var parameters: OpaquePointer?
        guard library.snd_pcm_hw_params_malloc(&parameters) == 0, let parameters else {
            throw AudioError(.failed, "no memory for the sound device")
        }
        defer { library.snd_pcm_hw_params_free(parameters) }
        try set(library.snd_pcm_hw_params_any(raw, parameters))
        try set(library.snd_pcm_hw_params_set_rate_resample(raw, parameters, 1))
        try set(library.snd_pcm_hw_params_set_access(raw, parameters, SND_PCM_ACCESS_RW_INTERLEAVED))
        try set(library.snd_pcm_hw_params_set_format(raw, parameters, SND_PCM_FORMAT_S16))
        try set(library.snd_pcm_hw_params_set_channels(raw, parameters, UInt32(format.channels)))
        try set(library.snd_pcm_hw_params_set_rate(raw, parameters, UInt32(format.rate), 0))
        // The buffer bridges a slow disk; the period determines how smoothly the level moves. A device that can't do it keeps
        // its own.
        var buffer: UInt32 = direction == SND_PCM_STREAM_CAPTURE ? 2_000_000 : 200_000
        _ = library.snd_pcm_hw_params_set_buffer_time_near(raw, parameters, &buffer, nil)
        var period: UInt32 = 20_000
        _ = library.snd_pcm_hw_params_set_period_time_near(raw, parameters, &period, nil)
        try set(library.snd_pcm_hw_params(raw, parameters))
    }

    deinit {
        _ = library.snd_pcm_close(raw)
        _ = library.snd_config_update_free_global()
    }

    /// Throws for the error code of a parameter.
    private func set(_ code: Int32) throws(AudioError) {
        guard code >= 0 else {
            throw AudioError(
                .unavailable,
                "\"\(shown(name))\" does not support \(format.rate) samples a second (\(Self.reason(library, code)))")
        }
    }

    static func reason(_ library: nearshare_alsa, _ code: Int32) -> String {
        library.snd_strerror(code).map { String(cString: $0).lowercased() } ?? "code \(code)"
    }

    func recordSuccess() { recoveries = 0 }

    /// Recovers from an overrun, an underrun or a suspension; throws for a disconnected device.
    func recover(from code: Int) throws(AudioError) {
        recoveries += 1
        guard recoveries <= Self.maximumRecoveries, library.snd_pcm_recover(raw, Int32(clamping: code), 1) >= 0 else {
            throw AudioError(.deviceGone, "the sound device was disconnected (\(Self.reason(library, Int32(clamping: code))))")
        }
    }
}

private final class ALSAInput: AudioInput {
    var format: AudioFormat { device.format }
    private(set) var lostFrames: UInt64 = 0
    private let device: ALSADevice
    private var isStarted = false
    private var lastSound = SystemClock.monotonic()
    /// Frames of silence that replace lost ones and are still to be returned.
    private var silence = 0

    init(_ device: ALSADevice) {
        self.device = device
    }

    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
        let library = device.library
        if silence > 0 { return .frames(fillSilence(buffer)) }
        if !isStarted {
            let code = library.snd_pcm_start(device.raw)
            if code < 0 { try device.recover(from: Int(code)) }
            isStarted = true
            lastSound = SystemClock.monotonic()
        }
        let ready = library.snd_pcm_wait(device.raw, AudioTimeout.milliseconds)
        if ready == 0 {
            if SystemClock.monotonic() - lastSound > LinuxAudio.sampleTimeout {
                throw AudioError(.deviceGone, "the microphone sends no sound any more")
            }
            return .timedOut
        }
        let count = library.snd_pcm_readi(device.raw, buffer.baseAddress, snd_pcm_uframes_t(buffer.count / format.channels))
        if count > 0 {
            device.recordSuccess()
            lastSound = SystemClock.monotonic()
            return .frames(count)
        }
        if count == -Int(EPIPE) {
            // Overrun: everything since the last read is lost.
            let lost = Int((SystemClock.monotonic() - lastSound).inSeconds * Double(format.rate))
            lostFrames += UInt64(max(0, lost))
            silence = max(0, lost)
            lastSound = SystemClock.monotonic()
        }
        if count < 0 { try device.recover(from: count) }
        isStarted = false
        return .timedOut
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
        let period = format.rate / 50
        let frames = min(samples.count / format.channels, period)
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

    /// Does nothing: most devices can't pause. The queued sound, at most a fifth of a second, is played.
    func setPaused(_ isPaused: Bool) throws(AudioError) {}

    func discard() throws(AudioError) {
        _ = device.library.snd_pcm_drop(device.raw)
        let code = device.library.snd_pcm_prepare(device.raw)
        if code < 0 { try device.recover(from: Int(code)) }
    }

    func drain() throws(AudioError) -> Bool {
        // Blocks until the buffer is played: at most a fifth of a second.
        _ = device.library.snd_pcm_drain(device.raw)
        return true
    }

    func close() {}
}
