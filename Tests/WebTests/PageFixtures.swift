import NearshareBase
import NearshareCrypto
import NearshareHTTP
import NearshareWeb
import Testing

/// A page with a fixed secret, and the requests that reach it.
struct TestPage {
    static let secret = try! PageSecret(random: (0..<UInt8(PageSecret.byteCount)).map { $0 })
    /// The key in the fragment of the address.
    static let key = Array(SHA256Hasher.digest(Array("nearshare page key".utf8) + nodeKey.bytes).prefix(16))
    static let nodeKey = try! AgreementPrivateKey(seed: [UInt8](5..<37)).publicKey
    static let authority = "192.168.1.5:29743"

    var machine = PageMachine(secret: secret, name: try! DisplayName("anna"))
    /// The number of chunks of each item that is fetched.
    var chunkCount: UInt32 = 1
    /// The last unencrypted download that was begun.
    var lastUnencrypted: UnencryptedPageDownload?
    var now = MonotonicInstant(nanoseconds: 0)

    /// A page that gives a small and a large file.
    static func sharing() -> TestPage {
        let sizes = [("small.txt", UInt64(1)), ("large é\r\n.bin", PageShare.maximumInMemoryByteCount + 1)]
        let items = sizes.map { name, size in
            OfferedItem(kind: .file, name: ClaimedFileName(name)!, size: size, entryCount: 1, mediaType: .unknown)
        }
        var page = TestPage()
        let share = PageShare(items.map { PageShare.Item($0) })
        page.machine = PageMachine(secret: TestPage.secret, name: try! DisplayName("anna"), share: share)
        return page
    }

    /// Sends a request through the reader, as it would arrive on a connection.
    mutating func send(
        _ path: String, _ body: [UInt8]? = nil, host: String = authority, fields: String = "",
        from address: String = "192.168.1.20"
    ) -> (status: HTTPStatus, body: [UInt8], reaction: PageMachine.Reaction?) {
        let length = body.map { "Content-Length: \($0.count)\r\n" } ?? ""
        let head = "\(body == nil ? "GET" : "POST") \(path) HTTP/1.1\r\nHost: \(host)\r\n\(length)\(fields)\r\n"
        var reader = HTTPRequestReader()
        (Array(head.utf8) + (body ?? [])).withUnsafeBytes { reader.append($0) }
        var reaction: PageMachine.Reaction?
        do throws(HTTPStatus) {
            while true {
                let part = try reader.nextPart { (head) throws(HTTPStatus) in try machine.admit(head, at: Self.authority) }!
                let (answer, next) = machine.respond(
                    to: part.request, body: part.bytes, part: part.number, from: address, now: now)
                if case .content(let id, let content, let isComplete)? = next, case .content(_, let earlier, _)? = reaction {
                    reaction = .content(id, earlier + content, isComplete: isComplete)
                } else if next != nil {
                    reaction = next
                }
                switch answer {
                case .response(let response) where part.isLast || response.status != .ok:
                    return (response.status, response.body, reaction)
                case .response: continue
                case .fetch(let fetch):
                    let isLast = fetch.index + 1 == chunkCount
                    machine.recordFetch(fetch, isLast: isLast)
                    return (.ok, fetch.response([7], isLast: isLast).body, reaction)
                case .unencryptedDownload(let unencrypted):
                    lastUnencrypted = unencrypted
                    return (unencrypted.head.status, [], reaction)
                case .change(let id, let version):
                    let response = machine.change(of: id, knownVersion: version, hasTimedOut: true)!
                    return (response.status, response.body, reaction)
                }
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
        var phase: Phase
        var name: String
    }

    /// The kinds of sealed records, which begin their nonces.
    enum Record: UInt32 {
        case hello = 1
        case message, chunk, state, fetch, content, nodeKey
    }

    enum Phase: UInt8 {
        case idle, waiting, receiving, storing, stored, declined, cancelled, failed, expired, sending, notAsked
    }

    /// The messages without content.
    static let cancel: [UInt8] = [2]
    static let request: [UInt8] = [3]

    /// The message that an item of a page has been received.
    static func received(_ item: UInt32) -> [UInt8] { [4] + item.bigEndianBytes }

    let agreementKey: AgreementPrivateKey
    let key: [UInt8]
    /// Empty before ``begin(_:from:)``, like the code and the keys.
    private(set) var id = ""
    private(set) var code = ""
    private var browserKey = SecretBytes([UInt8](repeating: 0, count: 32))
    private var serverKey = SecretBytes([UInt8](repeating: 0, count: 32))
    var lastMessage: UInt32 = 0
    static var path: String { "/" + TestPage.secret.path }

    init(_ seed: UInt8, key: [UInt8] = TestPage.key) {
        agreementKey = try! AgreementPrivateKey(seed: [UInt8](repeating: seed, count: 32))
        self.key = key
    }

    private var helloKey: SecretBytes {
        let salt = agreementKey.publicKey.bytes
        return SecretBytes(HKDF.derive(from: key, salt: salt, info: Array("nearshare page 2 hello".utf8), byteCount: 32))
    }

    /// The body of the first request.
    var hello: [UInt8] {
        let proof = ChaCha20Poly1305.seal([], key: helloKey, nonce: Self.nonce(.hello, 0, 0), authenticating: [])
        return agreementKey.publicKey.bytes + proof
    }

    /// Derives the keys from the response to a hello.
    /// - Parameter point: the public key in that hello.
    mutating func derive(from reply: [UInt8], _ point: AgreementPublicKey? = nil) throws {
        let nodeKey = try AgreementPublicKey(
            ChaCha20Poly1305.open(reply[16..<64], key: helloKey, nonce: Self.nonce(.nodeKey, 0, 0), authenticating: []))
        #expect(nodeKey == TestPage.nodeKey)
        let shared = try agreementKey.sharedSecret(with: nodeKey).withUnsafeBytes { Array($0) }
        let info = Array("nearshare page 2".utf8) + (point ?? agreementKey.publicKey).bytes + nodeKey.bytes + reply[..<16]
        let bytes = HKDF.derive(from: shared, salt: key, info: info, byteCount: 80)
        (browserKey, serverKey) = (SecretBytes(bytes[..<32]), SecretBytes(bytes[32..<64]))
        id = Hex.encode(Array(bytes[64..<72]))
        code = ShortAuthenticationDigits(number: bytes[72...].reduce(0) { $0 << 8 | UInt64($1) }).description
    }

    /// Begins a session, or goes on with it.
    /// - Returns: the status, and the sealed state.
    mutating func begin(
        _ page: inout TestPage, from address: String = "192.168.1.20"
    ) throws -> (status: HTTPStatus, state: [UInt8]) {
        let reply = page.send("\(Self.path)/hello", hello, from: address)
        guard reply.status == .ok else { return (reply.status, []) }
        try derive(from: reply.body)
        return (.ok, Array(reply.body.dropFirst(64)))
    }

    static func nonce(_ kind: Record, _ first: UInt32, _ second: UInt32) -> [UInt8] {
        kind.rawValue.bigEndianBytes + first.bigEndianBytes + second.bigEndianBytes
    }

    func seal(_ bytes: [UInt8], _ kind: Record, _ first: UInt32, _ second: UInt32) -> [UInt8] {
        ChaCha20Poly1305.seal(bytes, key: browserKey, nonce: Self.nonce(kind, first, second), authenticating: [])
    }

    func state(_ record: [UInt8]) throws -> State {
        let nonce = Record.state.rawValue.bigEndianBytes + record.prefix(8)
        let bytes = try ChaCha20Poly1305.open(record.dropFirst(8), key: serverKey, nonce: nonce, authenticating: [])
        var reader = ByteReader(bytes, of: "state")
        let version: UInt32 = try reader.readInteger()
        guard let phase = Phase(rawValue: try reader.readInteger()) else { throw MalformedInput("state: an unknown phase") }
        let (offer, next, last): (UInt32, UInt32, UInt32) = (
            try reader.readInteger(), try reader.readInteger(), try reader.readInteger()
        )
        _ = try reader.readInteger() as UInt8
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
        return page.send("\(Self.path)/\(id)/m", lastMessage.bigEndianBytes + seal(message, .message, 0, lastMessage))
    }

    /// Asks a page for what it gives, and is accepted.
    mutating func ask(_ page: inout TestPage, from address: String = "192.168.1.20") throws -> PageMachine.OfferID {
        _ = try begin(&page, from: address)
        guard case .requested(let id, let code) = send(Self.request, to: &page).reaction, code.description == self.code,
            page.machine.accept(id) != .over
        else { throw MalformedInput("no request") }
        return id
    }

    /// The status, and the content of a chunk or the list.
    func fetch(
        _ item: UInt32, _ index: UInt32, of page: inout TestPage, from address: String = "192.168.1.20"
    ) throws -> (status: HTTPStatus, content: [UInt8]) {
        let path = "\(Self.path)/\(id)/d/\(item)/\(index)"
        let reply = page.send(path, seal([], .fetch, item, index), from: address)
        guard reply.status == .ok else { return (reply.status, []) }
        let nonce = Record.content.rawValue.bigEndianBytes + reply.body.prefix(8)
        let bytes = try ChaCha20Poly1305.open(reply.body.dropFirst(8), key: serverKey, nonce: nonce, authenticating: [])
        #expect(bytes.prefix(8).elementsEqual(item.bigEndianBytes + index.bigEndianBytes))
        return (.ok, Array(bytes.dropFirst(9)))
    }

    /// The path of the large file's unencrypted download, which the list ends with.
    func unencryptedPath(in page: inout TestPage, from address: String = "192.168.1.20") throws -> String {
        "\(Self.path)/f/" + String(decoding: try fetch(0, 0, of: &page, from: address).content.suffix(26), as: UTF8.self)
    }

    func sendChunk(
        _ bytes: [UInt8], of offer: UInt32, at index: UInt32, to page: inout TestPage
    ) -> (status: HTTPStatus, body: [UInt8], reaction: PageMachine.Reaction?) {
        page.send("\(Self.path)/\(id)/u/\(offer)/\(index)", seal(bytes, .chunk, offer, index))
    }

    /// Sends several chunks in one request.
    func sendChunks(
        _ chunks: [[UInt8]], of offer: UInt32, from first: UInt32, to page: inout TestPage
    ) -> (status: HTTPStatus, body: [UInt8], reaction: PageMachine.Reaction?) {
        let body = zip(first..., chunks).flatMap { seal($1, .chunk, offer, $0) }
        return page.send("\(Self.path)/\(id)/u/\(offer)/\(first)", body)
    }
}
