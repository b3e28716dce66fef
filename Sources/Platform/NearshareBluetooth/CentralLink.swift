internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// A frame link that we have opened: we write to the other side's characteristic, and are notified by it.
///
/// BlueZ hands out a socket for each direction, whose packets are writes and notifications; so bytes go past the bus. Both
/// descriptors end with the connection.
final class CentralLink: FrameLink {
    let remote: LinkAddress
    let maximumFrameByteCount: Int
    let delivery = FrameDelivery.stream
    private let writing: Int32
    private let notified: Int32
    private let wakeup = EventFD()
    private let isClosed = Atomic(false)
    private let onClose: @Sendable () -> Void

    /// The other side takes nothing for so long: it is out of range, or hangs.
    private static let patienceMilliseconds: Int32 = 30_000
    /// A peer announces itself every half minute; one that is silent for longer does not speak to us.
    private static let silenceMilliseconds: Int32 = 150_000
    private static let largestNotification = 517

    /// Takes the descriptors over.
    init(
        writing: Int32, notified: Int32, maximumFrameByteCount: Int, remote: LinkAddress,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.writing = writing
        self.notified = notified
        self.maximumFrameByteCount = maximumFrameByteCount
        self.remote = remote
        self.onClose = onClose
        for descriptor in [writing, notified] {
            _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        }
    }

    deinit {
        for descriptor in [writing, notified] where descriptor >= 0 { Glibc.close(descriptor) }
    }

    func receive() -> [UInt8]? {
        while !isClosed.load(ordering: .acquiring) {
            var count = 0
            var code: Int32 = 0
            let piece = [UInt8](unsafeUninitializedCapacity: Self.largestNotification) { buffer, filled in
                count = recv(notified, buffer.baseAddress, buffer.count, 0)
                code = errno
                filled = max(0, count)
            }
            if count > 0 { return piece }
            if count == 0 {
                // An empty notification, or the end, which has hung up as well.
                if hasHungUp { return nil }
                continue
            }
            guard code == EAGAIN || code == EINTR, wait(for: notified, POLLIN, Self.silenceMilliseconds) else { return nil }
        }
        return nil
    }

    private var hasHungUp: Bool {
        var look = pollfd(fd: notified, events: 0, revents: 0)
        return poll(&look, 1, 0) != 0
    }

    func send(_ frame: [UInt8]) throws(LinkError) {
        while !isClosed.load(ordering: .acquiring) {
            let count = Glibc.send(writing, frame, frame.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return }
            guard errno == EAGAIN || errno == EINTR, wait(for: writing, POLLOUT, Self.patienceMilliseconds) else { break }
        }
        throw LinkError(.broken, "\(remote) is gone, or takes no more")
    }

    /// - Returns: false at the end, or when time ran out.
    private func wait(for descriptor: Int32, _ events: Int32, _ milliseconds: Int32) -> Bool {
        var waiting = [
            pollfd(fd: descriptor, events: Int16(events), revents: 0),
            pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        let ready = poll(&waiting, nfds_t(waiting.count), milliseconds)
        if ready < 0 { return errno == EINTR }
        return waiting[0].revents & Int16(events) != 0
    }

    func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        wakeup.signal()
        // BlueZ unsubscribes when its ends see this.
        shutdown(writing, Int32(SHUT_RDWR))
        shutdown(notified, Int32(SHUT_RDWR))
        onClose()
    }
}
