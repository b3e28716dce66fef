internal import CNearshareShims
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// TLS over a link. OpenSSL encrypts in memory; the link's blocking calls move the bytes.
final class TLSLink: SecureLink {
    /// OpenSSL's state, used with the lock held.
    private struct Connection: ~Copyable, @unchecked Sendable {
        let raw: UnsafeMutableRawPointer
        /// The failure behind content that was still read; thrown by the next read.
        var failure: LinkError?

        deinit { nearshare_tls_close(raw) }
    }

    /// The bytes that OpenSSL reads: those of one read from the link.
    private final class ReceivedBytes: @unchecked Sendable {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: TLSLink.blockByteCount, alignment: 16)

        deinit { buffer.deallocate() }
    }

    /// The outcome of decrypting received records.
    private struct ReadOutcome {
        var count = 0
        var isAtEnd = false
        var failure: LinkError?
        /// Whether OpenSSL has bytes for the peer, such as an alert.
        var hasOutput = false
    }

    private let link: any StreamLink
    /// Used by the thread that reads.
    private let received: ReceivedBytes
    /// Not held while the link reads or writes: that may block, and must not hold up the other direction.
    private let connection: Mutex<Connection>
    /// Held while encrypted bytes move to the link, so that they keep OpenSSL's order.
    private let output = Mutex<Void>(())
    let peerFingerprint: [UInt8]?

    /// Bytes that are read from the link, or written to it, at once: eight records.
    private static let blockByteCount = 1 << 17

    /// Shakes hands; blocks. Closing the link wakes it.
    init(_ link: any StreamLink, _ context: TLSContext, now: WallTime) throws(LinkError) {
        guard let raw = nearshare_tls_open(context.raw, context.isServer ? 1 : 0, now.milliseconds / 1000) else {
            throw LinkError(.unavailable, "could not begin a TLS connection: out of memory")
        }
        let connection = Connection(raw: raw, failure: nil)
        let received = ReceivedBytes()
        while true {
            let code = nearshare_tls_handshake(raw)
            var failure = code == NEARSHARE_TLS_FAILED ? Self.failure(link) : nil
            // Also when the handshake has failed: OpenSSL has written an alert for the peer.
            do throws(LinkError) {
                try Self.flush(to: link) { nearshare_tls_drain(raw, $0.baseAddress, Int32($0.count)) }
            } catch {
                failure = failure ?? error
            }
            if let failure { throw failure }
            if code > 0 { break }
            let bytes = try Self.read(from: link, into: received)
            guard !bytes.isEmpty else {
                throw LinkError(.broken, "\(link.remote) closed the connection during the TLS handshake")
            }
            try Self.feed(bytes, to: raw)
        }
        var fingerprint = [UInt8](repeating: 0, count: Int(NEARSHARE_FINGERPRINT_LENGTH))
        peerFingerprint = nearshare_tls_peer_fingerprint(raw, &fingerprint) == 1 ? fingerprint : nil
        (self.link, self.received) = (link, received)
        self.connection = Mutex(connection)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        guard !buffer.isEmpty else { return 0 }
        while true {
            let outcome = connection.withLock { connection in Self.readRecords(of: &connection, from: link, into: buffer) }
            // A failure to send an alert does not hide what the peer has sent.
            if outcome.hasOutput { flushIfAvailable() }
            if let failure = outcome.failure {
                guard outcome.count > 0 else { throw failure }
                connection.withLock { $0.failure = failure }
            }
            if outcome.count > 0 { return outcome.count }
            if outcome.isAtEnd { return 0 }
            let bytes = try Self.read(from: link, into: received)
            // Also where the peer has not announced the end (close_notify): HTTP tells by its lengths whether content is whole.
            if bytes.isEmpty { return 0 }
            try connection.withLock { (connection) throws(LinkError) in try Self.feed(bytes, to: connection.raw) }
        }
    }

    /// Reads as many received records as there are and as fit.
    private static func readRecords(
        of connection: inout Connection, from link: any StreamLink, into buffer: UnsafeMutableRawBufferPointer
    ) -> ReadOutcome {
        var outcome = ReadOutcome()
        if let failure = connection.failure.take() {
            outcome.failure = failure
            return outcome
        }
        var code = Int32(1)
        while outcome.count < buffer.count, code > 0 {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[outcome.count...])
            code = nearshare_tls_read(connection.raw, rest.baseAddress, Int32(clamping: rest.count))
            if code > 0 { outcome.count += Int(code) }
        }
        if code == NEARSHARE_TLS_FAILED { outcome.failure = failure(link) }
        outcome.isAtEnd = code == NEARSHARE_TLS_END
        outcome.hasOutput = nearshare_tls_has_output(connection.raw) == 1
        return outcome
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        var rest = bytes
        while !rest.isEmpty {
            let block = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.blockByteCount))
            try output.withLock { (_) throws(LinkError) in
                try connection.withLock { (connection) throws(LinkError) in
                    guard nearshare_tls_write(connection.raw, block.baseAddress, Int32(block.count)) == 1 else {
                        throw Self.failure(link)
                    }
                }
                try flush()
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(block.count))
        }
        flushIfAvailable()
    }

    func finishWriting() {
        try? output.withLock { (_) throws(LinkError) in
            connection.withLock { connection in nearshare_tls_finish(connection.raw) }
            try flush()
        }
        link.finishWriting()
    }

    private static func failure(_ link: any StreamLink) -> LinkError {
        LinkError(.broken, TLSError.last("TLS with \(link.remote) failed").description)
    }

    /// Writes what OpenSSL has encrypted, with the lock of the output held.
    private func flush() throws(LinkError) {
        try Self.flush(to: link) { buffer in
            connection.withLock { connection in
                nearshare_tls_drain(connection.raw, buffer.baseAddress, Int32(buffer.count))
            }
        }
    }

    /// Writes what OpenSSL has for the peer, unless another thread holds the output, for which reading does not wait: a write looks for
    /// further bytes once more when it has released the output. A failure is left to the next write or read.
    private func flushIfAvailable() {
        while connection.withLock({ nearshare_tls_has_output($0.raw) == 1 }) {
            let isFlushed = try? output.withLockIfAvailable { (_) throws(LinkError) -> Bool in
                try flush()
                return true
            }
            guard isFlushed == true else { return }
        }
    }

    /// Writes what OpenSSL has encrypted. After a failure the rest is dropped: the peer cannot decrypt it without what was lost.
    /// - Parameter drain: removes encrypted bytes, and returns their number.
    private static func flush(
        to link: any StreamLink, _ drain: (UnsafeMutableRawBufferPointer) -> Int32
    ) throws(LinkError) {
        var failure: LinkError?
        withUnsafeTemporaryAllocation(byteCount: blockByteCount, alignment: 16) { buffer in
            while true {
                let count = Int(drain(buffer))
                guard count > 0 else { return }
                guard failure == nil else { continue }
                do throws(LinkError) {
                    try link.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                } catch {
                    failure = error
                }
            }
        }
        if let failure { throw failure }
    }

    /// - Returns: no bytes at the end of the stream.
    private static func read(
        from link: any StreamLink, into received: ReceivedBytes
    ) throws(LinkError) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: received.buffer[..<(try link.read(into: received.buffer))])
    }

    /// Passes received bytes on to OpenSSL, which has read all earlier ones.
    private static func feed(_ bytes: UnsafeRawBufferPointer, to raw: UnsafeMutableRawPointer) throws(LinkError) {
        guard nearshare_tls_feed(raw, bytes.baseAddress, Int32(bytes.count)) == 1 else {
            throw LinkError(.unavailable, "out of memory")
        }
    }
}
