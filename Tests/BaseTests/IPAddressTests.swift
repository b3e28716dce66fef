import NearshareBase
import NearshareTesting
import Testing

@Suite struct IPAddressTests {
    private func v4(_ bytes: UInt8...) -> IPAddress { IPAddress(bytes: bytes)! }

    /// The 16 bytes that the groups encode.
    private func v6(_ groups: UInt16...) -> IPAddress { IPAddress(bytes: groups.flatMap(\.bigEndianBytes))! }

    @Test("an address has 4 or 16 bytes", arguments: 0...20)
    func sizes(count: Int) {
        let bytes = (0..<count).map { UInt8($0 + 1) }
        let address = IPAddress(bytes: bytes)
        #expect((address != nil) == (count == 4 || count == 16))
        if let address { #expect(address.bytes == bytes && address.isIPv6 == (count == 16)) }
    }

    /// (groups, text): examples of RFC 5952, sections 4 and 5.
    private static let texts: [([UInt16], String)] = [
        ([0, 0, 0, 0, 0, 0, 0, 0], "::"), ([0, 0, 0, 0, 0, 0, 0, 1], "::1"), ([1, 0, 0, 0, 0, 0, 0, 0], "1::"),
        ([0x2001, 0xdb8, 0, 0, 0, 0, 2, 1], "2001:db8::2:1"), ([0x2001, 0xdb8, 0, 1, 1, 1, 1, 1], "2001:db8:0:1:1:1:1:1"),
        ([0x2001, 0, 0, 1, 0, 0, 0, 1], "2001:0:0:1::1"), ([0x2001, 0xdb8, 0, 0, 1, 0, 0, 1], "2001:db8::1:0:0:1"),
        ([0xfe80, 0, 0, 0, 0xabcd, 0, 0, 0x00ef], "fe80::abcd:0:0:ef"), ([1, 2, 3, 4, 5, 6, 7, 8], "1:2:3:4:5:6:7:8"),
    ]

    @Test("IPv6 addresses are written in their canonical text form", arguments: texts)
    func canonical(groups: [UInt16], text: String) {
        #expect(IPAddress(bytes: groups.flatMap(\.bigEndianBytes))?.description == text)
    }

    @Test func `IPv4 addresses are written as dotted decimals`() {
        #expect(v4(127, 0, 0, 1).description == "127.0.0.1")
        #expect(v4(255, 10, 0, 9).description == "255.10.0.9")
        #expect(v4(127, 0, 0, 1) == .v4(0x7f00_0001))
    }

    @Test func `the kinds of an address follow its prefix`() {
        #expect(v4(127, 9, 9, 9).isLoopback && !v4(128, 0, 0, 1).isLoopback)
        #expect(v6(0, 0, 0, 0, 0, 0, 0, 1).isLoopback && !v6(0, 0, 0, 0, 0, 0, 0, 2).isLoopback)
        #expect(v4(224, 0, 0, 251).isMulticast && v4(239, 1, 1, 1).isMulticast)
        #expect(!v4(223, 1, 1, 1).isMulticast && !v4(240, 1, 1, 1).isMulticast)
        #expect(v6(0xff02, 0, 0, 0, 0, 0, 0, 0xfb).isMulticast && !v6(0xfe02, 0, 0, 0, 0, 0, 0, 0xfb).isMulticast)
        #expect(v4(169, 254, 3, 4).isLinkLocal && !v4(169, 253, 3, 4).isLinkLocal)
        #expect(v6(0xfe80, 0, 0, 0, 0, 0, 0, 1).isLinkLocal && v6(0xfebf, 0, 0, 0, 0, 0, 0, 1).isLinkLocal)
        #expect(!v6(0xfec0, 0, 0, 0, 0, 0, 0, 1).isLinkLocal)
    }

    @Test func `only a link-local IPv6 address needs a zone`() {
        #expect(v6(0xfe80, 0, 0, 0, 0, 0, 0, 1).needsZone)
        #expect(!v4(169, 254, 3, 4).needsZone && !v6(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).needsZone)
    }

    @Test("D1: an address that no host on the link can have is not connected to")
    func unreachable() {
        let unreachable = [
            v4(0, 0, 0, 0), v4(0, 1, 2, 3), v4(224, 0, 0, 1), v4(240, 0, 0, 1), v4(255, 255, 255, 255),
            v6(0, 0, 0, 0, 0, 0, 0, 0),
            v6(0, 0, 0, 0, 0, 0, 0x0a00, 1), v6(0, 0, 0, 0, 0, 0xffff, 0x0a00, 1), v6(0xff02, 0, 0, 0, 0, 0, 0, 1),
        ]
        for address in unreachable {
            #expect(!address.canBeReached(onLoopback: false) && !address.canBeReached(onLoopback: true), "\(address)")
        }
        for address in [v4(10, 0, 0, 1), v4(169, 254, 1, 1), v6(0xfe80, 0, 0, 0, 0, 0, 0, 1), v6(0xfd00, 0, 0, 0, 0, 0, 0, 1)] {
            #expect(address.canBeReached(onLoopback: false) && address.canBeReached(onLoopback: true), "\(address)")
        }
        for address in [v4(127, 0, 0, 1), v6(0, 0, 0, 0, 0, 0, 0, 1)] {
            #expect(!address.canBeReached(onLoopback: false) && address.canBeReached(onLoopback: true), "\(address)")
        }
    }

    @Test("addresses share a network when their first bits agree", arguments: seeds(1...10))
    func prefixes(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for count in [4, 16] {
            let bytes = random.bytes(count)
            let address = try #require(IPAddress(bytes: bytes))
            let flipped = Int.random(in: 0..<count * 8, using: &random)
            var changed = bytes
            changed[flipped / 8] ^= 0x80 >> UInt8(flipped % 8)
            let other = try #require(IPAddress(bytes: changed))
            for length in 0...count * 8 {
                #expect(address.shares(prefixLength: length, with: address), "seed \(seed)")
                #expect(
                    address.shares(prefixLength: length, with: other) == (length <= flipped), "seed \(seed), bit \(flipped)")
            }
            #expect(!address.shares(prefixLength: -1, with: address))
            #expect(!address.shares(prefixLength: count * 8 + 1, with: address))
        }
        #expect(!v4(1, 2, 3, 4).shares(prefixLength: 0, with: v6(0, 0, 0, 0, 0, 0, 0, 1)))
    }
}
