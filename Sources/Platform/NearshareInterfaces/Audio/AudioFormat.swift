/// The format of samples in memory: signed 16-bit numbers in the machine's byte order, the channels of a frame interleaved.
package struct AudioFormat: Sendable, Hashable {
    /// Frames a second.
    package let rate: Int
    package let channels: Int

    /// Rates that sound cards and files use.
    package static let rates = 8000...192_000

    /// - Returns: nil for a rate outside ``rates``, or a number of channels other than one or two.
    package init?(rate: Int, channels: Int) {
        guard Self.rates.contains(rate), (1...2).contains(channels) else { return nil }
        self.init(checkedRate: rate, channels: channels)
    }

    private init(checkedRate rate: Int, channels: Int) {
        self.rate = rate
        self.channels = channels
    }

    /// One channel, 16,000 frames a second: as much as speech at 24 kbit/s can make use of.
    package static let speech = AudioFormat(checkedRate: 16_000, channels: 1)
}
