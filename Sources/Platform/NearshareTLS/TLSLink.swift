internal import CNearshareShims
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// TLS over a link. OpenSSL encrypts in memory; the link's blocking calls move the bytes.
final class TLSLink: SecureLink {
    /// OpenSSL's state, used with the lock held.
    private struct Connection: ~Copyable, @unchecked Sendable {
        let raw: UnsafeMutableRawPointer

        deinit { nearshare_tls_close(raw) }
    }

    private let link: any StreamLink
    private let connection: Mutex<Connection>
    let peerFingerprint: [UInt8]?

    /// Bytes that are read from the link, or written to it, at once: two records.
    private static let blockByteCount = 1 << 15

    /// Shakes hands.
    init(_ link: any StreamLink, _ context: TLSContext, now: WallTime) throws(LinkError) {
        guard let raw = nearshare_tls_open(context.raw, context.isServer ? 1 : 0, now.milliseconds / 1000) else {
            throw LinkError(.unavailable, "could not begin a TLS connection: out of memory")
        }
        let connection = Connection(raw: raw)
        while true {
            let code = nearshare_tls_handshake(raw)
            let failure = code == NEARSHARE_TLS_FAILED ? Self.failure(link) : nil
            // An alert as well.
            try Self.flush(raw, to: link)
            if let failure { throw failure }
            if code > 0 { break }
            guard try Self.fill(raw, from: link) else {
                throw LinkError(.broken, "\(link.remote) closed the connection during the TLS handshake")
            }
        }
        var fingerprint = [UInt8](repeating: 0, count: Int(NEARSHARE_FINGERPRINT_LENGTH))
        peerFingerprint = nearshare_tls_peer_fingerprint(raw, &fingerprint) == 1 ? fingerprint : nil
        self.link = link
        self.connection = Mutex(connection)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        guard !buffer.isEmpty else { return 0 }
        while true {
            let code = try connection.withLock { (connection) throws(LinkError) in
                let code = nearshare_tls_read(connection.raw, buffer.baseAddress, Int32(clamping: buffer.count))
                let failure = code == NEARSHARE_TLS_FAILED ? Self.failure(link) : nil
                try Self.flush(connection.raw, to: link)
                if let failure { throw failure }
                return code
            }
            if code > 0 { return Int(code) }
            if code == NEARSHARE_TLS_END { return 0 }
            // Without the lock: another thread may write meanwhile.
            guard try fill() else { return 0 }
        }
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

    /// Reads from the link before the connection is shared.
    /// - Returns: false at the end of the stream.
    private static func fill(_ raw: UnsafeMutableRawPointer, from link: any StreamLink) throws(LinkError) -> Bool {
        try read(from: link) { nearshare_tls_feed(raw, $0.baseAddress, Int32($0.count)) == 1 }
    }

    private func fill() throws(LinkError) -> Bool {
        try Self.read(from: link) { bytes in
            connection.withLock { nearshare_tls_feed($0.raw, bytes.baseAddress, Int32(bytes.count)) == 1 }
        }
    }

    private static func read(
        from link: any StreamLink, feed: (UnsafeRawBufferPointer) -> Bool
    ) throws(LinkError) -> Bool {
        var failure: LinkError?
        let hasMore = withUnsafeTemporaryAllocation(byteCount: blockByteCount, alignment: 16) { buffer in
            do throws(LinkError) {
                let count = try link.read(into: buffer)
                guard count > 0 else { return false }
                if !feed(UnsafeRawBufferPointer(rebasing: buffer[..<count])) {
                    failure = LinkError(.unavailable, "out of memory")
                }
                return true
            } catch {
                failure = error
                return false
            }
        }
        if let failure { throw failure }
        return hasMore
    }
}
