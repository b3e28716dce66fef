public import NearshareBase

/// An error of discovery. The description suggests a remedy.
package struct DiscoveryError: Error, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// A DNS-SD service type: the name between the underscore and the transport (RFC 6335, section 5.1).
public struct ServiceType: Sendable, Hashable {
    /// 1 to 15 characters: lower-case letters, digits, single hyphens inside, at least one letter.
    package let name: String

    /// Checks the rules of RFC 6335, section 5.1.
    /// - Throws: ``InvalidName`` with the violated rule.
    public init(_ name: String) throws(InvalidName) {
        guard (1...15).contains(name.utf8.count) else {
            throw InvalidName("a service type has 1 to 15 characters, this one has \(name.utf8.count)")
        }
        let letters = UInt8(ascii: "a")...UInt8(ascii: "z")
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        let hyphen = UInt8(ascii: "-")
        guard name.utf8.allSatisfy({ letters.contains($0) || digits.contains($0) || $0 == hyphen }) else {
            throw InvalidName("a service type holds only lower-case letters, digits and hyphens")
        }
        guard name.utf8.contains(where: { letters.contains($0) }) else {
            throw InvalidName("a service type needs at least one letter")
        }
        guard name.utf8.first != hyphen, name.utf8.last != hyphen, !name.contains("--") else {
            throw InvalidName("a hyphen in a service type stands between two other characters")
        }
        self.name = name
    }

    /// `_name._tcp`
    package var tcp: String { "_\(name)._tcp" }

    /// The service type of the nearshare tool.
    // Safe: a constant that follows the rules.
    public static let nearshare = try! ServiceType("nearshare")
}

/// A service that a host advertises on its networks.
package struct Advertisement: Sendable, Hashable {
    /// 1 to 63 bytes; unique on the network by construction.
    package var instance: String
    package var type: ServiceType
    package var port: UInt16
    /// The `key=value` strings: at most 16 of 1 to 255 bytes; about 400 bytes in total are recommended, 1300 the limit
    /// (RFC 6763, section 6).
    package var txt: [[UInt8]]
    /// nil for all suitable interfaces.
    package var interface: String?

    package init(instance: String, type: ServiceType, port: UInt16, txt: [[UInt8]], interface: String? = nil) {
        self.instance = instance
        self.type = type
        self.port = port
        self.txt = txt
        self.interface = interface
    }
}

/// A discovered service on one interface and in one address family.
///
/// Unauthenticated claims of a host on the network, within bounds: at most 16 TXT strings of 255 bytes.
package struct ServiceSighting: Sendable, Hashable {
    /// The identity of a sighting.
    package struct Key: Sendable, Hashable {
        package var instance: String
        package var interfaceIndex: Int32
        package var isIPv6: Bool

        package init(instance: String, interfaceIndex: Int32, isIPv6: Bool) {
            self.instance = instance
            self.interfaceIndex = interfaceIndex
            self.isIPv6 = isIPv6
        }
    }

    package var key: Key
    package var address: LinkAddress
    package var txt: [[UInt8]]
    /// Published by this machine.
    package var isOwn: Bool
    /// SHA-256 of the certificate that a LocalSend device announces; nil for a nearshare peer.
    package var certificate: [UInt8]?

    package init(key: Key, address: LinkAddress, txt: [[UInt8]], isOwn: Bool, certificate: [UInt8]? = nil) {
        self.key = key
        self.address = address
        self.txt = txt
        self.isOwn = isOwn
        self.certificate = certificate
    }
}

package enum DiscoveryEvent: Sendable, Hashable {
    /// A new service, or a new address, port or TXT record of a known one.
    case seen(ServiceSighting)
    case gone(ServiceSighting.Key)
    /// The services that were present when browsing began have been reported, as far as can be known.
    case settled

    /// Limit on buffered events; the oldest are dropped.
    package static let bufferLimit = 1024

    package static func makeStream() -> (
        stream: AsyncThrowingStream<DiscoveryEvent, any Error>,
        continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
    ) {
        AsyncThrowingStream.makeStream(of: DiscoveryEvent.self, bufferingPolicy: .bufferingNewest(bufferLimit))
    }
}

/// Service discovery: advertises this node and browses for others.
package protocol Discovery: Sendable {
    /// The display name of the implementation: "embedded responder", "avahi-daemon".
    var engine: String { get }

    /// Advertises a service until the returned handle is stopped or released.
    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement

    /// Browses while the sequence is iterated; ends it with an error when discovery fails.
    /// The buffer is bounded; the oldest events are dropped.
    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error>
}

/// The handle of an advertised service.
package protocol RunningAdvertisement: AnyObject, Sendable {
    func update(txt: [[UInt8]]) throws(DiscoveryError)

    /// Withdraws the service. May be called more than once.
    func stop()
}
