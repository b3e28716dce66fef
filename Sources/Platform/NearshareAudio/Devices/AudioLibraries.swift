internal import CNearshareAudio
internal import NearshareInterfaces

/// The function tables of the run-time libraries. Each is loaded at its first use, and nil when the library is not installed.
enum AudioLibraries {
    // Safe: never changed. The importer does not make tables with variadic functions sendable.
    nonisolated(unsafe) static let opusenc: nearshare_opusenc? = {
        var table = nearshare_opusenc()
        return nearshare_load_opusenc(&table) == 0 ? table : nil
    }()

    static let opusfile: nearshare_opusfile? = {
        var table = nearshare_opusfile()
        return nearshare_load_opusfile(&table) == 0 ? table : nil
    }()

    static let sndfile: nearshare_sndfile? = {
        var table = nearshare_sndfile()
        return nearshare_load_sndfile(&table) == 0 ? table : nil
    }()

    static let faad: nearshare_faad? = {
        var table = nearshare_faad()
        return nearshare_load_faad(&table) == 0 ? table : nil
    }()

    static let pulse: nearshare_pulse? = {
        var table = nearshare_pulse()
        return nearshare_load_pulse(&table) == 0 ? table : nil
    }()

    static let alsa: nearshare_alsa? = {
        var table = nearshare_alsa()
        guard nearshare_load_alsa(&table) == 0 else { return nil }
        nearshare_alsa_silence(&table)
        return table
    }()

    static func missing(_ library: String, package: String) -> AudioError {
        AudioError(.unavailable, "\(library) is not installed; on Debian, apt install \(package)")
    }
}
