internal import CNearshareBluetooth
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A stream over an LE connection-oriented channel.
///
/// A channel carries messages (SDUs), has no half-close, and drops queued messages when it is closed. So each message begins with its kind:
/// content, the end of the sender's content, or the acknowledgement of the peer's end. After the end of its own content, closing waits in the
/// background for that acknowledgement.
final class L2CAPLink: StreamLink {
    private enum MessageKind {
        static let content: UInt8 = 0
        static let end: UInt8 = 1
        static let endAcknowledged: UInt8 = 2
    }

    private struct State {
        /// Content that was larger than the caller's buffer.
        var buffered: ArraySlice<UInt8> = []
        var hasReceivedEnd = false
        var hasSentEnd = false
        var isEndAcknowledged = false
        var isClosed = false
    }

    let remote: LinkAddress
    private let descriptor: Int32
    private let wakeup = EventFD()
    private let clock: @Sendable () -> MonotonicInstant
    /// The longest content of one message, in bytes.
    private let maximumSendSize: Int
    private let state = Monitor(State())
    private let onClose: @Sendable () -> Void

    /// The longest message that this side accepts, its kind included, in bytes.
    static let maximumReceiveSize: UInt16 = 4096
    private static let lingerTimeout = Duration.seconds(5)
    /// Keeps control frames from waiting behind seconds of content.
    private static let sendBufferSize: Int32 = 128 << 10

    /// Takes ownership of a connected descriptor.
    init(
        descriptor: Int32, remote: LinkAddress, clock: @escaping @Sendable () -> MonotonicInstant,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.descriptor = descriptor
        self.remote = remote
        self.clock = clock
        self.onClose = onClose
        maximumSendSize = max(1, Int(nearshare_l2cap_send_limit(descriptor)) - 1)
        _ = SocketCalls.setOption(descriptor, SOL_SOCKET, SO_SNDBUF, Self.sendBufferSize)
    }

    deinit {
        Glibc.close(descriptor)
        onClose()
    }

    // MARK: Reading

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        let buffered: Int? = state.withLock { state in
            if state.hasReceivedEnd, state.buffered.isEmpty { return 0 }
            guard !state.buffered.isEmpty else { return nil }
            let count = min(buffer.count, state.buffered.count)
            buffer.copyBytes(from: state.buffered.prefix(count))
            state.buffered = state.buffered.dropFirst(count)
            return count
        }
        if let buffered { return buffered }
        if buffer.count >= Int(Self.maximumReceiveSize) { return try receive(into: buffer) }
        return try withUnsafeTemporaryAllocation(
            byteCount: Int(Self.maximumReceiveSize), alignment: 1
        ) { message throws(LinkError) in
            let count = try receive(into: message)
            let copied = min(count, buffer.count)
            buffer.copyBytes(from: message[..<copied])
            if copied < count { state.withLock { $0.buffered = Array(message[copied..<count])[...] } }
            return copied
        }
    }

    /// Waits for content or the end of it.
    private func receive(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        while true {
            if state.withLock({ $0.isClosed }) { throw LinkError(.closed, "the channel was closed") }
            guard let (kind, count) = try receiveMessage(into: buffer) else {
                _ = DescriptorPoll.wait(for: descriptor, .readable, wakeup: wakeup, timeout: nil)
                continue
            }
            switch kind {
            case MessageKind.content where count > 0: return count
            case MessageKind.content: continue
            case MessageKind.endAcknowledged: state.withLock { $0.isEndAcknowledged = true }
            case MessageKind.end:
                state.withLock { $0.hasReceivedEnd = true }
                // Lost only with the channel, whose end has the same meaning.
                _ = nearshare_l2cap_send(descriptor, MessageKind.endAcknowledged, nil, 0, 1)
                return 0
            default: throw LinkError(.broken, "\(remote) sends messages of an unknown kind")
            }
        }
    }

    /// - Returns: nil when no message has arrived.
    private func receiveMessage(
        into buffer: UnsafeMutableRawBufferPointer
    ) throws(LinkError) -> (kind: UInt8, count: Int)? {
        var kind: UInt8 = 0
        let count = nearshare_l2cap_receive(descriptor, &kind, buffer.baseAddress, UInt32(buffer.count))
        switch count {
        case 0...: return (kind, Int(count))
        case -1 where errno == EAGAIN: return nil
        case -1: throw broken()
        case -2: throw LinkError(.broken, "\(remote) has disconnected, or is out of range")
        default: throw LinkError(.broken, "\(remote) sends messages that are too large")
        }
    }

    private func broken() -> LinkError {
        LinkError(.broken, "the channel to \(remote) failed: \(systemErrorText())")
    }

    /// A Bluetooth address has no meaning to peers out of range.
    var localHost: String? { nil }

    // MARK: Writing

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        var rest = bytes
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest.prefix(maximumSendSize))
            if nearshare_l2cap_send(descriptor, MessageKind.content, part.baseAddress, UInt32(part.count), 0) != 0 {
                guard errno == EAGAIN else { throw broken() }
                break
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
        }
        return bytes.count - rest.count
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        var rest = bytes
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest.prefix(maximumSendSize))
            guard nearshare_l2cap_send(descriptor, MessageKind.content, part.baseAddress, UInt32(part.count), 1) == 0 else {
                throw broken()
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
        }
    }

    func finishWriting() {
        let isFirst = state.withLock { state in
            defer { state.hasSentEnd = true }
            return !state.hasSentEnd && !state.isClosed
        }
        if isFirst { _ = nearshare_l2cap_send(descriptor, MessageKind.end, nil, 0, 1) }
    }

    // MARK: Closing

    func close() {
        let (isFirst, awaitsAcknowledgement) = state.withLock { state in
            defer { state.isClosed = true }
            return (!state.isClosed, state.hasSentEnd && !state.isEndAcknowledged)
        }
        guard isFirst else { return }
        wakeup.signal()
        guard awaitsAcknowledgement else { return shutDown() }
        do {
            try BlockingThread.start { [self] in
                linger()
                shutDown()
            }
        } catch {
            // Without a thread to wait on, queued messages may be lost, as on a channel that breaks.
            shutDown()
        }
    }

    private func shutDown() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Reads and drops messages until the peer has acknowledged the end, has disconnected, or time is over.
    private func linger() {
        let end = clock() + Self.lingerTimeout
        withUnsafeTemporaryAllocation(byteCount: Int(Self.maximumReceiveSize), alignment: 1) { buffer in
            while !state.withLock({ $0.isEndAcknowledged }) {
                let remaining = end - clock()
                guard remaining > .zero, !DescriptorPoll.wait(for: descriptor, .readable, timeout: remaining).isEmpty,
                    let message = try? receiveMessage(into: buffer), message.kind != MessageKind.endAcknowledged
                else { return }
            }
        }
    }
}
