extension Duration {
    /// Whole nanoseconds, saturating at the bounds of `Int64` (292 years).
    package var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, sumOverflow) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        guard !overflow, !sumOverflow else { return seconds < 0 ? .min : .max }
        return sum
    }

    /// Seconds with a fraction.
    package var inSeconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) * 1e-18
    }

    /// Hours, minutes and seconds: "0:07", "12:30", "3:05:00". Hours are left out when they are zero.
    package var asClock: String {
        let total = max(0, components.seconds)
        let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60)
        let tail = seconds < 10 ? "0\(seconds)" : "\(seconds)"
        guard hours > 0 else { return "\(minutes):\(tail)" }
        return "\(hours):\(minutes < 10 ? "0" : "")\(minutes):\(tail)"
    }

    /// The duration in its largest unit, rounded: "8 s", "2 min", "3 h".
    package var asLargestUnit: String {
        let total = max(0, components.seconds)
        if total < 60 { return "\(total) s" }
        let minutes = total / 60 + (total % 60 < 30 ? 0 : 1)
        if minutes < 60 { return "\(minutes) min" }
        return "\(minutes / 60 + (minutes % 60 < 30 ? 0 : 1)) h"
    }
}
