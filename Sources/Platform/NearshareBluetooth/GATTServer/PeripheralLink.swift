internal import NearshareInterfaces

/// A frame link that a central has opened: it writes to this machine's characteristic and is notified through it.
///
/// BlueZ delivers each write with its sender, so that each is one frame. Notifications go to all centrals at once: see ``NotificationQueue``.
final class PeripheralLink: FrameLink {
    private struct Incoming {
        var frames: [[UInt8]] = []
        var isClosed = false
    }

    let remote: LinkAddress
    let maximumFrameByteCount: Int
    let delivery = FrameDelivery.whole
    /// The central's object path.
    let device: String
    private let incoming = Monitor(Incoming())
    private let queue: NotificationQueue
    private let onClose: @Sendable () -> Void

    /// Limit on frames that wait to be read, each of at most 512 bytes; further ones are lost, as on any radio.
    private static let capacity = 256

    /// - Parameter device: the central's object path.
    init(
        device: String, maximumFrameByteCount: Int, remote: LinkAddress, queue: NotificationQueue,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.device = device
        self.maximumFrameByteCount = maximumFrameByteCount
        self.remote = remote
        self.queue = queue
        self.onClose = onClose
        queue.add(device)
    }

    /// - Returns: false when the frame was lost.
    @discardableResult
    func deliver(_ frame: [UInt8]) -> Bool {
        incoming.update { incoming in
            guard !incoming.isClosed, incoming.frames.count < Self.capacity else { return false }
            incoming.frames.append(frame)
            return true
        }
    }

    func receive() -> [UInt8]? {
        incoming.wait { incoming -> [UInt8]?? in
            if incoming.isClosed { return .some(nil) }
            return incoming.frames.isEmpty ? nil : .some(incoming.frames.removeFirst())
        }
    }

    func send(_ frame: [UInt8]) throws(LinkError) {
        guard queue.append(frame, for: device) else { throw LinkError(.broken, "\(remote) has disconnected") }
    }

    var isClosed: Bool { incoming.withLock { $0.isClosed } }

    func close() {
        let isFirst = incoming.update { incoming in
            defer { incoming.isClosed = true }
            return !incoming.isClosed
        }
        guard isFirst else { return }
        queue.remove(device)
        onClose()
    }
}
