import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

/// Channels over local sockets that carry messages, too, without a Bluetooth stack.
@Suite(.timeLimit(.minutes(1))) struct L2CAPLinkTests {
    private func linked(clock: @escaping @Sendable () -> MonotonicInstant = { SystemClock.monotonic() }) -> (L2CAPLink, Int32) {
        var ends: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends) == 0)
        let remote = LinkAddress(host: "a", port: 0x80, medium: .bluetooth)
        return (L2CAPLink(descriptor: ends[0], remote: remote, clock: clock, onClose: {}), ends[1])
    }

    private func send(_ message: [UInt8], to descriptor: Int32) {
        #expect(Glibc.send(descriptor, message, message.count, 0) == message.count)
    }

    private func receive(_ descriptor: Int32) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 5000)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return Array(buffer.prefix(max(0, count)))
    }

    private func read(_ link: L2CAPLink, _ count: Int) throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: count)
        let read = try buffer.withUnsafeMutableBytes { try link.read(into: $0) }
        return Array(buffer.prefix(read))
    }

    @Test("content arrives in the order of its messages, however small the buffer")
    func content() throws {
        let (link, peer) = linked()
        defer { close(peer) }
        send([0, 1, 2, 3, 4, 5], to: peer)
        send([0], to: peer)
        send([0, 6], to: peer)
        #expect(try read(link, 2) == [1, 2])
        #expect(try read(link, 2) == [3, 4])
        #expect(try read(link, 8) == [5])
        #expect(try read(link, 8) == [6], "an empty message is no end")
    }

    @Test("the peer's end is acknowledged, and stays the end")
    func end() throws {
        let (link, peer) = linked()
        defer { close(peer) }
        send([0, 9], to: peer)
        send([1], to: peer)
        #expect(try read(link, 8) == [9])
        #expect(try read(link, 8).isEmpty)
        #expect(receive(peer) == [2])
        #expect(try read(link, 8).isEmpty)
    }

    @Test("what is written goes out as messages of content, then one end")
    func writing() throws {
        let (link, peer) = linked()
        defer { close(peer) }
        try [7, 8].withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            try link.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(2)))
        }
        var written: [UInt8] = []
        while written.count < 2 {
            let message = receive(peer)
            #expect(message.first == 0)
            written += message.dropFirst()
        }
        link.finishWriting()
        link.finishWriting()
        #expect(receive(peer) == [1])
        link.close()
        send([2], to: peer)
        #expect(receive(peer).isEmpty, "one end, then the socket's own")
    }

    @Test("after its own end, closing waits until the peer has acknowledged it")
    func linger() throws {
        let (link, peer) = linked()
        defer { close(peer) }
        link.finishWriting()
        #expect(receive(peer) == [1])
        link.close()
        var waiting = pollfd(fd: peer, events: Int16(POLLIN), revents: 0)
        #expect(poll(&waiting, 1, 50) == 0, "still open")
        send([0, 1, 2], to: peer)
        send([2], to: peer)
        #expect(receive(peer).isEmpty, "closed")
    }

    @Test("without an end of its own, closing is immediate, and wakes the reader")
    func closing() throws {
        let (link, peer) = linked()
        defer { close(peer) }
        let outcome = Monitor<Bool?>(nil)
        _ = try BlockingThread.start {
            var buffer = [UInt8](repeating: 0, count: 16)
            let isClosed = (try? buffer.withUnsafeMutableBytes { try link.read(into: $0) }) == nil
            outcome.update { $0 = isClosed }
        }
        link.close()
        link.close()
        #expect(outcome.wait { $0 })
        #expect(receive(peer).isEmpty)
    }

    @Test("R7: unknown kinds and messages that are too large end the link")
    func hostile() throws {
        let (link, peer) = linked()
        defer { close(peer) }
        send([7, 1], to: peer)
        #expect(throws: LinkError.self) { try read(link, 8) }
        let (other, hostile) = linked()
        defer { close(hostile) }
        send([UInt8](repeating: 0, count: 4900), to: hostile)
        #expect(throws: LinkError.self) { try read(other, 8) }
    }

    @Test("a peer that disconnects without an end has broken the link")
    func broken() throws {
        let (link, peer) = linked()
        send([0, 1], to: peer)
        close(peer)
        #expect(try read(link, 8) == [1])
        #expect(throws: LinkError.self) { try read(link, 8) }
    }

    @Test("a full socket takes nothing more, and does not block")
    func withoutBlocking() throws {
        let (link, peer) = linked()
        defer { close(peer) }
        let block = [UInt8](repeating: 1, count: 4096)
        var total = 0
        for _ in 0..<10_000 {
            let count = try block.withUnsafeBytes { try link.writeWithoutBlocking($0) }
            total += count
            if count < block.count { break }
        }
        #expect(total > 0)
        #expect(try block.withUnsafeBytes { try link.writeWithoutBlocking($0) } < block.count)
    }
}
