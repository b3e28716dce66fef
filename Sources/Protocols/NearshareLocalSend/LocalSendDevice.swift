package import NearshareBase
internal import NearshareHTTP

/// A device as it describes itself: in announcements, in `register` and `info`, and in the offers of senders.
package struct LocalSendDevice: Sendable, Hashable {
    /// The version of the protocol that this node speaks.
    package static let protocolVersion = "2.1"
    /// The UDP port of announcements, and the preferred TCP port.
    package static let port: UInt16 = 53317
    /// The multicast groups of announcements: 224.0.0.167, and ff12::fd3a:e420 in versions from 2.2.
    package static let multicastGroups = [IPAddress.v4(0xe000_00a7), .v6(0xff12_0000_0000_0000, 0x0000_0000_fd3a_e420)]
    /// Limit on an announcement, and on the bodies that contain a device alone.
    package static let maximumByteCount = 4096
    private static let maximumFingerprintByteCount = 128
    /// The model of a nearshare node.
    private static let model = "nearshare"

    /// The claimed name.
    package let name: DisplayName
    /// SHA-256 of the certificate as the device claims it; random over plain HTTP.
    package let fingerprint: String
    /// The port of its server.
    package let port: UInt16
    /// Whether its server speaks TLS.
    package let isSecure: Bool
    /// Whether the device asks others to answer (`announce`); nil where it does not say.
    package let announces: Bool?
    /// Whether the device is a nearshare node, as it claims.
    package let isNearshare: Bool

    /// This node.
    package init(name: DisplayName, fingerprint: [UInt8], port: UInt16) {
        self.name = name
        self.fingerprint = Hex.encode(fingerprint).uppercased()
        (self.port, isSecure, announces, isNearshare) = (port, true, nil, true)
    }

    /// Decodes an announcement or the body of `register`.
    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        guard bytes.count <= Self.maximumByteCount else { throw MalformedInput("LocalSend device: too large") }
        try self.init(try JSONElement(decoding: bytes))
    }

    init(_ element: JSONElement) throws(MalformedInput) {
        guard let alias = element["alias"]?.string, let name = DisplayName(truncating: alias) else {
            throw MalformedInput("LocalSend device: no alias")
        }
        guard let fingerprint = element["fingerprint"]?.string,
            (1...Self.maximumFingerprintByteCount).contains(fingerprint.utf8.count)
        else { throw MalformedInput("LocalSend device: no fingerprint") }
        let port: UInt16?
        switch element["port"] {
        case nil, .null?: port = Self.port
        case .integer(let number)?: port = UInt16(exactly: number)
        default: port = nil
        }
        guard let port, port > 0 else { throw MalformedInput("LocalSend device: the port") }
        switch element["protocol"] {
        case nil, .null?: isSecure = true
        case let value?:
            guard let word = value.word, word == "https" || word == "http" else {
                throw MalformedInput("LocalSend device: the protocol")
            }
            isSecure = word == "https"
        }
        if case .bool(let announces)? = element["announce"] { self.announces = announces } else { announces = nil }
        isNearshare = element["deviceModel"]?.word == Self.model
        (self.name, self.fingerprint, self.port) = (name, fingerprint, port)
    }

    /// SHA-256 of the claimed certificate; nil over plain HTTP, and for a fingerprint that is no SHA-256.
    package var certificate: [UInt8]? {
        guard isSecure, let bytes = Hex.decode(fingerprint), bytes.count == 32 else { return nil }
        return bytes
    }

    /// Whether the claimed fingerprint is this one.
    package func claims(_ fingerprint: [UInt8]) -> Bool { self.fingerprint.lowercased() == Hex.encode(fingerprint) }

    /// The body of `register`.
    package var registration: [UInt8] { Array(registrationElement.text.utf8) }

    /// The device with the location of its server, as in `register` and in offers.
    var registrationElement: JSONElement { .object(description + location) }

    /// The datagram that makes other devices answer.
    package var announcement: [UInt8] {
        let announces = JSONElement.Member(name: "announce", value: .bool(true))
        return Array(JSONElement.object(description + location + [announces]).text.utf8)
    }

    /// The response to `info` and `register`.
    var info: JSONElement { .object(description) }

    private var description: [JSONElement.Member] {
        [
            JSONElement.Member(name: "alias", value: .string(name.claimed)),
            JSONElement.Member(name: "version", value: .string(Self.protocolVersion)),
            JSONElement.Member(name: "deviceModel", value: .string(Self.model)),
            JSONElement.Member(name: "deviceType", value: .string("headless")),
            JSONElement.Member(name: "fingerprint", value: .string(fingerprint)),
            JSONElement.Member(name: "download", value: .bool(false)),
        ]
    }

    private var location: [JSONElement.Member] {
        [
            JSONElement.Member(name: "port", value: .integer(UInt64(port))),
            JSONElement.Member(name: "protocol", value: .string(isSecure ? "https" : "http")),
        ]
    }
}
