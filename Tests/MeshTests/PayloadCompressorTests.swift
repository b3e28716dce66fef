import NearshareTesting
import Testing

@testable import NearshareMesh

@Suite struct PayloadCompressorTests {
    @Test("a reused compressor keeps nothing of the previous payload, also after one that grew")
    func reuse() {
        var random = SeededRandom(seed: 5)
        let texts = (0..<40).map { index in
            let letters = UInt8(2 + index % 30)
            return (0..<500 + 100 * index).map { _ in UInt8.random(in: 0..<letters, using: &random) }
        }
        let noise = random.bytes(1000)
        var shared = PayloadCompressor()
        for text in texts {
            var fresh = PayloadCompressor()
            let expected = fresh.compress(text[...], level: 5)
            #expect(expected != nil)
            #expect(shared.compress(noise[...], level: 5) == nil)
            #expect(shared.compress(text[...], level: 5) == expected)
            #expect(shared.compress(text[...], level: 6) != nil)
        }
    }

    @Test func `copies of a compressor are used by several tasks at once`() async {
        let text = (0..<5000).map { UInt8($0 % 7) }
        var original = PayloadCompressor()
        let expected = original.compress(text[...], level: 5)
        let copy = original
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    var own = copy
                    return (0..<20).allSatisfy { _ in own.compress(text[...], level: 5) == expected }
                }
            }
            for await isEqual in group { #expect(isEqual) }
        }
    }
}
