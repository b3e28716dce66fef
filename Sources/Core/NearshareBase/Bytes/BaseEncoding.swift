/// A base encoding of bytes as text (RFC 4648).
package struct BaseEncoding: Sendable {
    /// Base32 (section 6): the letters and digits that a QR code holds in 5.5 bits each.
    package static let base32 = BaseEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", digitBitCount: 5)
    /// Base64 (section 4).
    package static let base64 = BaseEncoding(letters + letters.lowercased() + "0123456789+/", digitBitCount: 6)
    /// Base64 for URLs and file names (section 5).
    package static let base64URL = BaseEncoding(letters + letters.lowercased() + "0123456789-_", digitBitCount: 6)

    private static let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

    /// The digits, of which each encodes ``digitBitCount`` bits.
    private let digits: [UInt8]
    private let digitBitCount: Int

    private init(_ digits: String, digitBitCount: Int) {
        self.digits = Array(digits.utf8)
        self.digitBitCount = digitBitCount
    }

    /// The text without padding.
    package func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        var (pending, bitCount) = (UInt32(0), 0)
        for byte in bytes {
            (pending, bitCount) = (pending << 8 | UInt32(byte), bitCount + 8)
            while bitCount >= digitBitCount {
                bitCount -= digitBitCount
                text.append(digits[Int(pending >> bitCount) & (digits.count - 1)])
            }
        }
        if bitCount > 0 { text.append(digits[Int(pending << (digitBitCount - bitCount)) & (digits.count - 1)]) }
        return String(decoding: text, as: UTF8.self)
    }
}
