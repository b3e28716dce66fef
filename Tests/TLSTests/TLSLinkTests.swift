import NearshareBase
import NearshareInterfaces
import NearshareTLS
import NearshareTestTraits
import NearshareTesting
import Testing

/// A link that calls a closure before each write, with its number from 1.
private final class ObservedLink: ForwardingLink {
    let inner: any StreamLink
    private let count = Monitor(0)
    private let onWrite: @Sendable (Int) throws(LinkError) -> Void

    init(_ inner: any StreamLink, onWrite: @escaping @Sendable (Int) throws(LinkError) -> Void) {
        (self.inner, self.onWrite) = (inner, onWrite)
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        let number = count.update { count -> Int in
            count += 1
            return count
        }
        try onWrite(number)
        try inner.write(bytes)
    }
}

@Suite("TLS between links", .serialized, .leavesNothing) struct TLSLinkTests {
    /// 2026-11-23.
    private static let now = WallTime(milliseconds: 1_795_000_000_000)

    private struct Ends {
        let server: any StreamLink
        let client: any StreamLink
    }

    private func security(_ serial: UInt64 = 1) throws -> TLSSecurity {
        try TLSSecurity(TLSIdentity(name: "test", serial: serial))
    }

    private func ends() throws -> Ends {
        let transport = StoryResources.counted(InMemoryTransport())
        let listener = try transport.listen(port: 0, interface: nil)
        let client = try transport.connect(
            to: LinkAddress(host: "127.0.0.1", port: listener.port), timeout: .seconds(5))
        return Ends(server: try listener.accept(), client: client)
    }

    /// Shakes hands at both ends.
    private func handshake(
        _ server: TLSSecurity, _ client: TLSSecurity, over ends: Ends? = nil, at now: WallTime = now,
        clientTime: WallTime? = nil
    ) async throws -> (server: Result<any SecureLink, LinkError>, client: Result<any SecureLink, LinkError>) {
        let ends = try ends ?? self.ends()
        async let accepted = BlockingThread.run {
            Result { () throws(LinkError) in try server.accept(ends.server, now: now) }
        }
        let connected = try await BlockingThread.run {
            Result { () throws(LinkError) in try client.connect(over: ends.client, now: clientTime ?? now) }
        }
        return (try await accepted, connected)
    }

    /// Two ends, of which the server can write once: its part of the handshake.
    private func endsWithMuteServer() throws -> Ends {
        let ends = try ends()
        let server = ObservedLink(ends.server) { (number) throws(LinkError) in
            if number > 1 { throw LinkError(.broken, "the peer has closed the connection") }
        }
        return Ends(server: server, client: ends.client)
    }

    private func read(_ count: Int, from link: any SecureLink) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            var block = [UInt8](repeating: 0, count: 10_000)
            let read = try block.withUnsafeMutableBytes { (buffer) throws(LinkError) in try link.read(into: buffer) }
            guard read > 0 else { break }
            bytes += block[..<read]
        }
        return bytes
    }

    @Test func `both ends know the other's certificate, and bytes pass in both directions`() async throws {
        let (server, client) = (try security(1), try security(2))
        let (accepted, connected) = try await handshake(server, client)
        let (ours, theirs) = (try accepted.get(), try connected.get())
        #expect(ours.peerFingerprint == client.fingerprint && theirs.peerFingerprint == server.fingerprint)
        #expect(server.fingerprint.count == 32 && server.fingerprint != client.fingerprint)
        let content = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        for (from, to) in [(ours, theirs), (theirs, ours)] {
            async let written: Void = BlockingThread.run {
                content.withUnsafeBytes { try? from.write($0) }
                from.finishWriting()
            }
            #expect(try read(content.count + 1, from: to) == content)
            try await written
        }
    }

    @Test("F8: certificates that are not valid at the time are rejected", arguments: [157_766_399_000, 67_090_118_401_000])
    func dates(milliseconds: Int64) async throws {
        let (accepted, connected) = try await handshake(
            try security(1), try security(2), at: WallTime(milliseconds: milliseconds))
        #expect(throws: LinkError.self) { try accepted.get() }
        #expect(throws: LinkError.self) { try connected.get() }
    }

    @Test("F8: an identity that is kept stays the same, a damaged one is not used")
    func identities() throws {
        let identity = try TLSIdentity(name: "test", serial: 7)
        #expect(try TLSSecurity(identity).fingerprint == (try TLSSecurity(TLSIdentity(pem: identity.pem)).fingerprint))
        for pem in [[], Array("x".utf8), Array(identity.pem.prefix(1000)), Array(identity.pem.dropFirst(1000))] {
            #expect(throws: TLSError.self) { try TLSSecurity(TLSIdentity(pem: pem)) }
        }
    }

    @Test("F9: garbage ends the handshake", arguments: [0, 1, 5, 200])
    func garbage(seed: Int) async throws {
        let ends = try ends()
        let server = try security()
        var random = SeededRandom(seed: UInt64(seed))
        let bytes = (0..<20_000).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        async let accepted = BlockingThread.run {
            defer { ends.server.close() }
            return Result { () throws(LinkError) in try server.accept(ends.server, now: Self.now) }
        }
        try await BlockingThread.run {
            bytes.withUnsafeBytes { try? ends.client.write($0) }
            ends.client.finishWriting()
        }
        let result = try await accepted
        #expect(throws: LinkError.self) { try result.get() }
    }

    @Test("F9: a handshake that does not go on ends when the link is closed")
    func silence() async throws {
        let ends = try ends()
        let server = try security()
        async let accepted = BlockingThread.run {
            Result { () throws(LinkError) in try server.accept(ends.server, now: Self.now) }
        }
        // The first bytes of a handshake record that never ends.
        try await BlockingThread.run { [0x16, 0x03, 0x01, 0x02, 0x00, 0x01].withUnsafeBytes { try? ends.client.write($0) } }
        ends.server.close()
        let result = try await accepted
        #expect(throws: LinkError.self) { try result.get() }
    }

    @Test("F9: a refused certificate is the reason of the failure, also when the peer cannot be told")
    func refusalWithoutAlert() async throws {
        let (accepted, _) = try await handshake(
            try security(1), try security(2), over: try endsWithMuteServer(), at: WallTime(milliseconds: 157_766_399_000),
            clientTime: Self.now)
        #expect { try accepted.get() } throws: { "\($0)".contains("TLS with") }
    }

    @Test("F9: content before a forged record is read, and then the reason of the failure, also when the peer cannot be told")
    func contentBeforeForgedRecord() async throws {
        let ends = try endsWithMuteServer()
        let (accepted, connected) = try await handshake(try security(1), try security(2), over: ends)
        let (server, client) = (try accepted.get(), try connected.get())
        let content = Array("content".utf8)
        let forged: [UInt8] = [0x17, 0x03, 0x03, 0x00, 0x20] + [UInt8](repeating: 7, count: 32)
        // Both are in the buffer of the link before the server reads.
        try content.withUnsafeBytes { try client.write($0) }
        try forged.withUnsafeBytes { try ends.client.write($0) }
        #expect(try read(content.count, from: server) == content)
        #expect { try read(1, from: server) } throws: { "\($0)".contains("TLS with") }
    }

    @Test(
        "content arrives while a write waits for a peer that does not read", .timeLimit(.minutes(1)),
        arguments: [8, 200_000])
    func bothDirections(byteCount: Int) async throws {
        let ends = try ends()
        let phase = Monitor(0)
        let gated = ObservedLink(ends.server) { number in
            guard number == 2 else { return }
            phase.update { $0 = 1 }
            phase.wait { $0 == 2 ? () : nil }
        }
        let (accepted, connected) = try await handshake(
            try security(1), try security(2), over: Ends(server: gated, client: ends.client))
        let (server, client) = (try accepted.get(), try connected.get())
        let (question, answer) = ([UInt8](repeating: 7, count: byteCount), Array("answer".utf8))
        async let written: Void = BlockingThread.run { _ = question.withUnsafeBytes { try? server.write($0) } }
        let received = try await BlockingThread.run {
            phase.wait { $0 == 1 ? () : nil }
            answer.withUnsafeBytes { try? client.write($0) }
            let received = try? read(answer.count, from: server)
            phase.update { $0 = 2 }
            return received
        }
        #expect(received == answer)
        #expect(try read(question.count, from: client) == question)
        try await written
    }

    @Test("a failed write hides no answer that has arrived, and nothing is written after it")
    func answerBehindFailedWrite() async throws {
        let ends = try ends()
        let writes = Monitor(0)
        let server = ObservedLink(ends.server) { (number) throws(LinkError) in
            writes.update { $0 = number }
            if number > 1 { throw LinkError(.broken, "the peer has closed the connection") }
        }
        let (accepted, connected) = try await handshake(
            try security(1), try security(2), over: Ends(server: server, client: ends.client))
        let (sender, receiver) = (try accepted.get(), try connected.get())
        let (content, answer) = ([UInt8](repeating: 7, count: 200_000), Array("answer".utf8))
        try answer.withUnsafeBytes { try receiver.write($0) }
        #expect(throws: LinkError.self) { try content.withUnsafeBytes { try sender.write($0) } }
        #expect(try read(answer.count, from: sender) == answer)
        #expect(writes.withLock { $0 } == 2)
    }
}
