// Avahi sends its first question 100 ms after browsing starts, and a responder answers 20 to 120 ms later, or not at all within a second of
// the same answer to another host (RFC 6762, sections 5.2, 6 and 7.4). These delays are for shared multicast answers. A legacy unicast query
// (section 6.7) comes from another port than 5353 and is answered to that port alone; Avahi and others do so at once. So each browser also
// sends such a query, once per interface and address family, and shows the answers until Avahi has found the same. Where the answers do not
// arrive, only the faster result is missing.

internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A legacy unicast query (RFC 6762, section 6.7): one question from an ephemeral port of each interface. Belongs to one thread.
final class LegacyUnicastQuery {
    /// How long an answer counts without the engine's confirmation: the TTL of such answers (RFC 6762, section 6.7).
    static let answerLifetime: Duration = .seconds(10)

    private struct QuerySocket {
        let descriptor: Int32
        let interface: NetworkInterface
        let isIPv6: Bool
        /// The socket's own address. The senders of answers must share its link.
        let address: NetworkInterface.Address
    }

    private let type: DNSName
    private let id: UInt16
    private var sockets: [QuerySocket] = []
    /// When to repeat the question; nil once repeated.
    private var repeatsAt: MonotonicInstant?
    private let end: MonotonicInstant

    private static let repeatDelay = Duration.milliseconds(250)
    private static let lifetime = Duration.milliseconds(1500)
    /// A machine with more interfaces hosts containers, which browse by themselves.
    private static let maximumInterfaceCount = 16
    /// Answers read from one socket at a time, so that a flood does not delay other work; the rest stays in the kernel.
    private static let maximumAnswersPerRead = 64

    /// Sends the question at once.
    /// - Parameter id: the message id, which answers have to repeat.
    init(for type: ServiceType, id: UInt16, on interfaces: [NetworkInterface], at now: MonotonicInstant) {
        self.type = DNSName(type.tcp + ".local")
        self.id = id
        repeatsAt = now + Self.repeatDelay
        end = now + Self.lifetime
        for interface in interfaces.prefix(Self.maximumInterfaceCount) where interface.canCarryDiscovery {
            for isIPv6 in [false, true] {
                // Answers to a link-local IPv6 address come from one, too, so certainly over this link.
                let suitable = interface.addresses.first { $0.address.isIPv6 == isIPv6 && (!isIPv6 || $0.address.isLinkLocal) }
                guard let address = suitable, let descriptor = Self.open(address.address, on: interface) else { continue }
                sockets.append(
                    QuerySocket(descriptor: descriptor, interface: interface, isIPv6: isIPv6, address: address))
            }
        }
        sendQuestion()
    }

    deinit {
        for socket in sockets { close(socket.descriptor) }
    }

    /// The descriptors to poll for answers.
    var descriptors: [Int32] { sockets.map(\.descriptor) }

    var nextDeadline: MonotonicInstant { repeatsAt ?? end }

    func isFinished(at now: MonotonicInstant) -> Bool { sockets.isEmpty || now >= end }

    /// Repeats the question once, since the first one may have been lost.
    func tick(at now: MonotonicInstant) {
        guard let repeatsAt, now >= repeatsAt else { return }
        self.repeatsAt = nil
        sendQuestion()
    }

    private func sendQuestion() {
        let message = DNSMessage.question(id: id, pointersOf: type)
        for socket in sockets {
            // An interface without a multicast route refuses the question; the others may suffice.
            Self.withGroup(isIPv6: socket.isIPv6, scope: socket.interface.index) { group, length in
                _ = sendto(socket.descriptor, message, message.count, Int32(MSG_NOSIGNAL), group, length)
            }
        }
    }

    /// Reads the complete answers that have arrived from hosts on the link.
    func receiveAnswers() -> [(key: ServiceSighting.Key, service: Service)] {
        var answers: [(key: ServiceSighting.Key, service: Service)] = []
        for socket in sockets {
            for _ in 0..<Self.maximumAnswersPerRead {
                guard let (message, sender) = Self.receive(from: socket.descriptor) else { break }
                let address = socket.address
                guard address.address == sender || address.address.shares(prefixLength: address.prefixLength, with: sender),
                    let records = try? DNSMessage.records(of: message, answering: id)
                else { continue }
                for service in Self.services(of: type, in: records, isIPv6: socket.isIPv6, sender: sender) {
                    let key = ServiceSighting.Key(
                        instance: service.instance, interfaceIndex: socket.interface.index, isIPv6: socket.isIPv6)
                    answers.append((key, service))
                }
            }
        }
        return answers
    }

    /// A service with all of its records.
    struct Service: Equatable {
        var instance: String
        var address: IPAddress
        var port: UInt16
        var txt: [[UInt8]]
    }

    /// Returns the services whose records are complete in an answer. Of several addresses, the sender's is known to work.
    /// - Parameters:
    ///   - isIPv6: the address family of the answer.
    ///   - sender: the address that it was sent from.
    static func services(of type: DNSName, in records: [DNSRecord], isIPv6: Bool, sender: IPAddress) -> [Service] {
        records.compactMap { record in
            guard case .pointer(let name) = record.content, record.name == type,
                let instance = name.labels.first.flatMap(ServiceSighting.instance),
                DNSName(Array(name.labels.dropFirst())) == type
            else { return nil }
            var target: (port: UInt16, host: DNSName)?
            var txt: [[UInt8]]?
            for other in records where other.name == name {
                switch other.content {
                case .service(let port, let host): target = target ?? (port, host)
                case .text(let strings): txt = txt ?? strings
                case .pointer, .address: break
                }
            }
            guard let target, let txt else { return nil }
            let addresses = records.compactMap { other in
                if case .address(let address) = other.content, other.name == target.host, address.isIPv6 == isIPv6 {
                    address
                } else {
                    nil
                }
            }
            guard let address = addresses.contains(sender) ? sender : addresses.first else { return nil }
            return Service(instance: instance, address: address, port: target.port, txt: txt)
        }
    }

    // MARK: Sockets

    /// Opens a socket bound to `address` that multicasts over `interface`.
    /// - Returns: nil where the kernel refuses.
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
}
