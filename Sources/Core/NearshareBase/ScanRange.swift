/// The hosts that are asked one by one for LocalSend devices, where multicast does not reach them.
package enum ScanRange {
    /// Limit on networks: more come from virtual machines and containers, which hold no peers to look for.
    static let maximumNetworkCount = 4
    /// The shortest prefix of a scanned network, in bits. Of a larger network only the /24 around this machine is scanned.
    static let shortestPrefixLength = 24

    /// The other hosts of the networks that this machine is in: of IPv4, and at most 254 of each of at most four networks.
    package static func hosts(around own: [IPSubnet]) -> [IPAddress] {
        let addresses = own.compactMap { local -> (address: UInt32, length: Int)? in
            guard case .v4(let address) = local.address, local.address.canBeReached(onLoopback: false),
                (1...32).contains(local.prefixLength)
            else { return nil }
            return (address, max(local.prefixLength, shortestPrefixLength))
        }
        let ownAddresses = Set(addresses.map(\.address))
        var networks: [ClosedRange<UInt32>] = []
        // A single address, as of a tunnel, is no network.
        for (address, length) in addresses where length < 32 {
            let size = UInt32(1) << (32 - UInt32(length))
            let first = address & ~(size - 1)
            let all = first...first + (size - 1)
            // The first and the last address are those of the network itself, but for a link of two hosts, a /31 (RFC 3021).
            let hosts = size > 2 ? first + 1...first + (size - 2) : all
            if networks.count < maximumNetworkCount, !networks.contains(where: { $0.overlaps(hosts) }) {
                networks.append(hosts)
            }
        }
        return networks.flatMap { $0 }.filter { !ownAddresses.contains($0) }.map { .v4($0) }
    }
}
