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

    private let link: any StreamLink
    /// Used by the thread that reads.
    private let received: ReceivedBytes
    private let connection: Mutex<Connection>
    let peerFingerprint: [UInt8]?

    /// Bytes that are read from the link, or written to it, at once: eight records.
    private static let blockByteCount = 1 << 17

    /// Shakes hands.
    init(_ link: any StreamLink, _ context: TLSContext, now: WallTime) throws(LinkError) {
        guard let raw = nearshare_tls_open(context.raw, context.isServer ? 1 : 0, now.milliseconds / 1000) else {
            throw LinkError(.unavailable, "could not begin a TLS connection: out of memory")
        }
        let connection = Connection(raw: raw, failure: nil)
        let received = ReceivedBytes()
        while true {
            let code = nearshare_tls_handshake(raw)
            let failure = code == NEARSHARE_TLS_FAILED ? Self.failure(link) : nil
            // An alert as well.
            try Self.flush(raw, to: link)
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
            let (count, isAtEnd) = try connection.withLock { (connection) throws(LinkError) -> (Int, Bool) in
                try Self.readRecords(of: &connection, from: link, into: buffer)
            }
            if count > 0 { return count }
            if isAtEnd { return 0 }
            // Without the lock: another thread may write meanwhile.
            let bytes = try Self.read(from: link, into: received)
            if bytes.isEmpty { return 0 }
            try connection.withLock { (connection) throws(LinkError) in try Self.feed(bytes, to: connection.raw) }
        }
    }

    /// Reads as many received records as there are and as fit.
    private static func readRecords(
        of connection: inout Connection, from link: any StreamLink, into buffer: UnsafeMutableRawBufferPointer
    ) throws(LinkError) -> (count: Int, isAtEnd: Bool) {
        if let failure = connection.failure.take() { throw failure }
        var (count, code) = (0, Int32(1))
        while count < buffer.count, code > 0 {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
            code = nearshare_tls_read(connection.raw, rest.baseAddress, Int32(clamping: rest.count))
            if code > 0 { count += Int(code) }
        }
        let failure = code == NEARSHARE_TLS_FAILED ? failure(link) : nil
        try flush(connection.raw, to: link)
        if count > 0 { connection.failure = failure } else if let failure { throw failure }
        return (count, code == NEARSHARE_TLS_END)
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        var rest = bytes
        while !rest.isEmpty {
            let block = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.blockByteCount))
            try connection.withLock { (connection) throws(LinkError) in
                guard nearshare_tls_write(connection.raw, block.baseAddress, Int32(block.count)) == 1 else {
                    throw Self.failure(link)
                }
                try Self.flush(connection.raw, to: link)
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(block.count))
        }
    }

    func finishWriting() {
        connection.withLock { connection in
            nearshare_tls_finish(connection.raw)
            try? Self.flush(connection.raw, to: link)
        }
        link.finishWriting()
    }

    private static func failure(_ link: any StreamLink) -> LinkError {
        LinkError(.broken, TLSError.last("TLS with \(link.remote) failed").description)
    }

    /// Writes what OpenSSL has encrypted.
    private static func flush(_ raw: UnsafeMutableRawPointer, to link: any StreamLink) throws(LinkError) {
        var failure: LinkError?
        withUnsafeTemporaryAllocation(byteCount: blockByteCount, alignment: 16) { buffer in
            while failure == nil {
                let count = Int(nearshare_tls_drain(raw, buffer.baseAddress, Int32(buffer.count)))
                guard count > 0 else { return }
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
