import NearshareBase
import Testing

@Suite("bytes as text (RFC 4648)") struct BaseEncodingTests {
    @Test func `the examples of section 10, without padding`() {
        let examples = [
            ("", "", ""), ("f", "Zg", "MY"), ("fo", "Zm8", "MZXQ"), ("foo", "Zm9v", "MZXW6"), ("foob", "Zm9vYg", "MZXW6YQ"),
            ("fooba", "Zm9vYmE", "MZXW6YTB"), ("foobar", "Zm9vYmFy", "MZXW6YTBOI"),
        ]
        for (text, base64, base32) in examples {
            #expect(BaseEncoding.base64.encode(text.utf8) == base64)
            #expect(BaseEncoding.base64URL.encode(text.utf8) == base64)
            #expect(BaseEncoding.base32.encode(text.utf8) == base32)
        }
    }

    @Test func `only the form for addresses and file names has neither a plus sign nor a slash`() {
        #expect(BaseEncoding.base64.encode([0xfb, 0xff]) == "+/8")
        #expect(BaseEncoding.base64URL.encode([0xfb, 0xff]) == "-_8")
    }

    @Test func `bits of earlier bytes do not reach later digits`() {
        let ones = [UInt8](repeating: 0xff, count: 300)
        #expect(BaseEncoding.base64.encode(ones) == String(repeating: "/", count: 400))
        #expect(BaseEncoding.base32.encode(ones) == String(repeating: "7", count: 480))
        #expect(BaseEncoding.base64.encode(ones + [0, 0, 0]).hasSuffix("/AAAA"))
    }
}
