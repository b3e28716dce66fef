import Logging
import Nearshare
import NearshareBase
import NearshareHTTP
import NearshareInterfaces
import NearshareLocalSend
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("the server for LocalSend devices", .timeLimit(.minutes(1)), .leavesNothing) struct LocalSendServerTests {
    private let stage = Stage(.tcp)

    /// Writes, and reads to the end of the connection.
    private func exchange(_ text: String, with port: UInt16) async throws -> String {
        let stage = stage
        return try await BlockingThread.run { () -> String in
            guard
                let link = try? stage.transport.connect(
                    to: LinkAddress(host: "127.0.0.1", port: port), timeout: .seconds(5))
            else { return "" }
            defer { link.close() }
            try? LinkDemultiplexer.write(Array(text.utf8), to: link)
            var received: [UInt8] = []
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 1)
            defer { buffer.deallocate() }
            while let count = try? link.read(into: buffer), count > 0 { received += buffer[..<count] }
            return String(decoding: received, as: UTF8.self)
        }
    }

    private func request(_ head: String, _ body: String = "") -> String {
        "h\(head) HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)"
    }

    /// Long enough for a request on a busy machine.
    private func timeouts(request: Duration = .seconds(30)) -> LocalSendServer.Timeouts {
        var timeouts = LocalSendServer.Timeouts()
        (timeouts.request, timeouts.silence) = (request, .seconds(4))
        return timeouts
    }

    @Test(
        "F9: handshakes, heads and bodies that do not arrive end in bounded time, and others are served meanwhile",
        arguments: [
            "", "h", "hGET /api/localsend/v2/info HTTP/1.1\r\nX: ",
            "hPOST /api/localsend/v2/register HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
            "hPOST /api/localsend/v2/prepare-upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        ])
    func slow(text: String) async throws {
        try await withNode(stage.receiver) { node in
            let server = try node.serveLocalSend(for: nil, PlainSecurity(), port: 0, timeouts: timeouts(request: .seconds(2)))
            async let slow = exchange(text, with: server.port)
            let answer = try await exchange(request("GET /api/localsend/v2/info"), with: server.port)
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            #expect(try await slow == "")
        }
    }

    @Test("F9, R5: the body of a small request has a time of its own, however long its connection may live")
    func lateBody() async throws {
        try await withNode(stage.receiver) { node in
            var timeouts = self.timeouts(request: .seconds(600))
            timeouts.body = .milliseconds(100)
            let server = try node.serveLocalSend(for: nil, PlainSecurity(), port: 0, timeouts: timeouts)
            let head = "hPOST /api/localsend/v2/prepare-upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
            #expect(try await exchange(head, with: server.port) == "")
        }
    }

    @Test("Q6, R5: a question counts as use for a minute, a request for two seconds, a file while enough of it arrives")
    func activity() {
        let start = MonotonicInstant(nanoseconds: 1)
        var activity = LocalSendConnection.Activity(since: start)
        activity.hasOpenRequest = true
        #expect(activity.keepsSlot(now: start + .seconds(1)) && !activity.keepsSlot(now: start + .seconds(2)))
        #expect(activity.unusedSince(now: start + .seconds(1)) == start)
        activity.isInSession = true
        activity.startQuestion(until: start + .seconds(300), now: start)
        #expect(activity.unusedSince(now: start + .seconds(59)) == nil)
        #expect(activity.unusedSince(now: start + .seconds(60)) == start + .seconds(60))
        #expect(activity.transferRate(now: start + .seconds(60)) == nil)
        activity.askingUntil = nil
        activity.awaitContent(now: start + .seconds(60))
        activity.record(100, now: start + .seconds(65))
        // Until the disk has the content, which takes a minute.
        #expect(activity.transferRate(now: start + .seconds(100)) == nil)
        activity.awaitContent(now: start + .seconds(125))
        #expect(activity.transferRate(now: start + .seconds(130)) == 10)
        #expect(activity.unusedSince(now: start + .seconds(130)) == nil)
    }

    @Test("F17: a device that claims another one's certificate is answered, and not listed") func claims() async throws {
        try await withNode(stage.receiver) { node in
            let server = try node.serveLocalSend(for: nil, PlainSecurity(), port: 0)
            for (name, byte) in [("victim", "08"), ("own", "07")] {
                let fingerprint = String(repeating: byte, count: 32)
                let device = #"{"alias":"\#(name)","fingerprint":"\#(fingerprint)"}"#
                let answer = try await exchange(request("POST /api/localsend/v2/register", device), with: server.port)
                #expect(answer.hasPrefix("HTTP/1.1 200"))
            }
            var names: [String] = []
            for try await event in server.devices.browse() {
                guard case .seen(let sighting) = event else { break }
                names.append(try #require(PeerTXTRecord(strings: sighting.txt)).name.claimed)
            }
            #expect(names == ["own"])
        }
    }

    @Test("F4: a sender that goes away leaves the files that are complete") func silence() async throws {
        let scratch = ScratchFolder()
        var limits = InboxLimits()
        limits.minimumFreeByteCount = 0
        let inbox = try Inbox(path: scratch("inbox"), spoolPath: scratch("spool"), limits: limits)
        try await withNode(stage.receiver) { node in
            let listener = node.makeListener(joinsMesh: false)
            let server = try node.serveLocalSend(for: listener, PlainSecurity(), port: 0, timeouts: timeouts())
            let files = ["a", "b", "c"].map { #""\#($0)":{"fileName":"\#($0)","size":4}"# }.joined(separator: ",")
            let body = #"{"info":{"alias":"x","fingerprint":"a","protocol":"http"},"files":{\#(files)}}"#
            async let offered = exchange(request("POST /api/localsend/v2/prepare-upload", body), with: server.port)
            var invitations = listener.invitations.makeAsyncIterator()
            let invitation = try #require(await invitations.next())
            #expect(invitation.contents.count == 3 && invitation.features == .sendsParts)
            let transfer = invitation.accept(
                into: try inbox.makeSink(
                    for: invitation.offer, listed: invitation.contents, from: invitation.peer.fingerprint,
                    resumeKey: invitation.resumeKey, clock: { SystemClock.monotonic() }))
            let answer = try await offered
            func value(behind name: String) throws -> String {
                let found = try #require(answer.firstRange(of: "\"\(name)\":\""))
                return String(answer[found.upperBound...].prefix(36))
            }
            let (session, token) = (try value(behind: "sessionId"), try value(behind: "b"))
            let upload = "POST /api/localsend/v2/upload?sessionId=\(session)&fileId=b&token=\(token)"
            #expect(try await exchange(request(upload, "four"), with: server.port).hasPrefix("HTTP/1.1 200"))
            let result = await transfer.result
            #expect(result.missing?.sentence == "2 of 3 files were not stored: a and c")
            #expect(result.delivered.map(\.path) == [scratch("inbox/b")])
            #expect(result.outcome == .failed(.sourceChanged, at: .remote))
            // A file that comes later belongs to no session.
            #expect(try await exchange(request(upload, "four"), with: server.port).hasPrefix("HTTP/1.1 403"))
        }
    }
}
