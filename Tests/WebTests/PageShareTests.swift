import NearshareBase
import NearshareHTTP
import NearshareWeb
import Testing

@Suite("what a page gives") struct PageShareTests {
    @Test func `items are fetched after the answer, and the last one received ends it`() throws {
        var page = TestPage.sharing()
        var browser = TestBrowser(1)
        let id = try browser.ask(&page)
        let list = try browser.fetch(0, 0, of: &page).content
        #expect(list.starts(with: [0, 2, 0, 0, 9] + Array("small.txt".utf8)))
        #expect(try browser.fetch(1, 0, of: &page).content == [7])
        #expect(browser.send(TestBrowser.received(1), to: &page).reaction == .received(id, item: 1, isLast: false))
        // A repetition, and items that do not exist.
        for item: UInt32 in [1, 0, 3] { #expect(browser.send(TestBrowser.received(item), to: &page).reaction == nil) }
        #expect(try browser.fetch(2, 0, of: &page).status == .ok)
        #expect(browser.send(TestBrowser.received(2), to: &page).reaction == .received(id, item: 2, isLast: true))
        #expect(try browser.fetch(1, 0, of: &page).status == .conflict)
    }

    @Test("A1: nothing is given before the answer, after a cancel and to another browser")
    func withoutConsent() throws {
        var page = TestPage.sharing()
        var browser = TestBrowser(1)
        _ = try browser.begin(&page)
        #expect(try browser.fetch(0, 0, of: &page).status == .conflict)
        #expect(browser.send(TestBrowser.received(1), to: &page).status == .conflict)
        #expect(browser.send(TestBrowser.offer([("a", 1)]), to: &page).status == .conflict)
        let id = try browser.ask(&page)
        let path = "\(TestBrowser.path)/\(browser.id)/d/1/0"
        // A record of another browser, chunk or kind.
        #expect(page.send(path, TestBrowser(2).seal([], .fetch, 1, 0)).status == .forbidden)
        #expect(page.send(path, browser.seal([], .fetch, 1, 1)).status == .forbidden)
        #expect(page.send(path, browser.seal([], .message, 1, 0)).status == .forbidden)
        let unencrypted = try browser.unencryptedPath(in: &page)
        #expect(browser.send(TestBrowser.cancel, to: &page).reaction == .cancelled(id))
        #expect(try browser.fetch(1, 0, of: &page).status == .conflict)
        #expect(page.send(unencrypted).status == .gone)
        var taking = TestPage()
        #expect(try browser.begin(&taking).status == .ok)
        #expect(browser.send(TestBrowser.request, to: &taking).status == .conflict)
        #expect(taking.send(unencrypted).status == .notFound)
    }

    @Test("N19: an item is received once all of its chunks were fetched in this request, in whatever order")
    func unfetched() throws {
        var page = TestPage.sharing()
        page.chunkCount = 3
        var browser = TestBrowser(1)
        let received = TestBrowser.received(1)
        let first = try browser.ask(&page)
        for index: UInt32 in [2, 0, 2] {
            #expect(browser.send(received, to: &page).status == .conflict)
            #expect(try browser.fetch(1, index, of: &page).status == .ok)
        }
        let other = browser.send(TestBrowser.received(2), to: &page)
        #expect(other.status == .conflict && other.reaction == nil)
        #expect(browser.send(received, to: &page).status == .conflict)
        #expect(try browser.fetch(1, 1, of: &page).status == .ok)
        #expect(browser.send(received, to: &page).reaction == .received(first, item: 1, isLast: false))
        // Chunks of an earlier request do not count.
        #expect(browser.send(TestBrowser.cancel, to: &page).reaction == .cancelled(first))
        _ = try browser.ask(&page)
        #expect(browser.send(received, to: &page).status == .conflict)
    }

    @Test("K11: a chunk that is fetched again is sealed under another number")
    func numbers() throws {
        var page = TestPage.sharing()
        var browser = TestBrowser(1)
        _ = try browser.ask(&page)
        let path = "\(TestBrowser.path)/\(browser.id)/d/1/0"
        let records = (0..<3).map { _ in page.send(path, browser.seal([], .fetch, 1, 0)).body }
        #expect(Set(records.map { $0.prefix(8) }).count == 3)
    }

    @Test("N13: the path of an unencrypted download is for one browser at its address, and for one download")
    func unencryptedPaths() throws {
        var page = TestPage.sharing()
        var (browser, other) = (TestBrowser(1), TestBrowser(2))
        _ = try browser.ask(&page)
        let path = try browser.unencryptedPath(in: &page)
        #expect(try browser.unencryptedPath(in: &page) == path)
        _ = try other.ask(&page, from: "192.168.1.21")
        #expect(try other.unencryptedPath(in: &page, from: "192.168.1.21") != path)
        #expect(page.send(path, from: "192.168.1.21").status == .forbidden)
        #expect(page.send("\(TestBrowser.path)/f/AAAAAAAAAAAAAAAAAAAAAAAAAA").status == .gone)
        // The phone has another address, and asks for the list again.
        #expect(try browser.unencryptedPath(in: &page, from: "192.168.1.22") == path)
        #expect(page.send(path).status == .forbidden)
        #expect(page.send(path, from: "192.168.1.22").status == .ok)
        let unencrypted = try #require(page.lastUnencrypted)
        let size = PageShare.maximumInMemoryByteCount + 1
        // A download manager fetches several ranges at once, which end in any order.
        #expect(page.machine.recordUnencryptedBytes(9..<size, of: unencrypted) == nil)
        #expect(page.machine.recordUnencryptedBytes(0..<5, of: unencrypted) == nil)
        #expect(
            page.machine.recordUnencryptedBytes(4..<9, of: unencrypted) == .received(unencrypted.offer, item: 2, isLast: false))
        #expect(page.send(path, from: "192.168.1.22").status == .gone)
        #expect(page.machine.recordUnencryptedBytes(0..<size, of: unencrypted) == nil)
    }

    @Test("N14: ranges of many parts and requests without end are rejected")
    func ranges() throws {
        var page = TestPage.sharing()
        var browser = TestBrowser(1)
        _ = try browser.ask(&page)
        let path = try browser.unencryptedPath(in: &page)
        let size = PageShare.maximumInMemoryByteCount + 1
        let cases: [(String, HTTPStatus, Range<UInt64>?)] = [
            ("bytes=0-", .partialContent, 0..<size), ("bytes=5-9", .partialContent, 5..<10),
            ("Bytes=5-9999999999999", .partialContent, 5..<size), ("bytes=-7", .partialContent, size - 7..<size),
            ("bytes=-9999999999", .partialContent, 0..<size), ("bytes=\(size)-", .rangeNotSatisfiable, nil),
            ("bytes=-0", .rangeNotSatisfiable, nil), ("bytes=0-1,3-4", .rangeNotSatisfiable, nil),
            ("bytes=\(String(repeating: "0-,", count: 500))", .rangeNotSatisfiable, nil),
            // Malformed ones are ignored (RFC 9110, section 14.2).
            ("bytes=9-5", .ok, 0..<size), ("lines=0-1", .ok, 0..<size), ("bytes=a-", .ok, 0..<size), ("bytes=-", .ok, 0..<size),
            ("bytes=99999999999999999999-", .ok, 0..<size),
        ]
        for (range, status, bytes) in cases {
            page.lastUnencrypted = nil
            #expect(page.send(path, fields: "Range: \(range)\r\n").status == status, "\(range)")
            #expect(page.lastUnencrypted?.bytes == bytes, "\(range)")
        }
        #expect(page.send(path, fields: "Range: bytes=5-9\r\nIf-Range: \"x\"\r\n").status == .ok)
        // Each request counts, also one that was answered without content.
        for _ in cases.count + 1..<1000 { #expect(page.send(path).status == .ok) }
        #expect(page.send(path).status == .gone)
    }

    @Test("T1: a name cannot end a field of the response")
    func names() throws {
        var page = TestPage.sharing()
        var browser = TestBrowser(1)
        _ = try browser.ask(&page)
        #expect(page.send(try browser.unencryptedPath(in: &page)).status == .ok)
        let head = String(decoding: try #require(page.lastUnencrypted).head.head(length: 1, closes: true), as: UTF8.self)
        #expect(head.contains("\r\nContent-Disposition: attachment; filename*=UTF-8''large%20%C3%A9%0D%0A.bin\r\n"))
    }

    @Test("R5: a page that was left open for a week is told that its request has expired, and can ask again")
    func aWeek() throws {
        var page = TestPage.sharing()
        var browser = TestBrowser(1)
        let id = try browser.ask(&page)
        page.machine.end(id, .expired)
        page.now = page.now + .seconds(7 * 86_400)
        #expect(try browser.state(page.send("\(TestBrowser.path)/\(browser.id)/s/0").body).phase == .expired)
        #expect(try browser.fetch(1, 0, of: &page).status == .conflict)
        guard case .requested = browser.send(TestBrowser.request, to: &page).reaction else {
            Issue.record("the browser cannot ask again")
            return
        }
    }
}
