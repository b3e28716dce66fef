import NearshareBase
import NearshareHTTP
import NearshareLocalSend
import Testing

@Suite("the receiver of LocalSend") struct LocalSendMachineTests {
    private typealias Client = LocalSendMachine.Client

    private let sender = Client(host: "192.168.1.5", fingerprint: [1])

    private func machine(pin: String? = nil) throws -> LocalSendMachine {
        LocalSendMachine(device: LocalSendDevice(name: try DisplayName("anna"), fingerprint: [2], port: 1), pin: pin)
    }

    private func offer() throws -> LocalSendOffer {
        let text =
            #"{"info":{"alias":"x","fingerprint":"a"},"files":{"a":{"fileName":"a","size":1},"b":{"fileName":"b","size":1}}}"#
        return try LocalSendOffer(decoding: Array(text.utf8))
    }

    /// Bytes that differ with each call.
    private final class Random {
        var last: UInt8 = 0

        func next(_ count: Int) -> [UInt8] {
            last += 1
            return [UInt8](repeating: last, count: count)
        }
    }

    /// The session, and the tokens of both files.
    private func accepted(
        _ machine: inout LocalSendMachine, _ random: Random = Random()
    ) throws -> (LocalSendMachine.SessionID, [String: String]) {
        let id = try machine.begin(try offer(), from: sender, random: random.next(16))
        let answer = machine.accept(id, random: random.next)
        let response = try #require(answer)
        let text = String(decoding: response.body, as: UTF8.self)
        let tokens = try ["a", "b"].map { name in
            let found = try #require(text.firstRange(of: "\"\(name)\":\""))
            return (name, String(text[found.upperBound...].prefix(36)))
        }
        #expect(text.hasPrefix("{\"sessionId\":\"\(id.text)\""))
        return (id, Dictionary(uniqueKeysWithValues: tokens))
    }

    private func request(_ line: String) throws -> LocalSendRoute {
        var reader = HTTPRequestReader()
        Array("\(line) HTTP/1.1\r\nHost: x\r\n\r\n".utf8).withUnsafeBytes { reader.append($0) }
        let head = try reader.nextHead()
        return try LocalSendRoute(#require(head))
    }

    @Test func `requests are told apart`() throws {
        #expect(try request("GET /api/localsend/v1/info?fingerprint=x") == .info)
        #expect(try request("POST /api/localsend/v2/register") == .register)
        #expect(try request("POST /api/localsend/v2/prepare-upload?pin=12%2B3") == .prepareUpload(pin: "12+3"))
        #expect(
            try request("POST /api/localsend/v2/upload?sessionId=s&fileId=a+b&token=%C3%A9")
                == .upload(session: "s", file: "a b", token: "é"))
        #expect(try request("POST /api/localsend/v2/cancel") == .cancel(session: nil))
    }

    @Test(
        "F10: other requests have a status of their own",
        arguments: [
            ("GET /", .notFound), ("GET /api/localsend/v2/register", .methodNotAllowed),
            ("POST /api/localsend/v3/x", .notFound),
            ("POST /api/localsend/v2/upload?sessionId=s&fileId=a", .badRequest),
            ("POST /api/localsend/v2/cancel?sessionId=%zz", .badRequest),
            ("POST /api/localsend/v2/cancel?a=1&a=2", .badRequest),
            ("POST /api/localsend/v2/cancel?sessionId=%ff", .badRequest), ("POST /api/localsend/v2/cancel?x", .badRequest),
        ] as [(String, HTTPStatus)])
    func rejected(line: String, status: HTTPStatus) {
        #expect(throws: status) { try request(line) }
    }

    @Test func `files are received in any order, once each`() throws {
        var machine = try machine()
        let (id, tokens) = try accepted(&machine)
        let second = try machine.beginUpload(session: id.text, file: "b", token: tokens["b"] ?? "", from: sender)
        #expect(second.number == 1 && !machine.endUpload(id, number: 1))
        let first = try machine.beginUpload(session: id.text, file: "a", token: tokens["a"] ?? "", from: sender)
        #expect(first.number == 0 && machine.endUpload(id, number: 0))
        #expect(throws: HTTPStatus.forbidden) {
            try machine.beginUpload(session: id.text, file: "a", token: tokens["a"] ?? "", from: sender)
        }
    }

    @Test("F3: files come from the sender, with their tokens, after the answer")
    func strangers() throws {
        var machine = try machine()
        let (id, tokens) = try accepted(&machine)
        let token = tokens["a"] ?? ""
        for client in [
            Client(host: "192.168.1.6", fingerprint: [1]), Client(host: sender.host, fingerprint: nil),
            Client(host: sender.host, fingerprint: [3]),
        ] {
            #expect(throws: HTTPStatus.forbidden) {
                try machine.beginUpload(session: id.text, file: "a", token: token, from: client)
            }
            #expect(throws: HTTPStatus.forbidden) { try machine.cancelled(id.text, by: client) }
            #expect(try machine.cancelled(nil, by: client) == nil)
        }
        for (file, given) in [("a", tokens["b"] ?? ""), ("c", token), ("a", "")] {
            #expect(throws: HTTPStatus.forbidden) {
                try machine.beginUpload(session: id.text, file: file, token: given, from: sender)
            }
        }
        machine.end(id)
        #expect(throws: HTTPStatus.forbidden) {
            try machine.beginUpload(session: id.text, file: "a", token: token, from: sender)
        }
        let random = Random()
        let waiting = try machine.begin(try offer(), from: sender, random: random.next(16))
        #expect(throws: HTTPStatus.forbidden) {
            try machine.beginUpload(session: waiting.text, file: "a", token: "", from: sender)
        }
        #expect(try machine.cancelled(nil, by: sender) == waiting)
    }

    @Test("F5: a wrong checksum may come twice; the third one ends its file alone")
    func checksums() throws {
        var machine = try machine()
        let (id, tokens) = try accepted(&machine)
        _ = try machine.beginUpload(session: id.text, file: "b", token: tokens["b"] ?? "", from: sender)
        let isOver = machine.endUpload(id, number: 1)
        #expect(!isOver)
        for isLast in [false, false, true] {
            let (_, number) = try machine.beginUpload(session: id.text, file: "a", token: tokens["a"] ?? "", from: sender)
            let isOver = machine.failUpload(id, number: number, .mismatch)
            #expect(isOver == isLast)
        }
        #expect(throws: HTTPStatus.forbidden) {
            try machine.beginUpload(session: id.text, file: "a", token: tokens["a"] ?? "", from: sender)
        }
        #expect(machine.accepted(id) == (all: [0, 1], missing: [0]))
    }

    @Test("F4: a broken upload ends its file, which may be repeated while others are awaited")
    func broken() throws {
        var machine = try machine()
        let (id, tokens) = try accepted(&machine)
        func begin(_ file: String) throws {
            _ = try machine.beginUpload(session: id.text, file: file, token: tokens[file] ?? "", from: sender)
        }
        try begin("a")
        let first = machine.failUpload(id, number: 0, .broken)
        try begin("a")
        let second = machine.endUpload(id, number: 0)
        try begin("b")
        let third = machine.failUpload(id, number: 1, .broken)
        #expect([first, second, third] == [false, false, true])
        #expect(machine.accepted(id) == (all: [0, 1], missing: [1]))
        // An upload that has ended does not fail.
        let again = machine.failUpload(id, number: 0, .broken)
        #expect(!again)
    }

    @Test func `a part of the files gets tokens, and is awaited alone`() throws {
        var machine = try machine()
        let random = Random()
        let id = try machine.begin(try offer(), from: sender, random: random.next(16))
        let none = machine.accept(id, where: { _ in false }, random: random.next)
        #expect(none == nil)
        let answer = machine.accept(id, where: { $0 == 1 }, random: random.next)
        let text = String(decoding: try #require(answer).body, as: UTF8.self)
        #expect(!text.contains("\"a\":") && text.contains("\"b\":"))
        let found = try #require(text.firstRange(of: "\"b\":\""))
        let token = String(text[found.upperBound...].prefix(36))
        for (file, token) in [("a", token), ("a", "")] {
            #expect(throws: HTTPStatus.forbidden) {
                try machine.beginUpload(session: id.text, file: file, token: token, from: sender)
            }
        }
        _ = try machine.beginUpload(session: id.text, file: "b", token: token, from: sender)
        let isOver = machine.endUpload(id, number: 1)
        #expect(isOver && machine.accepted(id) == (all: [1], missing: []))
    }

    @Test("F2: three wrong PINs of an address are the last")
    func pins() throws {
        var machine = try machine(pin: "123")
        for _ in 0..<3 { #expect(throws: HTTPStatus.unauthorized) { try machine.check(pin: nil, from: "a") } }
        for _ in 0..<2 { #expect(throws: HTTPStatus.unauthorized) { try machine.check(pin: "1", from: "a") } }
        try machine.check(pin: "123", from: "a")
        for _ in 0..<3 { #expect(throws: HTTPStatus.unauthorized) { try machine.check(pin: "", from: "a") } }
        #expect(throws: HTTPStatus.tooManyRequests) { try machine.check(pin: "123", from: "a") }
        #expect(machine.rejectedSourceCount(with: "a") == 1 && machine.rejectedSourceCount(with: "b") == nil)
        // No more addresses are counted than there is room for.
        for number in 0..<255 { #expect(throws: HTTPStatus.unauthorized) { try machine.check(pin: "1", from: "\(number)") } }
        // A source that was never wrong learns nothing either.
        for pin in ["1", "123", nil] {
            #expect(throws: HTTPStatus.tooManyRequests) { try machine.check(pin: pin, from: "new") }
        }
        try machine.check(pin: "123", from: "7")
    }

    @Test("F14: sessions are few, in all, of one address and of one certificate")
    func sessions() throws {
        var machine = try machine()
        let random = Random()
        for number in 0..<5 {
            let begin = { try machine.begin(try offer(), from: sender, random: random.next(16)) }
            if number == 4 {
                #expect(throws: HTTPStatus.conflict) { try begin() }
            } else {
                let id = try begin()
                // A sender waits for one answer at a time.
                #expect(throws: HTTPStatus.conflict) { try begin() }
                let answers = [machine.accept(id, random: random.next), machine.accept(id, random: random.next)]
                #expect(answers.map { $0 == nil } == [false, true])
            }
        }
        let moved = Client(host: "elsewhere", fingerprint: sender.fingerprint)
        #expect(throws: HTTPStatus.conflict) { try machine.begin(try offer(), from: moved, random: random.next(16)) }
        for number in 4..<25 {
            let other = Client(host: "\(number)", fingerprint: nil)
            if number == 24 {
                #expect(throws: HTTPStatus.conflict) { try machine.begin(try offer(), from: other, random: random.next(16)) }
            } else {
                _ = try machine.begin(try offer(), from: other, random: random.next(16))
            }
        }
        // The rest is for devices that the user has accepted something from.
        for number in 24..<33 {
            let other = Client(host: "\(number)", fingerprint: nil)
            let begin = { try machine.begin(try offer(), from: other, isKnown: true, random: random.next(16)) }
            if number == 32 { #expect(throws: HTTPStatus.conflict) { try begin() } } else { _ = try begin() }
        }
    }

    @Test("F2: wrong PINs of one address leave the other hosts of its IPv6 network their attempts")
    func wrongPINsOfANetwork() throws {
        var machine = try machine(pin: "123")
        for host in 1...5 {
            for attempt in 1...3 {
                let isLimited = host == 5
                #expect(throws: isLimited ? HTTPStatus.tooManyRequests : .unauthorized, "\(host) \(attempt)") {
                    try machine.check(pin: "1", from: "2001:db8::\(host)", in: "2001:db8:0:0")
                }
            }
            if host == 1 { try machine.check(pin: "123", from: "2001:db8::9", in: "2001:db8:0:0") }
        }
    }
}
