internal import ArgumentParser
internal import NearshareAudio

/// A bit rate in kbit/s.
struct BitrateArgument: ExpressibleByArgument {
    let bitsPerSecond: Int

    init?(argument: String) {
        // Bounded: the conversion to Int cannot trap.
        guard let number = Double(argument), (0...1000).contains(number) else { return nil }
        bitsPerSecond = Int((number * 1000).rounded())
        guard NoteSettings.bitrates.contains(bitsPerSecond) else { return nil }
    }
}
