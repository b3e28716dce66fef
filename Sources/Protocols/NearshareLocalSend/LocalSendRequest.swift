internal import NearshareBase

/// The requests of a sender.
package enum LocalSendRequest {
    /// The head of a request that a body follows.
    /// - Parameters:
    ///   - name: the path behind the version.
    ///   - authority: the address and port of the server.
    ///   - length: of the body.
    private static func head(
        _ name: String, _ parameters: KeyValuePairs<String, String> = [:], to authority: String, method: String = "POST",
        type: String? = nil, length: UInt64, closes: Bool = false
    ) -> [UInt8] {
        let query = parameters.map { "\($0.key)=\(encoded($0.value))" }.joined(separator: "&")
        var head = "\(method) \(LocalSendRoute.prefix)v2/\(name)\(query.isEmpty ? "" : "?\(query)") HTTP/1.1\r\n"
        head += "Host: \(authority)\r\nContent-Length: \(length)\r\n"
        if let type { head += "Content-Type: \(type)\r\n" }
        if closes { head += "Connection: close\r\n" }
        return Array((head + "\r\n").utf8)
    }

    package static func info(to authority: String) -> [UInt8] {
        head("info", to: authority, method: "GET", length: 0, closes: true)
    }

    /// Answers an announcement.
    package static func register(_ device: LocalSendDevice, to authority: String) -> [UInt8] {
        let body = device.registration
        return head("register", to: authority, type: "application/json", length: UInt64(body.count), closes: true) + body
    }

    /// - Parameter pin: nil where none is known to be required.
    package static func prepareUpload(_ body: [UInt8], pin: String?, to authority: String) -> [UInt8] {
        let length = UInt64(body.count)
        let type = "application/json"
        let head =
            if let pin {
                head("prepare-upload", ["pin": pin], to: authority, type: type, length: length)
            } else {
                head("prepare-upload", to: authority, type: type, length: length)
            }
        return head + body
    }

    /// The head of an upload, whose content follows.
    package static func upload(
        file: Int, session: String, token: String, length: UInt64, to authority: String
    ) -> [UInt8] {
        head(
            "upload", ["sessionId": session, "fileId": "\(file)", "token": token], to: authority,
            type: "application/octet-stream", length: length)
    }

    package static func cancel(session: String, to authority: String) -> [UInt8] {
        head("cancel", ["sessionId": session], to: authority, length: 0, closes: true)
    }

    /// Encodes a value of a query: all but the unreserved characters (RFC 3986, section 2.3).
    private static func encoded(_ text: String) -> String {
        text.utf8.reduce(into: "") { result, byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e:
                result.unicodeScalars.append(UnicodeScalar(byte))
            default: result += "%" + Hex.encode([byte]).uppercased()
            }
        }
    }
}
