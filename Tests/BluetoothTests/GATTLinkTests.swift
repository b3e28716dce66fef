import Glibc
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

@Suite(.timeLimit(.minutes(1))) struct GATTServerLinkTests {
    @Test("R7: frames beyond the limit are dropped, and those received before the link is closed arrive in order") func flood()
    {
        let queue = NotificationQueue(onNonEmpty: {})
        let closings = Monitor(0)
        let link = GATTServerLink(
            devicePath: "a", maximumFrameByteCount: 182, remote: LinkAddress(host: "a", port: 0, medium: .bluetooth),
            queue: queue,
            onClose: { closings.update { $0 += 1 } })
        let accepted = (0..<1000).filter { link.deliver([UInt8(truncatingIfNeeded: $0)]) }
        #expect(accepted == Array(0..<256))
        for number in accepted { #expect(link.receive() == [UInt8(truncatingIfNeeded: number)]) }
        #expect(link.deliver([7]))
        #expect(queue.append([1], for: "a"))
        link.close()
        link.close()
        #expect(!link.deliver([8]))
        #expect(link.receive() == [7])
        #expect(link.receive() == nil)
        #expect(throws: LinkError.self) { try link.send([1]) }
        #expect(closings.withLock { $0 } == 1)
    }
}

/// Links over local sockets of the kind that BlueZ hands out.
@Suite(.timeLimit(.minutes(1))) struct GATTClientLinkTests {
    /// A link, and the daemon's ends of its two sockets.
    private func linked() -> (GATTClientLink, written: Int32, notifies: Int32) {
        func pair() -> (Int32, Int32) {
            var ends: [Int32] = [0, 0]
            #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends) == 0)
            return (ends[0], ends[1])
        }
        let (ours, written) = pair()
        let (notified, notifies) = pair()
        let link = GATTClientLink(
            writing: ours, notifications: notified, maximumFrameByteCount: 510,
            remote: LinkAddress(host: "a", port: 0, medium: .bluetooth), onClose: {})
        return (link, written, notifies)
    }

    @Test("each notification is a piece; an empty one is skipped, and is not the end") func pieces() {
        let (link, written, notifies) = linked()
        defer { for end in [written, notifies] { close(end) } }
        for piece in [[1, 2, 3], [], [4]] as [[UInt8]] { #expect(send(notifies, piece, piece.count, 0) == piece.count) }
        #expect(link.receive() == [1, 2, 3])
        #expect(link.receive() == [4])
    }

    @Test("the link ends when the daemon closes its socket") func end() throws {
        let (link, written, notifies) = linked()
        defer { close(written) }
        let received = Monitor<[UInt8]??>(nil)
        close(notifies)
        _ = try BlockingThread.start {
            // The state after a wait: the end itself does not set errno.
            errno = EAGAIN
            let piece = link.receive()
            received.update { $0 = .some(piece) }
        }
        #expect(received.wait { $0 } == nil)
    }

    @Test("frames that exceed the socket's buffer wait until the daemon reads") func burst() throws {
        let (link, written, notifies) = linked()
        defer { for end in [written, notifies] { close(end) } }
        let count = 2000
        let sent = Monitor(0)
        _ = try BlockingThread.start {
            for _ in 0..<count where (try? link.send([UInt8](repeating: 7, count: 510))) != nil { sent.update { $0 += 1 } }
        }
        var buffer = [UInt8](repeating: 0, count: 600)
        for _ in 0..<count { #expect(recv(written, &buffer, buffer.count, 0) == 510) }
        sent.wait { $0 == count ? () : nil }
    }

    @Test("closing wakes a waiting reader") func closed() throws {
        let (link, written, notifies) = linked()
        defer { for end in [written, notifies] { close(end) } }
        let isOver = Monitor(false)
        _ = try BlockingThread.start {
            while link.receive() != nil {}
            isOver.update { $0 = true }
        }
        link.close()
        isOver.wait { $0 ? () : nil }
        #expect(throws: LinkError.self) { try link.send([1]) }
    }
}
