internal import Nearshare

/// The form of certificate fingerprints that people compare.
package enum CertificateText {
    /// Bytes of the short form.
    private static let shortByteCount = 8

    /// All bytes, in lines of eight groups of four hexadecimal digits.
    package static func lines(_ fingerprint: [UInt8]) -> [String] {
        stride(from: 0, to: fingerprint.count, by: 2 * shortByteCount).map { start in
            groups(fingerprint[start...].prefix(2 * shortByteCount))
        }
    }

    /// The first bytes, in groups of four hexadecimal digits: `1A2B 3C4D 5E6F 7081`.
    package static func short(_ fingerprint: [UInt8]) -> String { groups(fingerprint.prefix(shortByteCount)) }

    private static func groups(_ bytes: ArraySlice<UInt8>) -> String {
        let digits = Array(Hex.encode(bytes).uppercased())
        return stride(from: 0, to: digits.count, by: 4).map { String(digits[$0..<min($0 + 4, digits.count)]) }
            .joined(separator: " ")
    }
}
