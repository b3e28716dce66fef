package import NearshareBase

/// The strength with which this machine received an advertisement of a device, and when.
package struct SignalReading: Sendable, Hashable {
    /// Received signal strength in dBm, from -127 to 20.
    package let strength: Int
    /// When the advertisement was received.
    package let time: MonotonicInstant

    /// The range of a controller's reports, and the report without a value (Bluetooth Core specification, volume 4, part E, section
    /// 7.7.65.2).
    private static let range = -127...20
    private static let unavailable = 127

    package init(strength: Int, time: MonotonicInstant) {
        self.strength = strength
        self.time = time
    }

    /// The strength in a controller's report, clamped to the range of Bluetooth; nil for a report without a value.
    package static func strength(reported value: Int) -> Int? {
        value == unavailable ? nil : min(max(value, range.lowerBound), range.upperBound)
    }
}
