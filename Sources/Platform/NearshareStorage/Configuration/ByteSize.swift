/// Parses sizes with units: `1500`, `500 MB`, `1.5GiB`.
package enum ByteSize {
    /// - Returns: the size in bytes; nil for invalid text or a size beyond `UInt64`.
    package static func parse(_ text: String) -> UInt64? {
        var trimmed = text.drop { $0 == " " }
        while trimmed.last == " " { trimmed.removeLast() }
        let number = trimmed.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard let factor = factor(of: trimmed.dropFirst(number.count).drop { $0 == " " }.lowercased()) else { return nil }
        if let whole = UInt64(number) {
            let (bytes, overflow) = whole.multipliedReportingOverflow(by: UInt64(factor))
            return overflow ? nil : bytes
        }
        guard factor > 1, let value = Double(number) else { return nil }
        return UInt64(exactly: (value * factor).rounded())
    }

    private static func factor(of unit: String) -> Double? {
        switch unit {
        case "", "b": 1
        case "k", "kb": 1e3
        case "m", "mb": 1e6
        case "g", "gb": 1e9
        case "t", "tb": 1e12
        case "kib": 1024
        case "mib": 1_048_576
        case "gib": 1_073_741_824
        case "tib": 1_099_511_627_776
        default: nil
        }
    }
}
