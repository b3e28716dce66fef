import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareCrypto

/// The vectors are those of draft-irtf-cfrg-cpace-21, appendix B.3.
@Suite struct CPaceTests {
    private static let password = Array("Password".utf8)
    private static let channel = hex("0b415f696e69746961746f720b425f726573706f6e646572")
    private static let session = hex("7e4b4791d6a8ef019b936c79fb7f2c57")

    private static func hex(_ text: String) -> [UInt8] { Hex.decode(text) ?? [] }

    /// A scalar below the group's order is its own remainder.
    private static func exchange(scalar: String, password: [UInt8] = password, session: [UInt8] = session) throws -> CPace {
        try CPace(
            password: password, channel: channel, session: session,
            seed: hex(scalar) + [UInt8](repeating: 0, count: 32))
    }

    private static let initiator = "da3d23700a9e5699258aef94dc060dfda5ebb61f02a5ea77fad53f4ff0976d08"
    private static let responder = "d2316b454718c35362d83d69df6320f38578ed5984651435e2949762d900b80d"

    @Test func `generator, shares and key are those of the vectors`() throws {
        #expect(
            CPace.generator(password: Self.password, channel: Self.channel, session: Self.session)
                == Self.hex("222b6b195fe84b1652badb6f6a3ae3d24341e7306967f0b8115b40d5698c7e56"))
        let (first, second) = (try Self.exchange(scalar: Self.initiator), try Self.exchange(scalar: Self.responder))
        #expect(first.share == Self.hex("d6bac480f2c386c394efc7c47adb9925dcd2630b64f240c50f8d0eec482b9157"))
        #expect(second.share == Self.hex("3ea7e0b19560d7c0b0f5734f63b955286dfa8232b5ebe63324e2d9e7433f7258"))
        let key = Self.hex(
            """
            b69effbf61b51d56401c0f65601abe428de8206feaaf0e32198896dcae7b35cd2b38950a39dfd5d4a79164614c2984f7daa460b588c1e80c\
            3fa2068af7900447
            """)
        let data = (Array("ADa".utf8), Array("ADb".utf8))
        for (party, other, role) in [(first, second.share, HandshakeRole.initiator), (second, first.share, .responder)] {
            let made = try party.key(with: other, as: role, initiatorData: data.0, responderData: data.1)
            #expect(made.withUnsafeBytes { Array($0) } == key)
        }
    }

    @Test func `lengths are encoded in groups of seven bits`() {
        #expect(
            CPace.joined([Array("1234".utf8), [0x35], [], Array("6789".utf8)]) == Self.hex("04313233340135000436373839"))
        #expect(CPace.joined([[UInt8](repeating: 7, count: 127)]).prefix(2) == [0x7f, 7])
        #expect(CPace.joined([[UInt8](repeating: 7, count: 128)]).prefix(3) == [0x80, 0x01, 7])
    }

    @Test("S19: invalid shares are rejected, and other passwords or sessions give other keys") func rejects() throws {
        let (first, second) = (try Self.exchange(scalar: Self.initiator), try Self.exchange(scalar: Self.responder))
        let invalid = [
            "2b3c6b8c4f3800e7aef6864025b4ed79bd599117e427c41bd47d93d654b4a51c", String(repeating: "0", count: 64), "00",
            String(repeating: "f", count: 64),
        ]
        for share in invalid {
            #expect(throws: CryptoError.self) { try first.key(with: Self.hex(share), as: .initiator) }
        }
        let key = try first.key(with: second.share, as: .initiator).withUnsafeBytes { Array($0) }
        let others = [
            try Self.exchange(scalar: Self.responder, password: Array("password".utf8)),
            try Self.exchange(scalar: Self.responder, session: [1]),
        ]
        for other in others {
            #expect(try first.key(with: other.share, as: .initiator).withUnsafeBytes { Array($0) } != key)
            #expect(try other.key(with: first.share, as: .responder).withUnsafeBytes { Array($0) } != key)
        }
        #expect(throws: CryptoError.self) {
            try CPace(password: [], channel: [], session: [], seed: [UInt8](repeating: 1, count: 63))
        }
    }
}
