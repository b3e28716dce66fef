internal import NearshareInterfaces

/// A frame link that a central has opened to us: it writes to our characteristic, and we notify it.
///
/// BlueZ hands us the writes one by one with their sender, so that each is a piece; notifications go to all centrals at once, which
/// ``NotificationQueue`` deals with.
final class PeripheralLink: FrameLink {
    private struct Incoming {
        var pieces: [[UInt8]] = []
        var isClosed = false
    }

    let remote: LinkAddress
    let maximumFrameByteCount: Int
    let delivery = FrameDelivery.whole
    let device: String
    private let incoming = Monitor(Incoming())
    private let queue: NotificationQueue
    private let onClose: @Sendable () -> Void

    /// Each at most 512 bytes; what comes faster than it is read is lost, as on any radio.
    private static let maximumPieces = 256

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

    /// - Returns: false when it was lost.
    @discardableResult
    func deliver(_ piece: [UInt8]) -> Bool {
        incoming.update { incoming in
            guard !incoming.isClosed, incoming.pieces.count < Self.maximumPieces else { return false }
            incoming.pieces.append(piece)
            return true
        }
    }

    func receive() -> [UInt8]? {
        incoming.wait { incoming -> [UInt8]?? in
            if incoming.isClosed { return .some(nil) }
            return incoming.pieces.isEmpty ? nil : .some(incoming.pieces.removeFirst())
        }
    }

    func send(_ frame: [UInt8]) throws(LinkError) {
        guard queue.append(frame, for: device) else { throw LinkError(.broken, "\(remote) is gone") }
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
