import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshPingTests {
    @Test func `a ping has the bytes of its format, and a truncated one is rejected`() throws {
        let ping = MeshPing(nonce: MeshSamples.fragmentID.bytes, originTTL: 7)
        #expect(ping.encoded == wire("0102030405060708 07"))
        #expect(try MeshPing(decoding: ping.encoded[...]) == ping)
        for length in 0..<9 {
            #expect(throws: MalformedInput.self) { try MeshPing(decoding: ping.encoded[..<length]) }
        }
    }
}
