package import NearshareInterfaces

/// The way to this machine's microphones and loudspeakers: through its sound server where one answers, else through ALSA.
package enum LinuxAudio {
    /// A device whose name begins with this is opened through ALSA, also where a sound server runs.
    package static let alsaPrefix = "alsa:"

    /// - Parameter device: the one that is going to be opened, if the person has named one.
    package static func make(for device: String? = nil) throws(AudioError) -> any AudioSystem {
        if let device, device.hasPrefix(alsaPrefix) { return try ALSA() }
        let noServer: AudioError
        do throws(AudioError) {
            return try PulseAudio()
        } catch {
            noServer = error
        }
        do throws(AudioError) {
            return try ALSA()
        } catch {
            // With neither, the server is what most people have and would start.
            throw AudioError(.unavailable, "\(noServer), and \(error)")
        }
    }

    /// The name without what says how it is opened.
    package static func bareName(_ device: String?) -> String? {
        device.map { $0.hasPrefix(alsaPrefix) ? String($0.dropFirst(alsaPrefix.count)) : $0 }
    }
}
