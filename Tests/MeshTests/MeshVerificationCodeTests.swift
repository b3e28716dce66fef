import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshVerificationCodeTests {
    private static let address = MeshSamples.code.address(signature: MeshSamples.signature)

    @Test func `a verification code is decoded as it was encoded`() throws {
        let read = try MeshVerificationCode.decode(address: Self.address)
        #expect(read.code == MeshSamples.code && read.signature == MeshSamples.signature)
    }

    @Test func `the longest name fits into a verification code`() throws {
        var code = MeshSamples.code
        code.nickname = String(repeating: "ß", count: 127)
        #expect(try MeshVerificationCode.decode(address: code.address(signature: MeshSamples.signature)).code == code)
    }

    @Test(
        "R7, D4: parts that no encoder writes are rejected",
        arguments: [
            ("v=1", "v=2"), ("v=1&", ""), ("noise=00", "noise=0"), ("sign=00", "sign=zz"), ("ts=1700000000", "ts=1e9"),
            ("nonce=AAEC", "nonce=AAE%26"), ("nonce=AAEC", "nonce="), ("sig=5a", "sig="), ("nick=Ada", "nick=%f"),
            ("nick=", "nick=%ff"),
            ("bitchat:", "https:"), ("nick=", "nick=" + String(repeating: "x", count: 255)),
            ("npub=", "npub=" + String(repeating: "x", count: 4096)),
        ]) func refused(_ part: String, _ other: String)
    {
        let address = Self.address.replacing(part, with: other, maxReplacements: 1)
        #expect(address != Self.address)
        #expect(throws: MalformedInput.self) { try MeshVerificationCode.decode(address: address) }
    }

    @Test("M1: changed addresses are rejected or understood", arguments: 0..<1000 as Range<UInt64>)
    func mutation(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let address = String(decoding: Array(Self.address.utf8).mutated(using: &random), as: UTF8.self)
        guard let read = try? MeshVerificationCode.decode(address: address) else { return }
        let again = try MeshVerificationCode.decode(address: read.code.address(signature: read.signature))
        #expect(again.code == read.code && again.signature == read.signature, "seed \(seed)")
    }
}
