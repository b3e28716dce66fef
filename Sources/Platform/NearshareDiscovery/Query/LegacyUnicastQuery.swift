internal import NearshareBase
internal import NearshareInterfaces

/// A one-shot query (RFC 6762, section 5.1) from an ephemeral port of each interface, answered by legacy unicast (section 6.7).
/// Belongs to one thread.
///
/// Avahi sends its first question 100 ms after browsing starts, and a responder answers 20 to 120 ms later, or not at all
/// within a second of the same answer to another host (sections 5.2, 6 and 7.4). These delays are for shared multicast answers;
/// Avahi and other responders answer a query from another port than 5353 without delay, and to that port alone. So each browser
/// also sends such a query, once per interface and address family, and reports the answers until Avahi has found the same. If no
/// answer arrives, discovery is only slower.
final class LegacyUnicastQuery {
    /// Time for which an answer is listed without Avahi's confirmation: the TTL of such answers (RFC 6762, section 6.7).
    static let answerTTL: Duration = .seconds(10)

    private struct QuerySocket {
        let socket: MulticastSocket
        let interface: NetworkInterface
        let isIPv6: Bool
        /// The socket's own address. The senders of answers must share its link.
        let address: IPSubnet
    }

    private let type: DNSName
    private let id: UInt16
    private var sockets: [QuerySocket] = []
    /// The time of the only retransmission; nil afterwards.
    private var retransmitAt: MonotonicInstant?
    private let deadline: MonotonicInstant

    private static let retransmitDelay = Duration.milliseconds(250)
    private static let timeout = Duration.milliseconds(1500)
    /// Bounds sockets on container hosts with hundreds of veth interfaces.
    private static let maximumInterfaceCount = 16
    /// Answers read from one socket at a time, so that a flood does not delay other work; the rest stays in the kernel.
    private static let maximumAnswersPerRead = 64

    /// Opens the sockets and sends the question.
    /// - Parameter id: the message id, which answers have to repeat.
    init(for type: ServiceType, id: UInt16, on interfaces: [NetworkInterface], at now: MonotonicInstant) {
        self.type = DNSName(type.tcp + ".local")
        self.id = id
        retransmitAt = now + Self.retransmitDelay
        deadline = now + Self.timeout
        for interface in Self.interfacesToAsk(interfaces) {
            for isIPv6 in [false, true] {
                // A query from a link-local address can only be answered from this link (RFC 6762, section 11).
                let suitable = interface.addresses.first { $0.address.isIPv6 == isIPv6 && (!isIPv6 || $0.address.isLinkLocal) }
                guard let address = suitable, let socket = MulticastSocket(boundTo: address.address, on: interface) else {
                    continue
                }
                sockets.append(QuerySocket(socket: socket, interface: interface, isIPv6: isIPv6, address: address))
            }
        }
        sendQuestion()
    }

    /// The interfaces that can carry the query, up to the limit; those that lead to other hosts come first.
    static func interfacesToAsk(_ interfaces: [NetworkInterface]) -> ArraySlice<NetworkInterface> {
        let usable = interfaces.filter(\.canCarryDiscovery)
        return (usable.filter(\.leadsToOthers) + usable.filter { !$0.leadsToOthers }).prefix(maximumInterfaceCount)
    }

    /// The descriptors to poll for answers.
    var descriptors: [Int32] { sockets.map(\.socket.descriptor) }

    var nextDeadline: MonotonicInstant { retransmitAt ?? deadline }

    func isFinished(at now: MonotonicInstant) -> Bool { sockets.isEmpty || now >= deadline }

    /// Sends the question again once, since the first one may have been lost.
    func retransmitIfDue(at now: MonotonicInstant) {
        guard let retransmitAt, now >= retransmitAt else { return }
        self.retransmitAt = nil
        sendQuestion()
    }

    private func sendQuestion() {
        let message = DNSMessage.question(id: id, ptrOf: type)
        // An interface without a multicast route refuses the question; the others may suffice.
        for query in sockets { query.socket.send(message) }
    }

    /// Returns the services that the answers of hosts on the link describe completely.
    func receiveAnswers() -> [(key: ServiceSighting.Key, service: DNSService)] {
        var answers: [(key: ServiceSighting.Key, service: DNSService)] = []
        for query in sockets {
            for _ in 0..<Self.maximumAnswersPerRead {
                guard let (message, sender) = query.socket.receive(upTo: DNSMessage.maximumByteCount) else { break }
                let address = query.address
                guard address.address == sender || address.contains(sender),
                    let records = try? DNSMessage.records(of: message, answering: id)
                else { continue }
                for service in DNSService.services(of: type, in: records, isIPv6: query.isIPv6, sender: sender) {
                    let key = ServiceSighting.Key(
                        instance: service.instance, interfaceIndex: query.interface.index, isIPv6: query.isIPv6)
                    answers.append((key, service))
                }
            }
        }
        return answers
    }
}
