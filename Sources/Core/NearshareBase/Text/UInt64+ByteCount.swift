extension UInt64 {
    /// A number of bytes in powers of 1000, with at most three digits: "512 B", "1.4 KB", "3.2 GB".
    package var formattedByteCount: String {
        guard self >= 1000 else { return "\(self) B" }
        var value = Double(self)
        var unit = -1
        while value >= 999.5, unit < Self.byteUnits.count - 1 {
            value /= 1000
            unit += 1
        }
        let tenths = Int((value * 10).rounded())
        // A value that rounds to 100 or more is shown without a fraction.
        let number = tenths >= 1000 ? "\(Int(value.rounded()))" : "\(tenths / 10).\(tenths % 10)"
        return "\(number) \(Self.byteUnits[unit])"
    }

    private static let byteUnits = ["KB", "MB", "GB", "TB", "PB", "EB"]
}
