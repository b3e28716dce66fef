package import NearshareBase

/// A Wi-Fi network for one transfer: one peer is its access point, the other one its station (`docs/PROTOCOL.md`, section 17).
package struct HotspotNetwork: Sendable, Hashable {
    package let ssid: String
    package let passphrase: String
    /// The band of the radio; nil where the access point does not state it.
    package let band: WiFiBand?
    /// The IPv4 address of the access point.
    package let accessPointAddress: IPAddress
    /// The IPv4 address of the station.
    package let stationAddress: IPAddress

    /// The first characters of each SSID, which no network of a user has: a peer cannot pass its network off as one that this
    /// machine knows.
    package static let ssidPrefix = "nearshare-"
    /// Limit on an SSID, in bytes (IEEE 802.11, 9.4.2.2).
    package static let maximumSSIDByteCount = 32
    /// Length of a passphrase, in characters (IEEE 802.11, annex J.4).
    package static let passphraseLength = 8...63
    /// Number of leading bits that both addresses share.
    package static let prefixLength = 24

    /// - Returns: nil where a value breaks the rules of section 17.
    package init?(
        ssid: String, passphrase: String, band: WiFiBand?, accessPointAddress: IPAddress, stationAddress: IPAddress
    ) {
        let suffix = ssid.utf8.dropFirst(Self.ssidPrefix.utf8.count)
        guard ssid.hasPrefix(Self.ssidPrefix), !suffix.isEmpty, ssid.utf8.count <= Self.maximumSSIDByteCount,
            suffix.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x7a).contains($0) }),
            Self.passphraseLength.contains(passphrase.utf8.count), passphrase.utf8.allSatisfy({ (0x20...0x7e).contains($0) }),
            accessPointAddress != stationAddress,
            accessPointAddress.shares(prefixLength: Self.prefixLength, with: stationAddress),
            Self.isHost(accessPointAddress), Self.isHost(stationAddress)
        else { return nil }
        (self.ssid, self.passphrase, self.band) = (ssid, passphrase, band)
        (self.accessPointAddress, self.stationAddress) = (accessPointAddress, stationAddress)
    }

    /// Whether an address is that of a host in a network of 24 bits in the private ranges (RFC 1918): no peer gets a route to
    /// public addresses this way.
    private static func isHost(_ address: IPAddress) -> Bool {
        guard case .v4(let value) = address, (1...254).contains(value & 0xff) else { return false }
        return value >> 24 == 10 || value >> 20 == 0xac1 || value >> 16 == 0xc0a8
    }

    /// Random addresses for the two peers, in none of the local networks.
    /// - Parameters:
    ///   - random: at least ``randomByteCount`` bytes.
    ///   - networks: the subnets of this machine.
    /// - Returns: nil where none is free.
    package static func addresses(
        random: [UInt8], avoiding networks: [IPSubnet]
    ) -> (accessPoint: IPAddress, station: IPAddress)? {
        for start in stride(from: 0, to: random.count - 1, by: 2) {
            let (first, second) = (UInt32(random[start]), UInt32(random[start + 1]))
            // Two of four candidates are in the smaller ranges: a machine in all of 10/8 has no free network there.
            let base: UInt32 =
                switch start / 2 % 4 {
                case 2: 0xac10_0000 | (first & 0xf) << 16 | second << 8
                case 3: 0xc0a8_0000 | second << 8
                default: 0x0a00_0000 | first << 16 | second << 8
                }
            let accessPoint = IPAddress.v4(base | 1)
            if !overlaps(accessPoint, anyOf: networks) { return (accessPoint, .v4(base | 2)) }
        }
        return nil
    }

    /// Random bytes that ``addresses(random:avoiding:)`` needs.
    package static let randomByteCount = 32

    /// Whether the network of 24 bits with this address has addresses in common with one of the others.
    package static func overlaps(_ address: IPAddress, anyOf networks: [IPSubnet]) -> Bool {
        networks.contains { address.shares(prefixLength: min($0.prefixLength, prefixLength), with: $0.address) }
    }
}
