internal import NearshareInterfaces
internal import Synchronization

/// A frame link that a central has opened to this machine. The central writes frames to this machine's characteristic and
/// receives its notifications.
///
/// Each write is one frame (bitchat specification, section 11), and BlueZ names its sender. Notifications go to all centrals at
/// once: see ``NotificationQueue``.
final class GATTServerLink: FrameLink {
    private struct Incoming {
        var frames: [[UInt8]] = []
        var isClosed = false
    }

    let remote: LinkAddress
    let maximumFrameByteCount: Int
    let delivery = FrameDelivery.whole
    /// The central's object path.
    let devicePath: String
    private let incoming = Monitor(Incoming())
    private let lastSignal = Mutex<SignalReading?>(nil)
    private let queue: NotificationQueue
    private let onClose: @Sendable () -> Void

    /// Limit on frames that wait to be read, each of at most 512 bytes, the longest attribute value of ATT; further ones are
    /// dropped; the mesh tolerates loss.
    private static let capacity = 256

    init(
        devicePath: String, maximumFrameByteCount: Int, remote: LinkAddress, queue: NotificationQueue,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.devicePath = devicePath
        self.maximumFrameByteCount = maximumFrameByteCount
        self.remote = remote
        self.queue = queue
        self.onClose = onClose
        queue.subscribe(devicePath)
    }

    var signal: SignalReading? { lastSignal.withLock { $0 } }

    func setSignal(_ signal: SignalReading) { lastSignal.withLock { $0 = signal } }

    /// - Returns: false when the frame was dropped.
    @discardableResult
    func deliver(_ frame: [UInt8]) -> Bool {
        incoming.update { incoming in
            guard !incoming.isClosed, incoming.frames.count < Self.capacity else { return false }
            incoming.frames.append(frame)
            return true
        }
    }

    func receive() -> [UInt8]? {
        incoming.waitUntilReady { incoming -> MonitorWait<[UInt8]?> in
            if !incoming.frames.isEmpty { return .ready(incoming.frames.removeFirst()) }
            return incoming.isClosed ? .ready(nil) : .waiting()
        }
    }

    func send(_ frame: [UInt8]) throws(LinkError) {
        guard queue.append(frame, for: devicePath) else { throw LinkError(.broken, "\(remote) has disconnected") }
    }

    var isClosed: Bool { incoming.withLock { $0.isClosed } }

    func close() {
        let wasOpen = incoming.update { incoming in
            defer { incoming.isClosed = true }
            return !incoming.isClosed
        }
        guard wasOpen else { return }
        queue.unsubscribe(devicePath)
        onClose()
    }
}
