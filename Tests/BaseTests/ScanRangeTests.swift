import NearshareBase
import Testing

@Suite("hosts that are asked one by one") struct ScanRangeTests {
    private func hosts(_ own: [(UInt32, Int)]) -> [UInt32] {
        ScanRange.hosts(around: own.map { IPSubnet(.v4($0), prefixLength: $1) }).compactMap {
            guard case .v4(let address) = $0 else { return nil }
            return address
        }
    }

    @Test func `the other hosts of a network are asked`() {
        // 10.0.0.6/29: 10.0.0.1 to 10.0.0.6.
        #expect(hosts([(0x0a00_0006, 29)]) == [1, 2, 3, 4, 5].map { 0x0a00_0000 + $0 })
        #expect(hosts([(0x0a00_0005, 24)]).count == 253)
        // A link of two hosts.
        #expect(hosts([(0x0a00_0004, 31)]) == [0x0a00_0005])
        #expect(hosts([(0x0a00_0004, 32)]) == [])
    }

    @Test("F21: of a large network the 254 addresses around this machine are asked, and of four networks at most")
    func bounds() {
        let large = hosts([(0x0a05_0705, 8)])
        #expect(large.count == 253 && large.allSatisfy { $0 >> 8 == 0x0a_0507 })
        let many = hosts((0..<10).map { (0xc0a8_0001 + UInt32($0) << 8, 16) })
        #expect(many.count == 4 * 253)
        // Addresses of tunnels are none of the four.
        let tunnels = (0..<4).map { (0x0a00_0004 + UInt32($0) << 8, 32) }
        #expect(hosts(tunnels + [(0xc0a8_0005, 24)]).count == 253)
        // Two addresses in one network are one network.
        #expect(hosts([(0x0a00_0005, 24), (0x0a00_0006, 24)]).count == 252)
    }

    @Test("F21: loopback, multicast, IPv6 and impossible prefixes are never asked")
    func others() {
        #expect(hosts([(0x7f00_0001, 8), (0, 0), (0xe000_0001, 4), (0x0a00_0001, 0), (0x0a00_0001, 33)]) == [])
        #expect(ScanRange.hosts(around: [IPSubnet(.v6(0xfe80_0000_0000_0000, 1), prefixLength: 64)]) == [])
    }
}
