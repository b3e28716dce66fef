internal import NearshareBase
package import NearshareHTTP

/// The request of a LocalSend device, as its method, path and query say.
package enum LocalSendRoute: Sendable, Hashable {
    case info
    case register
    case prepareUpload(pin: String?)
    case upload(session: String, file: String, token: String)
    /// - Parameter session: nil where the sender has not learned it yet.
    case cancel(session: String?)

    static let prefix = "/api/localsend/"

    /// - Throws: the status of the response.
    package init(_ request: HTTPRequest) throws(HTTPStatus) {
        let parameters = try Self.parameters(of: request.query)
        guard request.path.hasPrefix(Self.prefix) else { throw .notFound }
        let name = request.path.dropFirst(Self.prefix.count)
        let method: String
        switch name {
        case "v1/info", "v2/info": (self, method) = (.info, "GET")
        case "v2/register": (self, method) = (.register, "POST")
        case "v2/prepare-upload": (self, method) = (.prepareUpload(pin: parameters["pin"]), "POST")
        case "v2/upload":
            guard request.method == "POST" else { throw .methodNotAllowed }
            guard let session = parameters["sessionId"], let file = parameters["fileId"], let token = parameters["token"] else {
                throw .badRequest
            }
            (self, method) = (.upload(session: session, file: file, token: token), "POST")
        case "v2/cancel": (self, method) = (.cancel(session: parameters["sessionId"]), "POST")
        default: throw .notFound
        }
        guard request.method == method else { throw .methodNotAllowed }
    }

    private static func parameters(of query: String) throws(HTTPStatus) -> [String: String] {
        var parameters: [String: String] = [:]
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let value = decoded(parts[1]),
                parameters.updateValue(value, forKey: String(parts[0])) == nil
            else { throw .badRequest }
        }
        return parameters
    }

    /// Decodes a value of a form (`application/x-www-form-urlencoded`).
    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard rest.count >= 2, let value = Hex.decode(String(decoding: rest.prefix(2), as: UTF8.self)) else {
                    return nil
                }
                bytes += value
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
