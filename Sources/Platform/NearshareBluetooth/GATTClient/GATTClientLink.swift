internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// A frame link that this machine has opened as a central: it writes to the peripheral's characteristic and is notified through
/// it.
///
/// BlueZ hands out a socket for each direction, whose packets are writes and notifications, so bytes do not pass through the
/// bus. Both sockets end with the connection.
final class GATTClientLink: FrameLink {
    let remote: LinkAddress
    let maximumFrameByteCount: Int
    let delivery = FrameDelivery.stream
    private let writing: Int32
    private let notifications: Int32
    private let wakeup = EventFD()
    private let closed = Atomic(false)
    private let lastSignal = Mutex<SignalReading?>(nil)
    private let onClose: @Sendable () -> Void

    /// Timeout of a write: the peripheral is out of range, or hangs.
    private static let writeTimeout = Duration.seconds(30)
    /// Timeout of reception: bitchat's peers announce themselves every 30 s, so a peer that is silent for longer has gone.
    private static let silenceTimeout = Duration.seconds(150)
    /// The largest ATT MTU.
    private static let maximumNotificationSize = 517

    /// Takes ownership of both descriptors.
    init(
        writing: Int32, notifications: Int32, maximumFrameByteCount: Int, remote: LinkAddress,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.writing = writing
        self.notifications = notifications
        self.maximumFrameByteCount = maximumFrameByteCount
        self.remote = remote
        self.onClose = onClose
        for descriptor in [writing, notifications] {
            _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        }
    }

    deinit {
        for descriptor in [writing, notifications] where descriptor >= 0 { Glibc.close(descriptor) }
    }

    var isClosed: Bool { closed.load(ordering: .acquiring) }

    var signal: SignalReading? { lastSignal.withLock { $0 } }

    func setSignal(_ signal: SignalReading) { lastSignal.withLock { $0 = signal } }

    func receive() -> [UInt8]? {
        while !isClosed {
            var count = 0
            var code: Int32 = 0
            let piece = [UInt8](unsafeUninitializedCapacity: Self.maximumNotificationSize) { buffer, filled in
                count = recv(notifications, buffer.baseAddress, buffer.count, 0)
                code = errno
                filled = max(0, count)
            }
            if count > 0 { return piece }
            if count == 0 {
                // An empty notification; or the end, which is a hang-up as well.
                if hasHungUp { return nil }
                continue
            }
            guard code == EAGAIN || code == EINTR, wait(for: notifications, .readable, Self.silenceTimeout) else { return nil }
        }
        return nil
    }

    private var hasHungUp: Bool { !DescriptorPoll.wait(for: notifications, [], timeout: .zero).isEmpty }

    func send(_ frame: [UInt8]) throws(LinkError) {
        while !isClosed {
            let count = Glibc.send(writing, frame, frame.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return }
            guard errno == EAGAIN || errno == EINTR, wait(for: writing, .writable, Self.writeTimeout) else { break }
        }
        throw LinkError(.broken, "\(remote) has disconnected, or does not accept frames any more")
    }

    /// - Returns: false at the end of the link, or when time is over.
    private func wait(for descriptor: Int32, _ events: DescriptorPoll.Events, _ timeout: Duration) -> Bool {
        DescriptorPoll.wait(for: descriptor, events, wakeup: wakeup, timeout: timeout).contains(events)
    }

    func close() {
        guard !closed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        wakeup.signal()
        // BlueZ unsubscribes when its ends see this.
        shutdown(writing, Int32(SHUT_RDWR))
        shutdown(notifications, Int32(SHUT_RDWR))
        onClose()
    }
}
