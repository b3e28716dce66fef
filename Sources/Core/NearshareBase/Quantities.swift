// How amounts are told to people.

extension UInt64 {
    /// "512 B", "1.4 KB", "3.2 GB": powers of 1000, three digits at most.
    package var asByteCount: String {
        guard self >= 1000 else { return "\(self) B" }
        var value = Double(self)
        var unit = -1
        while value >= 999.5, unit < Self.byteUnits.count - 1 {
            value /= 1000
            unit += 1
        }
        let tenths = Int((value * 10).rounded())
        // A value that rounds to 100 or more has digits enough without a fraction.
        let number = tenths >= 1000 ? "\(Int(value.rounded()))" : "\(tenths / 10).\(tenths % 10)"
        return "\(number) \(Self.byteUnits[unit])"
    }

    private static let byteUnits = ["KB", "MB", "GB", "TB", "PB", "EB"]
}

extension Duration {
    /// "0:07", "12:30", "3:05:00"; hours only when there are any.
    package var asClock: String {
        let total = max(0, components.seconds)
        let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60)
        let tail = seconds < 10 ? "0\(seconds)" : "\(seconds)"
        guard hours > 0 else { return "\(minutes):\(tail)" }
        return "\(hours):\(minutes < 10 ? "0" : "")\(minutes):\(tail)"
    }
}
