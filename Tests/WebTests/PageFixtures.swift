import NearshareBase
import NearshareCrypto
import NearshareWeb

/// A page with a fixed secret, and the requests that reach it.
struct TestPage {
    static let secret = PageSecret(random: (0..<UInt8(PageSecret.byteCount)).map { $0 })
    /// The key in the fragment of the address.
    static let key = [UInt8](5..<21)
    static let authority = "192.168.1.5:29743"

    var machine = PageMachine(secret: secret, name: try! DisplayName("anna"))
    var now = MonotonicInstant(nanoseconds: 0)

    /// Sends a request through the reader, as it would arrive on a connection.
    mutating func send(
        _ path: String, _ body: [UInt8]? = nil, host: String = authority, fields: String = "",
        from address: String = "192.168.1.20"
    ) -> (status: HTTPStatus, body: [UInt8], reaction: PageMachine.Reaction?) {
        let length = body.map { "Content-Length: \($0.count)\r\n" } ?? ""
        let head = "\(body == nil ? "GET" : "POST") \(path) HTTP/1.1\r\nHost: \(host)\r\n\(length)\(fields)\r\n"
        var reader = HTTPRequestReader()
        (Array(head.utf8) + (body ?? [])).withUnsafeBytes { reader.append($0) }
        do throws(HTTPStatus) {
            let now = now
            let request = try reader.next { (head) throws(HTTPStatus) in
                try machine.admit(head, from: address, at: Self.authority, now: now)
            }
            let (answer, reaction) = machine.respond(to: request!.request, body: request!.body, from: address, now: now)
            switch answer {
            case .response(let response): return (response.status, response.body, reaction)
            case .change(let id, let version):
                let response = machine.change(of: id, knownVersion: version, isTimeOver: true)!
                return (response.status, response.body, reaction)
            }
        } catch {
            return (error, [], nil)
        }
    }
}

/// A browser that follows `docs/PROTOCOL.md`, section 15, with keys that it derives itself.
struct TestBrowser {
    struct State {
        var version, offer, next, lastMessage: UInt32
        var phase: UInt8
        var name: String
    }

    let nonce: [UInt8]
    let id: String
    let code: String
    private let browserKey, serverKey: SecretBytes
    var lastMessage: UInt32 = 0
    static var path: String { "/" + TestPage.secret.path }

    init(_ seed: UInt8, key: [UInt8] = TestPage.key) {
        nonce = [UInt8](repeating: seed, count: 16)
        let bytes = HKDF.derive(from: key, salt: nonce, info: Array("nearshare page 1".utf8), byteCount: 80)
        (browserKey, serverKey) = (SecretBytes(bytes[..<32]), SecretBytes(bytes[32..<64]))
        id = Hex.encode(Array(bytes[64..<72]))
        code = ShortAuthenticationDigits(number: bytes[72...].reduce(0) { $0 << 8 | UInt64($1) }).description
    }

    static func nonce(_ kind: UInt32, _ first: UInt32, _ second: UInt32) -> [UInt8] {
        kind.bigEndianBytes + first.bigEndianBytes + second.bigEndianBytes
    }

    func seal(_ bytes: [UInt8], _ kind: UInt32, _ first: UInt32, _ second: UInt32) -> [UInt8] {
        ChaCha20Poly1305.seal(bytes, key: browserKey, nonce: Self.nonce(kind, first, second), authenticating: [])
    }

    var hello: [UInt8] { nonce + seal([], 1, 0, 0) }

    func state(_ record: [UInt8]) throws -> State {
        let nonce = [0, 0, 0, 4] + record.prefix(8)
        let bytes = try ChaCha20Poly1305.open(record.dropFirst(8), key: serverKey, nonce: nonce, authenticating: [])
        var reader = ByteReader(bytes, of: "state")
        let version: UInt32 = try reader.readInteger()
        let phase: UInt8 = try reader.readInteger()
        let (offer, next, last): (UInt32, UInt32, UInt32) = (
            try reader.readInteger(), try reader.readInteger(), try reader.readInteger()
        )
        let name = try reader.readCounted(by: UInt8.self, upTo: 63, field: "name")
        return State(
            version: version, offer: offer, next: next, lastMessage: last, phase: phase,
            name: String(decoding: name, as: UTF8.self))
    }

    static func offer(_ files: [(name: String, size: UInt64)]) -> [UInt8] {
        var message = ByteWriter()
        message.write(UInt8(1))
        message.write(UInt16(files.count))
        for file in files {
            message.write(UInt8(0))
            message.writeCounted(file.name.utf8, by: UInt8.self)
            message.write(UInt8(0))
            message.write(file.size)
            message.write(UInt64(0))
        }
        return message.bytes
    }

    /// Sends a message under the next number.
    mutating func send(_ message: [UInt8], to page: inout TestPage) -> (
        status: HTTPStatus, body: [UInt8], reaction: PageMachine.Reaction?
    ) {
        lastMessage += 1
        return page.send("\(Self.path)/\(id)/m", lastMessage.bigEndianBytes + seal(message, 2, 0, lastMessage))
    }

    func sendChunk(
        _ bytes: [UInt8], of offer: UInt32, at index: UInt32, to page: inout TestPage
    ) -> (status: HTTPStatus, body: [UInt8], reaction: PageMachine.Reaction?) {
        page.send("\(Self.path)/\(id)/u/\(offer)/\(index)", seal(bytes, 3, offer, index))
    }
}
