internal import Glibc

/// The present level: rises immediately and falls slowly, as usual for level displays.
package struct LevelMeter: Sendable {
    /// The peak level, 0 to 1 of full scale.
    private var peak = 0.0
    private let rate: Double

    /// The level that is shown as zero.
    static let floorInDecibels = -60.0
    private static let decayInDecibelsPerSecond = 24.0

    /// - Parameter rate: the sample rate, in hertz.
    package init(rate: Int) {
        self.rate = Double(rate)
    }

    package mutating func append(_ samples: UnsafeBufferPointer<Int16>) {
        let highest = peakMagnitude(samples[...])
        let seconds = Double(samples.count) / rate
        peak = max(Double(highest) / 32_768, peak * pow(10, -Self.decayInDecibelsPerSecond * seconds / 20))
    }

    /// From 0 (60 dB below full scale) to 1 (full scale).
    package var level: Double {
        guard peak > 0 else { return 0 }
        return min(1, max(0, 1 - 20 * log10(peak) / Self.floorInDecibels))
    }

    /// Whether the peak is within 1 % of full scale, where sound is distorted.
    package var isClipping: Bool { peak > 0.99 }
}

/// The largest magnitude. A plain loop over memory, which the compiler vectorises.
func peakMagnitude(_ samples: Slice<UnsafeBufferPointer<Int16>>) -> UInt16 {
    var highest: UInt16 = 0
    for sample in UnsafeBufferPointer(rebasing: samples) { highest = max(highest, sample.magnitude) }
    return highest
}
