import Testing

@testable import NearshareEngine

@Suite("the size of one write")
struct BlockSizeTests {
    @Test("blocks become small on a slow link, and large again on a fast one") func adapts() {
        var size = BlockSize()
        let most = size.contentByteCount
        for _ in 0..<20 { size.adapt(toTime: .seconds(1)) }
        let least = size.contentByteCount
        #expect(least == 16 << 10)
        size.adapt(toTime: .milliseconds(100))
        #expect(size.contentByteCount == least)
        for _ in 0..<20 { size.adapt(toTime: .milliseconds(1)) }
        #expect(size.contentByteCount == most && most <= BlockSize.maximumByteCount)
    }
}
