internal import NearshareBase
internal import NearshareHTTP
internal import NearshareInterfaces

/// A connection to the server of a LocalSend device, used by its thread.
final class LocalSendClientConnection {
    /// The reason why a request has no response.
    enum Failure: Error, Sendable {
        case link(LinkError)
        case malformed(MalformedHTTPResponse)
        /// The device has another certificate than the one that was found (F16).
        case otherCertificate([UInt8])
        /// The content cannot be read.
        case storage(StorageError)
    }

    private static let blockByteCount = 1 << 14

    private let stream: any SecureLink
    private var reader: HTTPResponseReader
    /// Whether another request can follow the last response.
    private(set) var isReusable = true
    /// Whether a request had a response.
    private(set) var hasAnswered = false
    /// The address and port of the server.
    let authority: String
    /// SHA-256 of the server's certificate.
    let certificate: [UInt8]

    /// Shakes hands, and compares the certificate before a request leaves.
    /// - Parameters:
    ///   - certificate: SHA-256 of the expected one; nil for any.
    ///   - limit: on the body of a response.
    init(
        over link: any StreamLink, _ security: any LinkSecurity, expecting certificate: [UInt8]?, limit: Int, now: WallTime
    ) throws(Failure) {
        do throws(LinkError) {
            stream = try security.connect(over: link, now: now)
        } catch {
            throw .link(error)
        }
        let shown = stream.peerFingerprint ?? []
        if let certificate, shown != certificate { throw .otherCertificate(shown) }
        self.certificate = shown
        authority = link.remote.authority
        reader = HTTPResponseReader(limit: limit)
    }

    func write(_ bytes: [UInt8]) throws(Failure) {
        var failure: Failure?
        bytes.withUnsafeBytes { bytes in
            do throws(Failure) { try write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(Failure) {
        do throws(LinkError) {
            try stream.write(bytes)
        } catch {
            isReusable = false
            throw .link(error)
        }
    }

    /// Writes a request, and waits for its response.
    func respond(to request: [UInt8]) throws(Failure) -> ReceivedHTTPResponse {
        try write(request)
        return try readResponse()
    }

    /// Waits for the response to a request.
    func readResponse() throws(Failure) -> ReceivedHTTPResponse {
        isReusable = false
        let response = try nextResponse()
        (hasAnswered, isReusable) = (true, !response.closesConnection)
        return response
    }

    private func nextResponse() throws(Failure) -> ReceivedHTTPResponse {
        do throws(MalformedHTTPResponse) {
            while true {
                if let response = try reader.next() { return response }
                let bytes = read()
                if bytes.isEmpty, let response = reader.end() { return response }
                guard !bytes.isEmpty else { break }
                bytes.withUnsafeBytes { reader.append($0) }
            }
        } catch {
            throw .malformed(error)
        }
        throw .link(LinkError(.broken, "\(authority) closed the connection without an answer"))
    }

    /// - Returns: no bytes at the end of the stream and of a broken one.
    private func read() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.blockByteCount) { buffer, count in
            count = (try? stream.read(into: UnsafeMutableRawBufferPointer(buffer))) ?? 0
        }
    }

    /// Prevents another request, after one that was not written whole.
    func abandon() { isReusable = false }

    func finishWriting() { stream.finishWriting() }
}
