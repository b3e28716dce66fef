/// Base32 (RFC 4648, section 6) without padding: the letters and digits that a QR code holds in 5.5 bits each.
enum Base32 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)

    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        var pending: UInt32 = 0
        var bitCount = 0
        for byte in bytes {
            pending = pending << 8 | UInt32(byte)
            bitCount += 8
            while bitCount >= 5 {
                bitCount -= 5
                text.append(alphabet[Int(pending >> bitCount & 31)])
            }
            pending &= 31
        }
        if bitCount > 0 { text.append(alphabet[Int(pending << (5 - bitCount) & 31)]) }
        return String(decoding: text, as: UTF8.self)
    }
}
