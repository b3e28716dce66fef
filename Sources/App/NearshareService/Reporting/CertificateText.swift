internal import Nearshare

/// The form of certificate fingerprints that people compare.
package enum CertificateText {
    /// Bytes of the short form.
    private static let shortByteCount = 8

    /// The first bytes, in groups of four digits: `1A2B 3C4D 5E6F 7081`.
    package static func short(_ fingerprint: [UInt8]) -> String {
        let digits = Array(Hex.encode(fingerprint.prefix(shortByteCount)).uppercased())
        return stride(from: 0, to: digits.count, by: 4).map { String(digits[$0..<min($0 + 4, digits.count)]) }
            .joined(separator: " ")
    }
}
