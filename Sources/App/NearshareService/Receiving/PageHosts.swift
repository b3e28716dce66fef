internal import Glibc
internal import Nearshare
internal import NearshareDiscovery

/// The addresses of this machine at which a phone's browser can open a page, the most likely one first.
package enum PageHosts {
    /// - Parameter interface: the only interface to use; nil for all.
    package static func all(on interface: String?) -> [String] {
        hosts(of: NetworkInterface.all(), on: interface, defaultRoute: defaultRouteInterface)
    }

    /// IPv4 before IPv6, whose addresses are long; those of the interface that leads to the internet first. Link-local addresses of
    /// IPv6 are left out, because browsers know no zones.
    static func hosts(of interfaces: [NetworkInterface], on chosen: String?, defaultRoute: String?) -> [String] {
        let usable = interfaces.filter { $0.isUp && !$0.isLoopback && (chosen == nil || $0.name == chosen) }
        let ordered = usable.filter { $0.name == defaultRoute } + usable.filter { $0.name != defaultRoute }
        let addresses = ordered.flatMap(\.addresses).map(\.address).filter { !$0.needsZone && !$0.isLoopback }
        return (addresses.filter { !$0.isIPv6 } + addresses.filter(\.isIPv6)).map(\.description)
    }

    /// The interface of the IPv4 default route; nil for none.
    private static var defaultRouteInterface: String? {
        guard let file = fopen("/proc/net/route", "re") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let fields = text.split(whereSeparator: \.isWhitespace)
            // Interface, destination, …: the default route leads to 0.0.0.0.
            if fields.count > 7, fields[1] == "00000000", fields[7] == "00000000" { return String(fields[0]) }
        }
        return nil
    }
}
