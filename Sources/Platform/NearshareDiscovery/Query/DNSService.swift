internal import NearshareBase
internal import NearshareInterfaces

/// A service of DNS-SD with all of its records (RFC 6763).
struct DNSService: Equatable {
    var instance: String
    var address: IPAddress
    var port: UInt16
    var txt: [[UInt8]]

    /// Returns the services whose records are complete in an answer. Of several addresses, the sender's is known to work.
    /// - Parameters:
    ///   - isIPv6: the address family of the answer.
    ///   - sender: the address that it was sent from.
    static func services(of type: DNSName, in records: [DNSRecord], isIPv6: Bool, sender: IPAddress) -> [DNSService] {
        records.compactMap { record in
            guard case .ptr(let name) = record.content, record.name == type,
                let instance = name.labels.first.flatMap(ServiceSighting.instance),
                DNSName(Array(name.labels.dropFirst())) == type
            else { return nil }
            var target: (port: UInt16, host: DNSName)?
            var txt: [[UInt8]]?
            for other in records where other.name == name {
                switch other.content {
                case .srv(let port, let host): target = target ?? (port, host)
                case .txt(let strings): txt = txt ?? strings
                case .ptr, .address: break
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
            return DNSService(instance: instance, address: address, port: target.port, txt: txt)
        }
    }
}
