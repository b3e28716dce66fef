import Glibc
import NearshareInterfaces
import Testing

@Suite("waiting for descriptors", .timeLimit(.minutes(1)))
struct DescriptorPollTests {
    @Test("a signalled wake-up descriptor is readable until it is reset")
    func eventFD() {
        let event = EventFD()
        #expect(event.isOpen)
        #expect(DescriptorPoll.wait(for: event.descriptor, .readable, timeout: .zero).isEmpty)
        event.signal()
        event.signal()
        #expect(DescriptorPoll.wait(for: event.descriptor, .readable, timeout: nil) == .readable)
        event.reset()
        #expect(DescriptorPoll.wait(for: event.descriptor, .readable, timeout: .zero).isEmpty)
    }

    @Test("a wake-up ends a wait for another descriptor, which is not ready")
    func wakeup() throws {
        let (wakeup, other) = (EventFD(), EventFD())
        _ = try BlockingThread.start { wakeup.signal() }
        #expect(DescriptorPoll.wait(for: other.descriptor, .readable, wakeup: wakeup, timeout: nil).isEmpty)
        other.signal()
        #expect(DescriptorPoll.wait(for: other.descriptor, .readable, wakeup: wakeup, timeout: nil) == .readable)
    }

    @Test("a closed peer is a broken descriptor")
    func broken() {
        var ends: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        defer { close(ends[0]) }
        close(ends[1])
        #expect(!DescriptorPoll.wait(for: ends[0], [], timeout: nil).isDisjoint(with: .broken))
    }

    @Test(
        "timeouts are rounded up, and clamped",
        arguments: [
            (Duration.zero, Int32(0)), (.nanoseconds(1), 1), (.microseconds(1001), 2), (.milliseconds(5), 5), (.seconds(-1), 0),
            (.seconds(1 << 40), .max), (.seconds(1 << 60), .max),
        ])
    func timeouts(_ timeout: Duration, _ milliseconds: Int32) {
        #expect(DescriptorPoll.milliseconds(timeout) == milliseconds)
    }

    @Test("connecting to a socket without an accepting process ends in time or at once")
    func connecting() {
        #expect(
            SocketCalls.connect(-1, timeout: .zero) {
                errno = ECONNREFUSED
                return -1
            } == ECONNREFUSED)
        #expect(SocketCalls.connect(-1, timeout: .zero) { 0 } == 0)
        let cancellation = EventFD()
        cancellation.signal()
        #expect(
            SocketCalls.connect(-1, timeout: .seconds(60), cancelledBy: cancellation) {
                errno = EINPROGRESS
                return -1
            } == ECANCELED)
        #expect(systemErrorText(ENOENT) == "no such file or directory")
    }
}
