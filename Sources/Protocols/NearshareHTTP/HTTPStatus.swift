/// The status of an HTTP response (RFC 9110, section 15), as far as a page uses them.
package enum HTTPStatus: UInt16, Error, Sendable, Hashable {
    case ok = 200
    case noContent = 204
    case partialContent = 206
    case badRequest = 400
    case unauthorized = 401
    case forbidden = 403
    case notFound = 404
    case methodNotAllowed = 405
    /// The request does not fit the state of the transfer.
    case conflict = 409
    /// The session or the page has ended.
    case gone = 410
    case contentTooLarge = 413
    case rangeNotSatisfiable = 416
    /// The request names another host: DNS rebinding.
    case misdirected = 421
    /// The content is not what its checksum says.
    case unprocessableContent = 422
    case tooManyRequests = 429
    case headTooLarge = 431
    case internalError = 500
    case notImplemented = 501
    case unavailable = 503
    case versionNotSupported = 505

    /// The reason phrase, which no program reads.
    var reason: String {
        switch self {
        case .ok: "OK"
        case .noContent: "No Content"
        case .partialContent: "Partial Content"
        case .badRequest: "Bad Request"
        case .unauthorized: "Unauthorized"
        case .forbidden: "Forbidden"
        case .notFound: "Not Found"
        case .methodNotAllowed: "Method Not Allowed"
        case .conflict: "Conflict"
        case .gone: "Gone"
        case .contentTooLarge: "Content Too Large"
        case .rangeNotSatisfiable: "Range Not Satisfiable"
        case .misdirected: "Misdirected Request"
        case .unprocessableContent: "Unprocessable Content"
        case .tooManyRequests: "Too Many Requests"
        case .headTooLarge: "Request Header Fields Too Large"
        case .internalError: "Internal Server Error"
        case .notImplemented: "Not Implemented"
        case .unavailable: "Service Unavailable"
        case .versionNotSupported: "HTTP Version Not Supported"
        }
    }
}
