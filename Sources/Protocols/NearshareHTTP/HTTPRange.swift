/// The value of the field Range (RFC 9110, section 14.2), as far as responses with one part can satisfy it.
package enum HTTPRange: Sendable, Hashable {
    /// The bytes from an offset on; through another one, or to the end.
    case from(UInt64, through: UInt64?)
    /// The last bytes.
    case last(UInt64)
    /// Several ranges. They are rejected: a short request could ask for the same bytes many times (N14).
    case several

    /// - Returns: nil for another unit and for a malformed value, which are ignored as the specification says.
    init?(_ field: String) {
        let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, String(parts[0]).isEqualIgnoringCase(to: "bytes") else { return nil }
        guard !parts[1].contains(",") else {
            self = .several
            return
        }
        let ends = parts[1].split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2 else { return nil }
        switch (Self.number(ends[0]), Self.number(ends[1])) {
        case (let first?, nil) where ends[1].isEmpty: self = .from(first, through: nil)
        case (let first?, let last?) where first <= last: self = .from(first, through: last)
        case (nil, let count?) where ends[0].isEmpty: self = .last(count)
        default: return nil
        }
    }

    private static func number(_ text: Substring) -> UInt64? {
        guard (1...19).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return UInt64(text)
    }

    /// The bytes of a content of a size.
    /// - Returns: nil for a range that is not in it.
    package func bytes(of size: UInt64) -> Range<UInt64>? {
        switch self {
        case .from(let first, let last):
            guard first < size else { return nil }
            return first..<min(size, (last ?? size).addingReportingOverflow(1).partialValue)
        case .last(let count): return count > 0 && size > 0 ? size - min(count, size)..<size : nil
        case .several: return nil
        }
    }
}
