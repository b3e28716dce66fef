internal import CAvahi
internal import NearshareInterfaces

/// The records of one published service instance.
final class PublishedService {
    var advertisement: Advertisement
    /// Avahi's entry group; nil while nothing is registered.
    var group: OpaquePointer?
    private let type: String
    private let name: String

    init(_ advertisement: Advertisement) {
        self.advertisement = advertisement
        type = advertisement.type.tcp + ".local"
        name = avahiName(of: advertisement.instance, type: advertisement.type)
    }

    /// Adds PTR records for browsing, SRV and TXT for resolving (RFC 6763, sections 4 to 6 and 9).
    /// - Returns: 0, or avahi's error number.
    func addRecords(to group: OpaquePointer, of server: OpaquePointer) -> Int32 {
        let host = String(cString: avahi_server_get_host_name_fqdn(server))
        var code = add(named: type, type: AVAHI_DNS_TYPE_PTR, flags: [], to: group, of: server) {
            $0.data.ptr.name = avahi_strdup(self.name)
        }
        if code == 0 {
            code = add(named: "_services._dns-sd._udp.local", type: AVAHI_DNS_TYPE_PTR, flags: [], to: group, of: server) {
                $0.data.ptr.name = avahi_strdup(self.type)
            }
        }
        if code == 0 {
            code = add(named: name, type: AVAHI_DNS_TYPE_SRV, flags: Self.unique, to: group, of: server) {
                $0.data.srv.priority = 0
                $0.data.srv.weight = 0
                $0.data.srv.port = self.advertisement.port
                $0.data.srv.name = avahi_strdup(host)
            }
        }
        return code == 0 ? addText(to: group, of: server) : code
    }

    func addText(to group: OpaquePointer, of server: OpaquePointer, flags: AvahiPublishFlags? = nil) -> Int32 {
        let flags = Self.unique + [flags].compactMap(\.self)
        return add(named: name, type: AVAHI_DNS_TYPE_TXT, flags: flags, to: group, of: server) { record in
            // Each string is prepended to the list, which avahi writes from its end.
            for string in self.advertisement.txt {
                record.data.txt.string_list = avahi_string_list_add_arbitrary(record.data.txt.string_list, string, string.count)
            }
        }
    }

    private func add(
        named name: String, type: Int, flags: [AvahiPublishFlags], to group: OpaquePointer, of server: OpaquePointer,
        fill: (inout AvahiRecord) -> Void
    ) -> Int32 {
        guard let record = avahi_record_new_full(name, UInt16(AVAHI_DNS_CLASS_IN), UInt16(type), Self.timeToLive) else {
            return Int32(AVAHI_ERR_NO_MEMORY)
        }
        defer { avahi_record_unref(record) }
        fill(&record.pointee)
        return avahi_server_add(server, group, unspecified, unspecified, flags.joined, record)
    }

    /// The records' TTL in seconds: how long other hosts keep the service of a process that was killed and said no goodbye.
    private static let timeToLive: UInt32 = 120
    private static let unique = [AVAHI_PUBLISH_UNIQUE, AVAHI_PUBLISH_NO_PROBE]
}
