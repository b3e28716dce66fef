import NearshareBase
import NearshareCrypto
import NearshareHTTP
import NearshareWeb
import Testing

@Suite("the page and its sessions") struct PageMachineTests {
    private static let chunkByteCount = 1 << 18

    /// A page with a browser whose offer was accepted.
    private func accepted(_ size: Int) throws -> (TestPage, TestBrowser, PageMachine.OfferID) {
        var page = TestPage()
        var browser = TestBrowser(1)
        #expect(try browser.begin(&page).status == .ok)
        let reply = browser.send(TestBrowser.offer([("a.txt", UInt64(size))]), to: &page)
        guard case .offered(let id, let offer, let code) = reply.reaction else { throw MalformedInput("no offer") }
        #expect(code.description == browser.code)
        #expect(offer.offer.totalSize == UInt64(size))
        let acceptance = page.machine.accept(id)
        #expect(acceptance == (size == 0 ? PageMachine.Acceptance.withoutContent : .withContent))
        return (page, browser, id)
    }

    @Test func `the address is in capitals, and holds path and key`() {
        let url = TestPage.secret.url(host: "192.168.1.5", port: 29743)
        #expect(url == "HTTP://192.168.1.5:29743/AAAQEAYE#5EEAVTW2FGCMHTBTIZIWBPSMYA")
        #expect(TestPage.secret.url(host: "fd00::1", port: 80).hasPrefix("HTTP://[FD00::1]/"))
    }

    @Test func `a file arrives whole, in order, once`() throws {
        var (page, browser, id) = try accepted(Self.chunkByteCount + 3)
        let first = [UInt8](repeating: 7, count: Self.chunkByteCount)
        #expect(browser.sendChunk([1, 2, 3], of: 1, at: 1, to: &page).reaction == nil)
        guard
            case .content(id, [first, [1, 2, 3]], isComplete: true) = browser.sendChunk(first, of: 1, at: 0, to: &page).reaction
        else {
            Issue.record("no content")
            return
        }
        // A repetition, whose reply was lost.
        let again = browser.sendChunk(first, of: 1, at: 0, to: &page)
        #expect(again.status == .ok && again.reaction == nil)
        #expect(page.machine.isActive(id.session))
        page.machine.end(id, .stored)
        #expect(!page.machine.isActive(id.session))
        let state = try browser.state(page.send("\(TestBrowser.path)/\(browser.id)/s/0").body)
        #expect(state.phase == .stored && state.next == 2 && state.offer == 1 && state.name == "anna")
    }

    @Test func `an empty file is complete once it is accepted`() throws {
        var (page, browser, _) = try accepted(0)
        #expect(try browser.state(page.send("\(TestBrowser.path)/\(browser.id)/s/0").body).phase == .storing)
    }

    @Test("A1: content before consent, after a cancel or of another offer is rejected")
    func contentWithoutConsent() throws {
        var page = TestPage()
        var browser = TestBrowser(1)
        _ = try browser.begin(&page)
        #expect(browser.sendChunk([1], of: 0, at: 0, to: &page).status == .conflict)
        let reply = browser.send(TestBrowser.offer([("a", 1)]), to: &page)
        #expect(browser.sendChunk([1], of: 1, at: 0, to: &page).status == .conflict)
        guard case .offered(let id, _, _) = reply.reaction else { throw MalformedInput("no offer") }
        #expect(page.machine.accept(id) == .withContent)
        #expect(browser.sendChunk([1], of: 2, at: 0, to: &page).status == .conflict)
        #expect(browser.send(TestBrowser.cancel, to: &page).reaction == .cancelled(id))
        #expect(browser.sendChunk([1], of: 1, at: 0, to: &page).status == .conflict)
        #expect(page.machine.accept(id) == .over)
    }

    @Test("R12: a chunk of another size, beyond the offer or far ahead is rejected")
    func sizes() throws {
        var (page, browser, _) = try accepted(Self.chunkByteCount * 9 + 1)
        let chunk = [UInt8](repeating: 1, count: Self.chunkByteCount)
        #expect(browser.sendChunk([1], of: 1, at: 0, to: &page).status == .conflict)
        #expect(browser.sendChunk([1, 2], of: 1, at: 9, to: &page).status == .conflict)
        #expect(browser.sendChunk([1], of: 1, at: 10, to: &page).status == .conflict)
        #expect(browser.sendChunk([1], of: 1, at: .max, to: &page).status == .conflict)
        #expect(browser.sendChunk(chunk, of: 1, at: 8, to: &page).status == .conflict)
        #expect(browser.sendChunk(chunk, of: 1, at: 7, to: &page).status == .ok)
        #expect(browser.sendChunk(chunk, of: 1, at: 0, to: &page).status == .ok)
        #expect(browser.sendChunk(chunk + [1], of: 1, at: 1, to: &page).status == .forbidden)
        let chunks = [[UInt8]](repeating: chunk, count: 4)
        #expect(browser.sendChunks(chunks + [[]], of: 1, from: 1, to: &page).status == .contentTooLarge)
        // The last chunk of a request is beyond the window; those before it count.
        #expect(browser.sendChunks(chunks, of: 1, from: 6, to: &page).status == .conflict)
        let reply = browser.sendChunks(Array(chunks.prefix(3)), of: 1, from: 1, to: &page)
        #expect(reply.status == .ok)
    }

    @Test func `a request may hold four chunks, of which each counts by itself`() throws {
        var (page, browser, id) = try accepted(Self.chunkByteCount * 5 + 3)
        let chunks = (0..<6).map { [UInt8](repeating: $0, count: $0 < 5 ? Self.chunkByteCount : 3) }
        // The end arrives before the beginning.
        let early = browser.sendChunks(Array(chunks[4...]), of: 1, from: 4, to: &page)
        #expect(early.status == .ok && early.reaction == nil)
        // A forged one ends the request.
        let path = "\(TestBrowser.path)/\(browser.id)/u/1/0"
        let forged =
            browser.seal(chunks[0], .chunk, 1, 0) + browser.seal(chunks[1], .chunk, 1, 2)
            + browser.seal(chunks[2], .chunk, 1, 2)
        let reply = page.send(path, forged)
        #expect(reply.status == .forbidden && reply.reaction == .content(id, [chunks[0]], isComplete: false))
        // The first one is repeated.
        let rest = browser.sendChunks(Array(chunks[..<4]), of: 1, from: 0, to: &page)
        #expect(rest.status == .ok && rest.reaction == .content(id, Array(chunks[1...]), isComplete: true))
        #expect(try browser.state(rest.body).next == 6)
    }

    @Test("K13: a record of another key, kind, number or browser is rejected, and changes nothing")
    func forgedRecords() throws {
        var (page, browser, _) = try accepted(4)
        let stranger = TestBrowser(1, key: [UInt8](repeating: 0, count: 16))
        let path = "\(TestBrowser.path)/\(browser.id)"
        #expect(page.send("\(TestBrowser.path)/hello", stranger.hello).status == .forbidden)
        #expect(page.send("\(path)/u/1/0", stranger.seal([1, 2, 3, 4], .chunk, 1, 0)).status == .forbidden)
        #expect(page.send("\(path)/u/1/0", browser.seal([1, 2, 3, 4], .chunk, 1, 1)).status == .forbidden)
        #expect(page.send("\(path)/u/1/0", browser.seal([1, 2, 3, 4], .message, 1, 0)).status == .forbidden)
        #expect(
            page.send("\(path)/m", UInt32(2).bigEndianBytes + stranger.seal(TestBrowser.cancel, .message, 0, 2)).status
                == .forbidden)
        var other = TestBrowser(2)
        #expect(try other.begin(&page).status == .ok)
        #expect(page.send("\(path)/u/1/0", other.seal([1, 2, 3, 4], .chunk, 1, 0)).status == .forbidden)
        #expect(browser.sendChunk([1, 2, 3, 4], of: 1, at: 0, to: &page).reaction != nil)
    }

    @Test("K11: a repeated message and a repeated hello have no second effect")
    func replays() throws {
        var (page, browser, id) = try accepted(4)
        page.machine.end(id, .declined)
        let path = "\(TestBrowser.path)/\(browser.id)"
        let offer = UInt32(1).bigEndianBytes + browser.seal(TestBrowser.offer([("a.txt", 4)]), .message, 0, 1)
        let reply = page.send("\(path)/m", offer)
        #expect(reply.status == .ok && reply.reaction == nil)
        let state = try browser.state(browser.begin(&page).state)
        #expect(state.phase == .declined && state.lastMessage == 1)
    }

    @Test("K11: a hello that is repeated after its session was forgotten begins one with other keys")
    func forgottenSessions() throws {
        var page = TestPage()
        var browsers = (0..<40).map { TestBrowser($0) }
        for index in browsers.indices {
            page.now = page.now + .seconds(3)
            #expect(try browsers[index].begin(&page).status == .ok)
        }
        let first = browsers[0]
        #expect(page.send("\(TestBrowser.path)/\(first.id)/s/0").status == .gone)
        #expect(page.send("\(TestBrowser.path)/\(browsers[39].id)/s/0").status == .ok)
        var again = first
        #expect(try again.begin(&page).status == .ok)
        #expect(again.id != first.id && again.code != first.code)
        let offer = UInt32(1).bigEndianBytes + first.seal(TestBrowser.offer([("a.txt", 4)]), .message, 0, 1)
        #expect(page.send("\(TestBrowser.path)/\(first.id)/m", offer).status == .gone)
        #expect(page.send("\(TestBrowser.path)/\(again.id)/m", offer).status == .forbidden)
    }

    @Test("R3: the browsers of one address leave room for others, also when all of them wait for an answer")
    func shareOfSessions() throws {
        var page = TestPage()
        var idle = TestBrowser(100)
        #expect(try idle.begin(&page, from: "192.168.1.9").status == .ok)
        var crowd = (0..<17).map { TestBrowser($0) }
        for index in 0..<16 {
            #expect(try crowd[index].begin(&page).status == .ok)
            _ = crowd[index].send(TestBrowser.offer([("a.txt", 4)]), to: &page)
        }
        #expect(page.send("\(TestBrowser.path)/hello", crowd[16].hello).status == .unavailable)
        #expect(page.send("\(TestBrowser.path)/\(idle.id)/s/0", from: "192.168.1.9").status == .ok)
        var late = TestBrowser(101)
        #expect(try late.begin(&page, from: "192.168.1.10").status == .ok)
    }

    @Test("N11: another browser with the same address, who has seen everything, has neither the keys nor the code of a session")
    func otherHolderOfTheAddress() throws {
        var page = TestPage()
        var browser = TestBrowser(1)
        let reply = page.send("\(TestBrowser.path)/hello", browser.hello)
        try browser.derive(from: reply.body)
        let offer = browser.send(TestBrowser.offer([("a.txt", 4)]), to: &page)
        guard case .offered(let id, _, _) = offer.reaction else { throw MalformedInput("no offer") }
        #expect(page.machine.accept(id) == .withContent)
        // The other browser reads the node's key, and tries the transcript with its own private key.
        var other = TestBrowser(2)
        let helloKey = SecretBytes(
            HKDF.derive(
                from: TestPage.key, salt: browser.agreementKey.publicKey.bytes,
                info: Array("nearshare page 2 hello".utf8), byteCount: 32))
        let nodeKey = try ChaCha20Poly1305.open(
            reply.body[16..<64], key: helloKey, nonce: TestBrowser.nonce(.nodeKey, 0, 0), authenticating: [])
        #expect(nodeKey == TestPage.nodeKey.bytes)
        let own = page.send("\(TestBrowser.path)/hello", other.hello)
        for (nonce, point) in [
            (reply.body, browser.agreementKey.publicKey), (reply.body, other.agreementKey.publicKey),
            (own.body, browser.agreementKey.publicKey), (own.body, other.agreementKey.publicKey),
        ] {
            try other.derive(from: Array(nonce[..<16]) + own.body[16..<64], point)
            #expect(other.id != browser.id && other.code != browser.code)
            #expect(throws: CryptoError.self) { try other.state(Array(reply.body.dropFirst(64))) }
            let path = "\(TestBrowser.path)/\(browser.id)"
            #expect(page.send("\(path)/u/1/0", other.seal([1, 2, 3, 4], .chunk, 1, 0)).status == .forbidden)
            #expect(
                page.send("\(path)/m", UInt32(2).bigEndianBytes + other.seal(TestBrowser.cancel, .message, 0, 2)).status
                    == .forbidden)
        }
        #expect(browser.sendChunk([1, 2, 3, 4], of: 1, at: 0, to: &page).reaction != nil)
    }

    @Test("N11: the code follows from the node's nonce, not from the browser's choice alone")
    func chosenCodes() throws {
        var (first, second) = (TestPage(), TestPage())
        var (browser, same) = (TestBrowser(1), TestBrowser(1))
        _ = try browser.begin(&first)
        var other = TestBrowser(2)
        _ = try other.begin(&second)
        _ = try same.begin(&second)
        #expect(browser.code != same.code && browser.id != same.id)
    }

    @Test("K9: a hello with a point of low order, or one that is not canonical, is rejected")
    func lowOrderPoints() {
        var page = TestPage()
        let points: [[UInt8]] = [
            [UInt8](repeating: 0, count: 32), [1] + [UInt8](repeating: 0, count: 31),
            [0xed] + [UInt8](repeating: 0xff, count: 30) + [0x7f], [UInt8](repeating: 0xff, count: 32),
        ]
        for point in points {
            let helloKey = SecretBytes(
                HKDF.derive(from: TestPage.key, salt: point, info: Array("nearshare page 2 hello".utf8), byteCount: 32))
            let nonce = TestBrowser.nonce(.hello, 0, 0)
            let proof = ChaCha20Poly1305.seal([], key: helloKey, nonce: nonce, authenticating: [])
            #expect(page.send("\(TestBrowser.path)/hello", point + proof).status == .badRequest)
        }
    }

    @Test func `a page that was loaded again leaves a gap, and goes on with the same offer`() throws {
        var (page, browser, id) = try accepted(Self.chunkByteCount + 3)
        let first = [UInt8](repeating: 7, count: Self.chunkByteCount)
        #expect(browser.sendChunk(first, of: 1, at: 0, to: &page).reaction != nil)
        #expect(try browser.begin(&page).status == .ok)
        // The second message was lost.
        browser.lastMessage += 1
        #expect(browser.send(TestBrowser.offer([("b.txt", 5)]), to: &page).status == .conflict)
        let again = browser.send(TestBrowser.offer([("a.txt", UInt64(Self.chunkByteCount + 3))]), to: &page)
        #expect(again.status == .ok && again.reaction == nil)
        let state = try browser.state(again.body)
        #expect(state.offer == 4 && state.next == 1 && state.phase == .receiving)
        #expect(browser.sendChunk([1, 2, 3], of: 1, at: 1, to: &page).status == .conflict)
        #expect(browser.sendChunk([1, 2, 3], of: 4, at: 1, to: &page).reaction == .content(id, [[1, 2, 3]], isComplete: true))
    }

    @Test func `two browsers have sessions of their own`() throws {
        var (page, first, _) = try accepted(4)
        var second = TestBrowser(2)
        #expect(try second.begin(&page).status == .ok)
        let reply = second.send(TestBrowser.offer([("b", 1)]), to: &page)
        guard case .offered(let id, _, let code) = reply.reaction else { throw MalformedInput("no offer") }
        #expect(code.description == second.code && second.code != first.code)
        page.machine.end(id, .declined)
        #expect(try first.state(page.send("\(TestBrowser.path)/\(first.id)/s/0").body).phase == .receiving)
    }

    @Test func `an offer while another one is open is rejected, and its number is used up`() throws {
        var (page, browser, _) = try accepted(4)
        #expect(browser.send(TestBrowser.offer([("b", 1)]), to: &page).status == .conflict)
        #expect(browser.send(TestBrowser.cancel, to: &page).status == .ok)
        #expect(try browser.state(page.send("\(TestBrowser.path)/\(browser.id)/s/0").body).phase == .cancelled)
    }

    @Test(
        "R1: an offer with impossible numbers is rejected",
        arguments: [
            [], [0], [9], [1], [1, 0, 0], [1, 0, 1], [1, 255, 255], [2, 0],
            [1, 0, 1, 1, 1, 97, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            [1, 0, 1, 0, 1, 97, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0],
            [1, 0, 1, 0, 1, 97, 101] + [UInt8](repeating: 97, count: 101) + [UInt8](repeating: 0, count: 16),
            TestBrowser.offer([("a", 1)]) + [0], TestBrowser.offer([("a", 1 << 48), ("b", 1 << 63)]),
        ] as [[UInt8]])
    func impossibleOffers(message: [UInt8]) throws {
        var page = TestPage()
        var browser = TestBrowser(1)
        _ = try browser.begin(&page)
        let reply = browser.send(message, to: &page)
        #expect(reply.status == .badRequest && reply.reaction == nil)
        #expect(browser.send(TestBrowser.offer([("a", 1)]), to: &page).reaction != nil)
    }

    @Test("N9: a request that names another host is rejected")
    func rebinding() {
        var page = TestPage()
        for host in ["evil.example", "evil.example:29743", "192.168.1.5", "192.168.1.5:80", "192.168.1.50:29743"] {
            #expect(page.send(TestBrowser.path, host: host).status == .misdirected)
        }
        #expect(page.send(TestBrowser.path).status == .ok)
    }

    @Test("N10: a request of another origin is rejected")
    func otherOrigins() {
        var page = TestPage()
        let hello = TestBrowser(1).hello
        for field in [
            "Origin: http://evil.example\r\n", "Origin: null\r\n", "Origin: https://\(TestPage.authority)\r\n",
            "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n",
        ] {
            #expect(page.send("\(TestBrowser.path)/hello", hello, fields: field).status == .forbidden)
        }
        let own = "Origin: http://\(TestPage.authority)\r\nSec-Fetch-Site: same-origin\r\n"
        #expect(page.send("\(TestBrowser.path)/hello", hello, fields: own).status == .ok)
    }

    @Test("N11: all wrong paths get the same response")
    func wrongPaths() {
        var page = TestPage()
        for path in ["/", "/AAAAAAAA", "/AAAQEAYF", "/AAAQEAYE/x", "/aaaqeaye/hello/", "/AAAQEAYE/00/m", "/favicon.ico"] {
            #expect(page.send(path).status == .notFound)
        }
        #expect(page.send("/aaaqeaye").status == .ok)
    }

    @Test("R9: an address begins thirty sessions in a minute, and those that have begun go on")
    func newSessions() {
        var page = TestPage()
        let browsers = (1...32).map { TestBrowser(UInt8($0)) }
        let path = "\(TestBrowser.path)/hello"
        let statuses = browsers.map { page.send(path, $0.hello).status }
        #expect(statuses == Array(repeating: .ok, count: 30) + [.tooManyRequests, .tooManyRequests])
        // A session that has begun needs no key agreement.
        #expect(page.send(path, browsers[29].hello).status == .ok)
        #expect(page.send(path, browsers[30].hello, from: "192.168.1.21").status == .ok)
        page.now = page.now + .seconds(61)
        #expect(page.send(path, browsers[31].hello).status == .ok)
    }

    @Test("R9: all addresses together begin 120 sessions in a minute")
    func newSessionsOfAll() {
        var page = TestPage()
        let statuses = (1...130).map { number in
            page.send("\(TestBrowser.path)/hello", TestBrowser(UInt8(number)).hello, from: "10.0.0.\(number % 8)").status
        }
        #expect(statuses.prefix(120).allSatisfy { $0 == .ok } && statuses.dropFirst(120).allSatisfy { $0 == .tooManyRequests })
    }

    @Test func `a wrong method is answered with the right one`() throws {
        let page = TestPage()
        for (path, method, other) in [("", "GET", "POST"), ("/hello", "POST", "GET"), ("/hello", "POST", "PUT")] {
            var reader = HTTPRequestReader()
            Array("\(other) \(TestBrowser.path)\(path) HTTP/1.1\r\nHost: \(TestPage.authority)\r\n\r\n".utf8).withUnsafeBytes {
                reader.append($0)
            }
            let request = try #require(try reader.next { _ in 0 }).request
            #expect(throws: HTTPStatus.methodNotAllowed) { try page.machine.admit(request, at: TestPage.authority) }
            let response = page.machine.rejection(of: request, .methodNotAllowed).encoded(closes: true)
            #expect(String(decoding: response, as: UTF8.self).contains("\r\nAllow: \(method)\r\n"))
        }
    }

    @Test func `the page permits its own script and style alone, and is not kept`() throws {
        var page = TestPage()
        let body = page.send(TestBrowser.path).body
        #expect(body.count < 60_000)
        var reader = HTTPRequestReader()
        Array("GET \(TestBrowser.path) HTTP/1.1\r\nHost: \(TestPage.authority)\r\n\r\n".utf8).withUnsafeBytes {
            reader.append($0)
        }
        let request = try #require(try reader.next { _ in 0 }).request
        guard case .response(let response) = page.machine.respond(to: request, body: [], from: "", now: page.now).answer else {
            Issue.record("no page")
            return
        }
        let head = String(decoding: response.encoded(closes: true).prefix { $0 != UInt8(ascii: "<") }, as: UTF8.self)
        #expect(head.contains("Cache-Control: no-store\r\n") && head.contains("Connection: close\r\n"))
        #expect(head.contains("script-src 'sha256-") && !head.contains("unsafe") && head.contains("default-src 'none'"))
    }
}
