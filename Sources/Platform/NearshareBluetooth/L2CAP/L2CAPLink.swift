internal import CNearshareBluetooth
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A stream over an LE connection-oriented channel (docs/PROTOCOL.md, section 2).
///
/// A channel carries messages (SDUs), has no half-close, and drops queued messages when it is closed. So each message begins
/// with its type: data, the end of the sender's data, or the acknowledgement of the peer's end. After the end of its own data,
/// closing waits in the background for that acknowledgement.
final class L2CAPLink: StreamLink {
    private enum MessageType {
        static let data: UInt8 = 0
        static let fin: UInt8 = 1
        static let finAcknowledged: UInt8 = 2
    }

    /// Whether a call may block; the values are those of the C functions.
    private enum Blocking {
        static let no: Int32 = 0
        static let yes: Int32 = 1
    }

    private struct State {
        /// The rest of a message that did not fit the caller's buffer.
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
    /// Limit on the data of one message, in bytes: the peer's MTU without the message type.
    private let sendMTU: Int
    private let state = Monitor(State())
    private let onClose: @Sendable () -> Void

    /// Limit on a received message with its type, in bytes.
    static let receiveMTU = 4096
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
        sendMTU = max(1, Int(nearshare_l2cap_send_limit(descriptor)) - 1)
        _ = SocketCalls.setOption(SO_SNDBUF, level: SOL_SOCKET, to: Self.sendBufferSize, of: descriptor)
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
        if buffer.count >= Self.receiveMTU { return try receive(into: buffer) }
        return try withUnsafeTemporaryAllocation(
            byteCount: Self.receiveMTU, alignment: 1
        ) { message throws(LinkError) in
            let count = try receive(into: message)
            let copied = min(count, buffer.count)
            buffer.copyBytes(from: message[..<copied])
            if copied < count { state.withLock { $0.buffered = Array(message[copied..<count])[...] } }
            return copied
        }
    }

    /// Blocks until data arrives; returns 0 at the end of the peer's data.
    private func receive(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        while true {
            if state.withLock({ $0.isClosed }) { throw LinkError(.closed, "the channel was closed") }
            guard let (type, count) = try receiveMessage(into: buffer) else {
                _ = DescriptorPoll.wait(for: descriptor, .readable, wakeup: wakeup, timeout: nil)
                continue
            }
            switch type {
            case MessageType.data where count > 0: return count
            case MessageType.data: continue
            case MessageType.finAcknowledged: state.withLock { $0.isEndAcknowledged = true }
            case MessageType.fin:
                state.withLock { $0.hasReceivedEnd = true }
                // If this cannot be sent, the channel has ended, which the peer takes for an acknowledgement.
                _ = nearshare_l2cap_send(descriptor, MessageType.finAcknowledged, nil, 0, Blocking.yes)
                return 0
            default: throw LinkError(.broken, "the connection to \(remote) was ended: malformed data")
            }
        }
    }

    /// - Returns: nil when no message has arrived.
    private func receiveMessage(
        into buffer: UnsafeMutableRawBufferPointer
    ) throws(LinkError) -> (type: UInt8, count: Int)? {
        var type: UInt8 = 0
        let count = nearshare_l2cap_receive(descriptor, &type, buffer.baseAddress, UInt32(buffer.count))
        switch count {
        case 0...: return (type, Int(count))
        case -1 where errno == EAGAIN: return nil
        case -1: throw channelError()
        case -2: throw LinkError(.broken, "\(remote) has disconnected, or is out of range")
        default: throw LinkError(.broken, "the connection to \(remote) was ended: malformed data")
        }
    }

    private func channelError() -> LinkError {
        LinkError(.broken, "the channel to \(remote) failed: \(systemErrorText())")
    }

    /// nil: session members cannot be told to connect to a Bluetooth address, which has no meaning out of range.
    var localHost: String? { nil }

    // MARK: Writing

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        try write(bytes, Blocking.no)
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        _ = try write(bytes, Blocking.yes)
    }

    /// Sends messages of at most ``sendMTU`` bytes.
    /// - Returns: the number of bytes sent; all of them where it may block.
    private func write(_ bytes: UnsafeRawBufferPointer, _ blocking: Int32) throws(LinkError) -> Int {
        var remaining = bytes
        while !remaining.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: remaining.prefix(sendMTU))
            if nearshare_l2cap_send(descriptor, MessageType.data, part.baseAddress, UInt32(part.count), blocking) != 0 {
                guard blocking == Blocking.no, errno == EAGAIN else { throw channelError() }
                break
            }
            remaining = UnsafeRawBufferPointer(rebasing: remaining.dropFirst(part.count))
        }
        return bytes.count - remaining.count
    }

    func finishWriting() {
        let wasOpen = state.withLock { state in
            defer { state.hasSentEnd = true }
            return !state.hasSentEnd && !state.isClosed
        }
        if wasOpen { _ = nearshare_l2cap_send(descriptor, MessageType.fin, nil, 0, Blocking.yes) }
    }

    // MARK: Closing

    func close() {
        let (wasOpen, awaitsAcknowledgement) = state.withLock { state in
            defer { state.isClosed = true }
            return (!state.isClosed, state.hasSentEnd && !state.isEndAcknowledged)
        }
        guard wasOpen else { return }
        wakeup.signal()
        guard awaitsAcknowledgement else { return shutdownSocket() }
        do {
            // The thread ends by itself, after ``lingerTimeout``.
            _ = try BlockingThread.start { [self] in
                linger()
                shutdownSocket()
            }
        } catch {
            // Without a thread to wait on, queued messages may be lost, as on a channel that breaks.
            shutdownSocket()
        }
    }

    private func shutdownSocket() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Reads and drops messages until the peer has acknowledged the end, has disconnected, or ``lingerTimeout`` has passed.
    private func linger() {
        let end = clock() + Self.lingerTimeout
        withUnsafeTemporaryAllocation(byteCount: Self.receiveMTU, alignment: 1) { buffer in
            while !state.withLock({ $0.isEndAcknowledged }) {
                let remaining = end - clock()
                guard remaining > .zero, !DescriptorPoll.wait(for: descriptor, .readable, timeout: remaining).isEmpty,
                    let message = try? receiveMessage(into: buffer), message.type != MessageType.finAcknowledged
                else { return }
            }
        }
    }
}
