// Avahi asks its first question 100 ms after it was told to browse, and a responder answers it within 20 to 120 ms more, or
// not at all if it has just answered somebody else (RFC 6762, sections 5.2, 6 and 7.4). All that is for shared multicast
// answers. A one-shot question (section 5.1) comes from a port other than 5353; section 6.7 has responders answer it to that
// port alone, and Avahi and others do so at once. So each browser also asks that way, once for each interface and family, and
// shows what it hears until Avahi has found the same. Where the answers do not come through, nothing is lost but the hurry.

internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A question sent from an ephemeral port of each interface, and the ear for its answers. Belongs to one thread.
final class LegacyUnicastQuery {
    /// Until when an answer counts that the engine has not confirmed: the TTL of such answers (RFC 6762, section 6.7).
    static let answerLifetime: Duration = .seconds(10)

    private struct Ear {
        let descriptor: Int32
        let interface: NetworkInterface
        let isIPv6: Bool
        /// Of the interface, in the ear's family: what an answer's sender must share a link with.
        let own: NetworkInterface.Address
    }

    private let type: DNSName
    private let id: UInt16
    private var ears: [Ear] = []
    private var repeats: [MonotonicInstant]
    private let end: MonotonicInstant

    /// Asks at once.
    init(for type: ServiceType, on interfaces: [NetworkInterface], at now: MonotonicInstant) {
        self.type = DNSName(type.tcp + ".local")
        id = UInt16.random(in: .min ... .max)
        repeats = [now + .milliseconds(250)]
        end = now + .milliseconds(1500)
        for interface in interfaces.prefix(Self.maximumInterfaces) where interface.canCarryDiscovery {
            for isIPv6 in [false, true] {
                // From a link-local address, IPv6 answers come from one, too, and surely over this very link.
                let fitting = interface.addresses.first { $0.address.isIPv6 == isIPv6 && (!isIPv6 || $0.address.isLinkLocal) }
                guard let own = fitting, let descriptor = Self.open(own.address, on: interface) else { continue }
                ears.append(Ear(descriptor: descriptor, interface: interface, isIPv6: isIPv6, own: own))
            }
        }
        ask()
    }

    deinit {
        for ear in ears { close(ear.descriptor) }
    }

    /// Those to wait for.
    var descriptors: [Int32] { ears.map(\.descriptor) }

    var nextDeadline: MonotonicInstant { repeats.first ?? end }

    func isOver(at now: MonotonicInstant) -> Bool { ears.isEmpty || now >= end }

    /// Asks once more if it is time: the first question may have been lost.
    func tick(at now: MonotonicInstant) {
        guard let next = repeats.first, now >= next else { return }
        repeats.removeFirst()
        ask()
    }

    private func ask() {
        let message = DNSMessage.question(id: id, pointersOf: type)
        for ear in ears {
            // Refused, for instance, on an interface without a route for multicast: the others may do.
            Self.withGroup(isIPv6: ear.isIPv6, scope: ear.interface.index) { group, length in
                _ = sendto(ear.descriptor, message, message.count, Int32(MSG_NOSIGNAL), group, length)
            }
        }
    }

    /// What has been answered since the last call, as far as it is whole and comes from somebody on the link.
    func answers() -> [(key: ServiceSighting.Key, service: Service)] {
        var answers: [(key: ServiceSighting.Key, service: Service)] = []
        for ear in ears {
            // With so many at once there is work for others to do first: the rest stays in the kernel.
            for _ in 0..<Self.maximumAnswersAtOnce {
                guard let (message, sender) = Self.receive(from: ear.descriptor) else { break }
                guard ear.own.address == sender || ear.own.address.shares(prefixLength: ear.own.prefixLength, with: sender),
                    let records = try? DNSMessage.records(of: message, answering: id)
                else { continue }
                for service in Self.services(of: type, in: records, isIPv6: ear.isIPv6, sender: sender) {
                    let key = ServiceSighting.Key(
                        instance: service.instance, interfaceIndex: ear.interface.index, isIPv6: ear.isIPv6)
                    answers.append((key, service))
                }
            }
        }
        return answers
    }

    struct Service: Equatable {
        var instance: String
        var address: IPAddress
        var port: UInt16
        var txt: [[UInt8]]
    }

    /// The services of which an answer holds all: where several addresses stand, the one that it was sent from is known to work.
    static func services(of type: DNSName, in records: [DNSRecord], isIPv6: Bool, sender: IPAddress) -> [Service] {
        records.compactMap { record in
            guard case .pointer(let name) = record.content, record.name == type,
                let instance = name.labels.first.flatMap(ServiceSighting.instance),
                DNSName(Array(name.labels.dropFirst())) == type
            else { return nil }
            var place: (port: UInt16, host: DNSName)?
            var txt: [[UInt8]]?
            for other in records where other.name == name {
                switch other.content {
                case .service(let port, let host): place = place ?? (port, host)
                case .text(let strings): txt = txt ?? strings
                case .pointer, .address: break
                }
            }
            guard let place, let txt else { return nil }
            let addresses = records.compactMap { other in
                if case .address(let address) = other.content, other.name == place.host, address.isIPv6 == isIPv6 {
                    address
                } else {
                    nil
                }
            }
            guard let address = addresses.contains(sender) ? sender : addresses.first else { return nil }
            return Service(instance: instance, address: address, port: place.port, txt: txt)
        }
    }

    // MARK: Sockets

    /// A socket bound to `address`, for multicast over `interface`; nil where the kernel refuses.
    private static func open(_ address: IPAddress, on interface: NetworkInterface) -> Int32? {
        let family = address.isIPv6 ? AF_INET6 : AF_INET
        let descriptor = socket(family, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var index = interface.index
        var hops: Int32 = 255
        let size = socklen_t(MemoryLayout<Int32>.size)
        var isReady: Bool
        if address.isIPv6 {
            isReady =
                setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_MULTICAST_IF, &index, size) == 0
                && setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_MULTICAST_HOPS, &hops, size) == 0
        } else {
            var request = ip_mreqn()
            request.imr_ifindex = index
            isReady =
                setsockopt(
                    descriptor, Int32(IPPROTO_IP), IP_MULTICAST_IF, &request, socklen_t(MemoryLayout<ip_mreqn>.size)) == 0
                && setsockopt(descriptor, Int32(IPPROTO_IP), IP_MULTICAST_TTL, &hops, size) == 0
        }
        withSocketAddress(address, port: 0, scope: index) { raw, length in
            isReady = isReady && bind(descriptor, raw, length) == 0
        }
        guard isReady else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    private static func receive(from descriptor: Int32) -> (message: [UInt8], sender: IPAddress)? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        var sender: IPAddress?
        let message = [UInt8](unsafeUninitializedCapacity: DNSMessage.maximumBytes) { buffer, count in
            let received = withUnsafeMutablePointer(to: &storage) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                    let received = recvfrom(descriptor, buffer.baseAddress, buffer.count, 0, raw, &length)
                    sender = NetworkInterface.ipAddress(raw)
                    return received
                }
            }
            count = max(0, received)
        }
        guard !message.isEmpty, let sender else { return nil }
        return (message, sender)
    }

    private static func withGroup(isIPv6: Bool, scope: Int32, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Void) {
        // 224.0.0.251 and ff02::fb (RFC 6762, section 3).
        withSocketAddress(isIPv6 ? .v6(0xff02 << 48, 0xfb) : .v4(0xe000_00fb), port: 5353, scope: scope, body)
    }

    private static func withSocketAddress(
        _ address: IPAddress, port: UInt16, scope: Int32, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Void
    ) {
        func pass<Address>(_ value: Address) {
            withUnsafePointer(to: value) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<Address>.size)) }
            }
        }
        switch address {
        case .v4(let value):
            var socketAddress = sockaddr_in()
            socketAddress.sin_family = sa_family_t(AF_INET)
            socketAddress.sin_port = port.bigEndian
            socketAddress.sin_addr.s_addr = value.bigEndian
            pass(socketAddress)
        case .v6:
            var socketAddress = sockaddr_in6()
            socketAddress.sin6_family = sa_family_t(AF_INET6)
            socketAddress.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &socketAddress.sin6_addr) { $0.copyBytes(from: address.bytes) }
            socketAddress.sin6_scope_id = UInt32(scope)
            pass(socketAddress)
        }
    }

    /// A machine with more is a host of containers, each of which has its own.
    private static let maximumInterfaces = 16
    private static let maximumAnswersAtOnce = 64
}
