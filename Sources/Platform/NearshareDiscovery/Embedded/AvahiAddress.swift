internal import CAvahi
internal import NearshareBase
internal import NearshareInterfaces

/// AVAHI_IF_UNSPEC and AVAHI_PROTO_UNSPEC: any interface, any address family.
let unspecified: Int32 = -1

/// Returns a service's full domain name, with avahi's escapes.
func avahiName(of instance: String, type: ServiceType) -> String {
    // AVAHI_DOMAIN_NAME_MAX: a domain name with every byte escaped.
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 1014) { buffer in
        buffer[0] = 0
        // Fails only for an instance that is not a label, which was checked before.
        avahi_service_name_join(buffer.baseAddress, buffer.count, instance, type.tcp, "local")
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
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
    /// Returns nil for a record that is neither A nor AAAA.
    init?(_ record: AvahiRecord) {
        switch Int(record.key.pointee.type) {
        case AVAHI_DNS_TYPE_A: self.init(bytes: withUnsafeBytes(of: record.data.a.address) { Array($0) })
        case AVAHI_DNS_TYPE_AAAA: self.init(bytes: withUnsafeBytes(of: record.data.aaaa.address) { Array($0) })
        default: return nil
        }
    }
}
