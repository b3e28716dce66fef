package import NearshareBase

/// A Wi-Fi network that one peer makes for one transfer, and that the other joins (`docs/PROTOCOL.md`, section 17).
package struct HotspotNetwork: Sendable, Hashable {
    package enum Band: UInt8, Sendable, Hashable {
        case unknown = 0
        case ghz2 = 1
        case ghz5 = 2
    }

    /// The SSID.
    package let name: String
    package let passphrase: String
    package let band: Band
    /// The IPv4 address of the peer that makes the network.
    package let makerAddress: IPAddress
    /// The IPv4 address of the peer that joins it.
    package let joinerAddress: IPAddress

    /// The first characters of each name: no such network is a user's own, so that a peer cannot pass its network off as one that
    /// this machine knows.
    package static let namePrefix = "nearshare-"
    /// Limit on an SSID, in bytes (IEEE 802.11, 9.4.2.2).
    package static let maximumNameByteCount = 32
    /// Length of a passphrase, in characters (IEEE 802.11, annex J.4).
    package static let passphraseLength = 8...63
    /// Bits that both addresses share.
    package static let prefixLength = 24

    /// - Returns: nil where a value breaks the rules of section 17.
    package init?(
        name: String, passphrase: String, band: Band, makerAddress: IPAddress, joinerAddress: IPAddress
    ) {
        let suffix = name.utf8.dropFirst(Self.namePrefix.utf8.count)
        guard name.hasPrefix(Self.namePrefix), !suffix.isEmpty, name.utf8.count <= Self.maximumNameByteCount,
            suffix.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x7a).contains($0) }),
            Self.passphraseLength.contains(passphrase.utf8.count), passphrase.utf8.allSatisfy({ (0x20...0x7e).contains($0) }),
            makerAddress != joinerAddress, makerAddress.shares(prefixLength: Self.prefixLength, with: joinerAddress),
            Self.isHost(makerAddress), Self.isHost(joinerAddress)
        else { return nil }
        (self.name, self.passphrase, self.band) = (name, passphrase, band)
        (self.makerAddress, self.joinerAddress) = (makerAddress, joinerAddress)
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
    ///   - networks: the addresses of this machine, with the number of leading bits that hosts on their link share.
    /// - Returns: nil where none is free.
    package static func addresses(
        random: [UInt8], avoiding networks: [(address: IPAddress, prefixLength: Int)]
    ) -> (maker: IPAddress, joiner: IPAddress)? {
        for start in stride(from: 0, to: random.count - 1, by: 2) {
            let (one, two) = (UInt32(random[start]), UInt32(random[start + 1]))
            // The last candidates are in the smaller ranges: a machine in all of 10/8 has none in the first.
            let base: UInt32 =
                switch start / 2 % 4 {
                case 2: 0xac10_0000 | (one & 0xf) << 16 | two << 8
                case 3: 0xc0a8_0000 | two << 8
                default: 0x0a00_0000 | one << 16 | two << 8
                }
            let maker = IPAddress.v4(base | 1)
            if !overlaps(maker, networks) { return (maker, .v4(base | 2)) }
        }
        return nil
    }

    /// Random bytes that ``addresses(random:avoiding:)`` needs.
    package static let randomByteCount = 32

    /// Whether the network of 24 bits with this address has addresses in common with one of the others.
    package static func overlaps(_ address: IPAddress, _ networks: [(address: IPAddress, prefixLength: Int)]) -> Bool {
        networks.contains { address.shares(prefixLength: min($0.prefixLength, prefixLength), with: $0.address) }
    }
}
