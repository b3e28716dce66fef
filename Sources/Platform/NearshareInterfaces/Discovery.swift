/// Why discovery does not work here. The text says what to try.
package struct DiscoveryError: Error, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// A DNS-SD service type: the name between the underscore and the transport (RFC 6335, section 5.1).
public struct ServiceType: Sendable, Hashable {
    /// 1 to 15 characters: lower-case letters, digits, single hyphens inside, at least one letter.
    public let name: String

    /// Why a text is not a valid service type. The description names the violated rule.
    public struct Invalid: Error, Sendable, Hashable, CustomStringConvertible {
        package enum Reason: Sendable, Hashable {
            case length(Int)
            case character
            case noLetter
            case hyphen
        }

        package let reason: Reason

        package init(_ reason: Reason) {
            self.reason = reason
        }

        /// The violated rule, as a sentence for users.
        public var description: String {
            switch reason {
            case .length(let count): "a service type has 1 to 15 characters, this one has \(count)"
            case .character: "a service type holds only lower-case letters, digits and hyphens"
            case .noLetter: "a service type needs at least one letter"
            case .hyphen: "a hyphen in a service type stands between two other characters"
            }
        }
    }

    /// Checks the rules of RFC 6335, section 5.1.
    public init(_ name: String) throws(Invalid) {
        guard (1...15).contains(name.utf8.count) else { throw Invalid(.length(name.utf8.count)) }
        let letters = UInt8(ascii: "a")...UInt8(ascii: "z")
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        let hyphen = UInt8(ascii: "-")
        guard name.utf8.allSatisfy({ letters.contains($0) || digits.contains($0) || $0 == hyphen }) else {
            throw Invalid(.character)
        }
        guard name.utf8.contains(where: { letters.contains($0) }) else { throw Invalid(.noLetter) }
        guard name.utf8.first != hyphen, name.utf8.last != hyphen, !name.contains("--") else { throw Invalid(.hyphen) }
        self.name = name
    }

    /// `_name._tcp`
    package var tcp: String { "_\(name)._tcp" }

    /// What nearshare itself advertises.
    public static let nearshare = try! ServiceType("nearshare")
}

/// What a machine tells everybody on its networks about one service.
package struct Advertisement: Sendable, Hashable {
    /// 1 to 63 bytes; unique on the network by construction.
    package var instance: String
    package var type: ServiceType
    package var port: UInt16
    /// `key=value` strings of 1 to 255 bytes each, at most 16 of them; about 400 bytes in all are good manners, 1300 the
    /// limit (RFC 6763, section 6).
    package var txt: [[UInt8]]
    /// nil for every interface that can carry it.
    package var interface: String?

    package init(instance: String, type: ServiceType, port: UInt16, txt: [[UInt8]], interface: String? = nil) {
        self.instance = instance
        self.type = type
        self.port = port
        self.txt = txt
        self.interface = interface
    }
}

/// One sighting of a service: the same service is seen once for each interface and address family.
///
/// Everything in it was claimed by somebody on the network. Adapters bound it: at most 16 TXT strings of 255 bytes.
package struct ServiceSighting: Sendable, Hashable {
    /// What stays the same while the service is there.
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
    /// Published by this very machine.
    package var isOwn: Bool

    package init(key: Key, address: LinkAddress, txt: [[UInt8]], isOwn: Bool) {
        self.key = key
        self.address = address
        self.txt = txt
        self.isOwn = isOwn
    }
}

package enum DiscoveryEvent: Sendable, Hashable {
    /// Seen for the first time, or with another address, port or TXT record than before.
    case seen(ServiceSighting)
    case gone(ServiceSighting.Key)
    /// All that was there when browsing began has been reported, as far as one can tell.
    case settled

    /// What a browser that does not keep up may leave unread. Past it the oldest are dropped.
    package static let bufferLimit = 1024

    package static func makeStream() -> (
        stream: AsyncThrowingStream<DiscoveryEvent, any Error>,
        continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
    ) {
        AsyncThrowingStream.makeStream(of: DiscoveryEvent.self, bufferingPolicy: .bufferingNewest(bufferLimit))
    }
}

/// Tells others of a service, and finds theirs.
package protocol Discovery: Sendable {
    /// Says for people which engine is at work: "embedded responder", "avahi-daemon".
    var engine: String { get }

    /// Publishes until the returned handle is stopped or released.
    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement

    /// Browses while the sequence is being iterated; ends it with an error when discovery breaks.
    /// The buffer is bounded; a flood of sightings drops the oldest.
    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error>
}

package protocol RunningAdvertisement: AnyObject, Sendable {
    func update(txt: [[UInt8]]) throws(DiscoveryError)

    /// Says goodbye to the network. May be called more than once.
    func stop()
}
