import Testing

@testable import NearshareService

@Suite struct CertificateTextTests {
    @Test("a fingerprint has lines of eight groups of four hexadecimal digits, also where the last one is short") func lines() {
        let line = "0001 0203 0405 0607 0809 0A0B 0C0D 0E0F"
        let cases: [(UInt8, [String])] = [
            (0, []), (1, ["00"]), (8, ["0001 0203 0405 0607"]), (16, [line]), (18, [line, "1011"]),
        ]
        for (byteCount, expected) in cases {
            #expect(CertificateText.lines(Array(0..<byteCount)) == expected)
        }
        #expect(CertificateText.short(Array(0..<32)) == "0001 0203 0405 0607")
    }
}
