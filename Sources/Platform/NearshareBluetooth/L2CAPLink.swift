internal import CNearshareBluetooth
internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// A stream over an LE connection-oriented channel.
///
/// A channel carries messages, has no half-close, and forgets what is still queued when it is closed. So each message begins with
/// its kind: content, the end of ours, and word that the other side has read all up to its end. After our end, closing waits in
/// the background for that word.
final class L2CAPLink: StreamLink {
    private enum Kind {
        static let content: UInt8 = 0
        static let end: UInt8 = 1
        static let endHeard: UInt8 = 2
    }

    private struct State {
        /// Read, and not handed out: the caller's buffer was smaller than a message.
        var rest: ArraySlice<UInt8> = []
        var hasHeardEnd = false
        var hasSentEnd = false
        var isOver = false
        var isClosed = false
    }

    let remote: LinkAddress
    private let descriptor: Int32
    private let wakeup = EventFD()
    private let sendLimit: Int
    private let state = Monitor(State())
    private let onClose: @Sendable () -> Void

    /// Bytes of a message that we take, its kind included.
    static let receiveLimit: UInt16 = 4096
    private static let lingerTime = Duration.seconds(5)

    /// Takes the descriptor over, which is connected.
    init(descriptor: Int32, remote: LinkAddress, onClose: @escaping @Sendable () -> Void) {
        self.descriptor = descriptor
        self.remote = remote
        self.onClose = onClose
        sendLimit = max(1, Int(nearshare_l2cap_send_limit(descriptor)) - 1)
        var size: Int32 = 128 << 10
        // A control frame should not stand behind seconds of content.
        setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit {
        Glibc.close(descriptor)
        onClose()
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        let held: Int? = state.withLock { state in
            if state.hasHeardEnd, state.rest.isEmpty { return 0 }
            guard !state.rest.isEmpty else { return nil }
            let count = min(buffer.count, state.rest.count)
            buffer.copyBytes(from: state.rest.prefix(count))
            state.rest = state.rest.dropFirst(count)
            return count
        }
        if let held { return held }
        if buffer.count >= Int(Self.receiveLimit) { return try receive(into: buffer) }
        return try withUnsafeTemporaryAllocation(byteCount: Int(Self.receiveLimit), alignment: 1) { whole throws(LinkError) in
            let count = try receive(into: whole)
            let taken = min(count, buffer.count)
            buffer.copyBytes(from: whole[..<taken])
            if taken < count { state.withLock { $0.rest = Array(whole[taken..<count])[...] } }
            return taken
        }
    }

    /// Waits for content or the end.
    private func receive(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        while true {
            if state.withLock({ $0.isClosed }) { throw LinkError(.closed, "the channel was closed") }
            guard let (kind, count) = try take(into: buffer) else {
                wait(milliseconds: -1)
                continue
            }
            switch kind {
            case Kind.content where count > 0: return count
            case Kind.content: continue
            case Kind.endHeard: state.withLock { $0.isOver = true }
            case Kind.end:
                state.withLock { $0.hasHeardEnd = true }
                // Lost only with the channel, whose end says the same.
                _ = nearshare_l2cap_send(descriptor, Kind.endHeard, nil, 0, 1)
                return 0
            default: throw LinkError(.broken, "\(remote) sends what is no message of a channel of ours")
            }
        }
    }

    /// - Returns: nil when nothing is there yet.
    private func take(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> (kind: UInt8, count: Int)? {
        var kind: UInt8 = 0
        let count = nearshare_l2cap_receive(descriptor, &kind, buffer.baseAddress, UInt32(buffer.count))
        switch count {
        case 0...: return (kind, Int(count))
        case -1 where errno == EAGAIN: return nil
        case -1: throw LinkError(.broken, "the channel to \(remote) broke: \(systemError())")
        case -2: throw LinkError(.broken, "\(remote) is gone, or out of range")
        default: throw LinkError(.broken, "\(remote) sends larger messages than were agreed")
        }
    }

    private func wait(milliseconds: Int32) {
        var waiting = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        _ = poll(&waiting, nfds_t(waiting.count), milliseconds)
    }

    /// Addresses of radios mean nothing to those out of their range.
    var localHost: String? { nil }

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        var rest = bytes
        while !rest.isEmpty {
            let piece = UnsafeRawBufferPointer(rebasing: rest.prefix(sendLimit))
            if nearshare_l2cap_send(descriptor, Kind.content, piece.baseAddress, UInt32(piece.count), 0) != 0 {
                guard errno == EAGAIN else { throw LinkError(.broken, "the channel to \(remote) broke: \(systemError())") }
                break
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(piece.count))
        }
        return bytes.count - rest.count
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        var rest = bytes
        while !rest.isEmpty {
            let piece = UnsafeRawBufferPointer(rebasing: rest.prefix(sendLimit))
            guard nearshare_l2cap_send(descriptor, Kind.content, piece.baseAddress, UInt32(piece.count), 1) == 0 else {
                throw LinkError(.broken, "the channel to \(remote) broke: \(systemError())")
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(piece.count))
        }
    }

    func finishWriting() {
        let isFirst = state.withLock { state in
            defer { state.hasSentEnd = true }
            return !state.hasSentEnd && !state.isClosed
        }
        if isFirst { _ = nearshare_l2cap_send(descriptor, Kind.end, nil, 0, 1) }
    }

    func close() {
        let (isFirst, isWaiting) = state.withLock { state in
            defer { state.isClosed = true }
            return (!state.isClosed, state.hasSentEnd && !state.isOver)
        }
        guard isFirst else { return }
        wakeup.signal()
        guard isWaiting else { return cut() }
        BlockingThread.start { [self] in
            linger()
            cut()
        }
    }

    private func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Reads on, whatever comes, until the other side has said that it has read all, or is gone, or takes too long.
    private func linger() {
        let end = MonotonicInstant.now + Self.lingerTime
        withUnsafeTemporaryAllocation(byteCount: Int(Self.receiveLimit), alignment: 1) { buffer in
            while !state.withLock({ $0.isOver }) {
                var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                let left = Int32(clamping: (end - .now).nanoseconds / 1_000_000)
                guard left > 0, poll(&waiting, 1, left) > 0 else { return }
                guard let message = try? take(into: buffer) else { return }
                if message.kind == Kind.endHeard { return }
            }
        }
    }
}

func systemError(_ code: Int32 = errno) -> String { String(cString: strerror(code)).lowercased() }
