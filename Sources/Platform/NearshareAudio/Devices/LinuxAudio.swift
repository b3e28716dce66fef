package import NearshareInterfaces

/// Access to the microphones and loudspeakers of this machine: through its sound server if one answers, otherwise through ALSA.
package enum LinuxAudio {
    /// The prefix of device names that are opened through ALSA even if a sound server runs.
    package static let alsaPrefix = "alsa:"

    /// A microphone that delivers no samples for this long counts as disconnected: silence is samples as well.
    static let sampleTimeout = Duration.seconds(5)

    /// Opens the sound system.
    /// - Parameter device: the device that will be opened, if the user has named one.
    package static func make(for device: String? = nil) throws(AudioError) -> any AudioSystem {
        if let device, device.hasPrefix(alsaPrefix) { return try ALSA() }
        let serverError: AudioError
        do throws(AudioError) {
            return try PulseAudio()
        } catch {
            serverError = error
        }
        do throws(AudioError) {
            return try ALSA()
        } catch {
            throw AudioError(.unavailable, "\(serverError), and \(error)")
        }
    }

    /// Opens a microphone, and returns the title of its sound system as well.
    /// - Parameter device: nil for the default one.
    package static func openMicrophone(
        _ device: String?, format: AudioFormat
    ) throws(AudioError) -> (input: any AudioInput, system: String) {
        let audio = try make(for: device)
        do throws(AudioError) {
            return (try audio.openInput(device: bareName(device), format: format), audio.title)
        } catch {
            guard error.code == .unavailable, device == nil, audio is ALSA else { throw error }
            throw AudioError(
                .unavailable,
                "could not record: no sound server (PipeWire or PulseAudio) answers, and \(error)")
        }
    }

    /// A device's name without ``alsaPrefix``.
    package static func bareName(_ device: String?) -> String? {
        device.map { $0.hasPrefix(alsaPrefix) ? String($0.dropFirst(alsaPrefix.count)) : $0 }
    }
}
