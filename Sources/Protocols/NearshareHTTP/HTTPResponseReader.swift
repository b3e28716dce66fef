/// A received response with its body.
package struct ReceivedHTTPResponse: Sendable, Hashable {
    /// The status, 200 to 599.
    package let status: UInt16
    package let body: [UInt8]
    /// Whether the server closes the connection behind it.
    package let closesConnection: Bool
}

/// The reason why the bytes of a server are no response, or one that is too large.
package struct MalformedHTTPResponse: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

/// Divides the bytes of a connection into the responses of a server (RFC 9112). Holds one head and one body, which has a length, is
/// in chunks, or ends with the connection. Interim responses are dropped.
package struct HTTPResponseReader: Sendable {
    private struct Message: Sendable {
        let status: UInt16
        let closesConnection: Bool
        /// nil for a body that ends with the connection.
        var decoder: HTTPBodyDecoder?
        var body: [UInt8] = []
    }

    /// Limit on interim responses before one response.
    private static let maximumInterimCount = 8

    private let limit: Int
    private var buffer = HTTPHeadBuffer()
    private var message: Message?
    private var interimCount = 0

    /// - Parameter limit: on the bytes of a body.
    package init(limit: Int) {
        self.limit = limit
    }

    /// Appends received bytes.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) { buffer.append(bytes) }

    /// The next complete response.
    /// - Returns: nil when more bytes are needed.
    package mutating func next() throws(MalformedHTTPResponse) -> ReceivedHTTPResponse? {
        do throws(HTTPStatus) {
            while message == nil {
                guard let head = try buffer.next() else { return nil }
                message = try begin(head)
            }
            return try readBody()
        } catch {
            let reason =
                switch error {
                case .contentTooLarge, .headTooLarge: "its response is too large"
                case .versionNotSupported: "its response is not HTTP/1.1"
                default: "its response is malformed"
                }
            throw MalformedHTTPResponse(reason)
        }
    }

    /// The response that the end of the connection completes.
    /// - Returns: nil where there is none, and for one that is cut off.
    package mutating func end() -> ReceivedHTTPResponse? {
        guard let message, message.decoder == nil else { return nil }
        self.message = nil
        return ReceivedHTTPResponse(status: message.status, body: message.body, closesConnection: true)
    }

    /// - Returns: nil for an interim response.
    private mutating func begin(_ head: HTTPHead) throws(HTTPStatus) -> Message? {
        let line = head.firstLine
        let isOld = line.starts(with: "HTTP/1.0 ".utf8)
        guard isOld || line.starts(with: "HTTP/1.1 ".utf8) else { throw .versionNotSupported }
        let digits = line.dropFirst(9).prefix { $0 != 0x20 }
        guard digits.count == 3, digits.allSatisfy({ (0x30...0x39).contains($0) }),
            let status = UInt16(String(decoding: digits, as: UTF8.self)), (100...599).contains(status), status != 101
        else { throw .badRequest }
        guard status >= 200 else {
            interimCount += 1
            guard interimCount <= Self.maximumInterimCount else { throw .badRequest }
            return nil
        }
        interimCount = 0
        var framing = try head.framing()
        // Responses without content, whatever their fields say (RFC 9112, section 6.3).
        if status == 204 || status == 304 { framing = .length(0) }
        if case .length(let length) = framing, length > UInt64(limit) { throw .contentTooLarge }
        let closes = framing == nil || head.hasConnectionOption("close") || isOld && !head.hasConnectionOption("keep-alive")
        return Message(status: status, closesConnection: closes, decoder: framing.map { HTTPBodyDecoder($0) })
    }

    private mutating func readBody() throws(HTTPStatus) -> ReceivedHTTPResponse? {
        guard var message else { return nil }
        guard var decoder = message.decoder else {
            message.body += buffer.removeFirst(buffer.bytes.count)
            guard message.body.count <= limit else { throw .contentTooLarge }
            self.message = message
            return nil
        }
        let bytes = buffer.bytes
        var usedCount = 0
        var failure: HTTPStatus?
        bytes.withUnsafeBytes { bytes in
            do throws(HTTPStatus) {
                while usedCount < bytes.count, !decoder.isComplete {
                    let part = UnsafeRawBufferPointer(rebasing: bytes[usedCount...])
                    let (count, content) = try decoder.decode(part)
                    usedCount += count
                    guard content.count <= limit - message.body.count else { throw .contentTooLarge }
                    message.body += part[content]
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        _ = buffer.removeFirst(usedCount)
        message.decoder = decoder
        self.message = decoder.isComplete ? nil : message
        guard decoder.isComplete else { return nil }
        return ReceivedHTTPResponse(status: message.status, body: message.body, closesConnection: message.closesConnection)
    }
}
