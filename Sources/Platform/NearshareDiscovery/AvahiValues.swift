internal import CAvahi
internal import NearshareBase
internal import NearshareInterfaces

/// Any interface, any family.
let unspecified: Int32 = -1

/// A service's whole domain name, escaped as avahi writes names.
func avahiName(of instance: String, type: ServiceType) -> String {
    // What avahi asks for: a domain name with every byte escaped.
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 1014) { buffer in
        buffer[0] = 0
        // The instance has been checked to be a label, which is all that can be wrong here.
        avahi_service_name_join(buffer.baseAddress!, buffer.count, instance, type.tcp, "local")
        return String(cString: buffer.baseAddress!)
    }
}

extension [AvahiPublishFlags] {
    var joined: AvahiPublishFlags { AvahiPublishFlags(reduce(0) { $0 | $1.rawValue }) }
}

extension AvahiAddress {
    init(_ address: IPAddress) {
        self.init()
        proto = AvahiProtocol(address.isIPv6 ? AVAHI_PROTO_INET6 : AVAHI_PROTO_INET)
        withUnsafeMutableBytes(of: &data) { $0.copyBytes(from: address.bytes) }
    }
}

extension IPAddress {
    /// nil for a record that holds no address.
    init?(_ record: AvahiRecord) {
        switch Int(record.key.pointee.type) {
        case AVAHI_DNS_TYPE_A: self.init(bytes: withUnsafeBytes(of: record.data.a.address) { Array($0) })
        case AVAHI_DNS_TYPE_AAAA: self.init(bytes: withUnsafeBytes(of: record.data.aaaa.address) { Array($0) })
        default: return nil
        }
    }
}
