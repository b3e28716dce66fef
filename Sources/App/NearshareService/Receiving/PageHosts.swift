internal import Glibc
internal import Nearshare
internal import NearshareDiscovery

/// The addresses of this machine at which a phone's browser can open a page, the most likely one first.
package enum PageHosts {
    /// The kinds of interfaces, by how likely a phone reaches them, the likeliest first.
    enum Likelihood: Int, Sendable {
        /// The interface leads to the internet: phones are in its network as well.
        case defaultRoute
        /// An adapter of this machine.
        case adapter
        case other
        /// A network of containers or virtual machines, or a tunnel.
        case virtual
    }

    /// - Parameter interface: the only interface to use; nil for all.
    package static func all(on interface: String?) -> [String] {
        let route = defaultRouteInterface
        return hosts(of: NetworkInterface.all(), on: interface) { interface in
            let place = "/sys/class/net/\(interface.name)"
            let isAdapter = access("\(place)/device", F_OK) == 0
            let isBridge = access("\(place)/bridge", F_OK) == 0
            // A bridge that has the default route joins this machine to its own network, not to containers.
            if interface.isPointToPoint || isBridge && interface.name != route { return .virtual }
            return interface.name == route ? .defaultRoute : isAdapter ? .adapter : .other
        }
    }

    /// The addresses, IPv4 before IPv6, whose addresses are long. Of each version, interfaces with a carrier come first, in the order
    /// of their likelihood. Link-local addresses of IPv6 are left out, because browsers know no zones.
    static func hosts(
        of interfaces: [NetworkInterface], on chosen: String?, likelihood: (NetworkInterface) -> Likelihood
    ) -> [String] {
        let usable = interfaces.filter { $0.isUp && !$0.isLoopback && (chosen == nil || $0.name == chosen) }
        let ranks = usable.map { (rank: likelihood($0).rawValue + ($0.isRunning ? 0 : 10), interface: $0) }
        // Interfaces of one rank stay in their order.
        let ordered = Array(ranks.enumerated()).sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }
        let addresses = ordered.flatMap(\.element.interface.addresses).map(\.address)
            .filter { !$0.needsZone && !$0.isLoopback }
        return (addresses.filter { !$0.isIPv6 } + addresses.filter(\.isIPv6)).map(\.description)
    }

    /// The interface of the IPv4 default route with the lowest metric; nil for none.
    private static var defaultRouteInterface: String? {
        guard let file = fopen("/proc/net/route", "re") else { return nil }
        defer { fclose(file) }
        var lines: [String] = []
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, Int32(line.count), file) != nil {
            lines.append(String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
        }
        return defaultRouteInterface(of: lines)
    }

    /// - Parameter lines: the lines of `/proc/net/route`: interface, destination, gateway, flags, two counts, metric and mask.
    static func defaultRouteInterface(of lines: [String]) -> String? {
        let routes = lines.compactMap { line -> (name: String, metric: Int)? in
            let fields = line.split(whereSeparator: \.isWhitespace)
            guard fields.count > 7, fields[1] == "00000000", fields[7] == "00000000", let metric = Int(fields[6]) else {
                return nil
            }
            return (String(fields[0]), metric)
        }
        return routes.min { $0.metric < $1.metric }?.name
    }
}
