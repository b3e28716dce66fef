import NearshareBase
import NearshareDiscovery
import Testing

@testable import NearshareService

@Suite("addresses for a page") struct PageHostsTests {
    private static func interface(_ name: String, _ addresses: [[UInt8]], isUp: Bool = true) -> NetworkInterface {
        NetworkInterface(
            name: name, index: 1, isUp: isUp, isRunning: true, isLoopback: name == "lo", isMulticastCapable: true,
            isPointToPoint: false,
            addresses: addresses.map { NetworkInterface.Address(address: IPAddress(bytes: $0)!, prefixLength: 24) })
    }

    private static let global: [UInt8] = [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [1]
    private static let interfaces = [
        interface("lo", [[127, 0, 0, 1]]), interface("docker0", [[172, 17, 0, 1]]),
        interface("down", [[10, 1, 1, 1]], isUp: false),
        interface("wlan0", [[0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [1], global, [192, 168, 1, 5]]),
    ]

    @Test func `the interface of the default route is first, and IPv6 last`() {
        #expect(
            PageHosts.hosts(of: Self.interfaces, on: nil, defaultRoute: "wlan0") == [
                "192.168.1.5", "172.17.0.1", "2001:db8::1",
            ])
    }

    @Test func `an interface that the user has chosen is the only one`() {
        #expect(PageHosts.hosts(of: Self.interfaces, on: "docker0", defaultRoute: "wlan0") == ["172.17.0.1"])
        #expect(PageHosts.hosts(of: Self.interfaces, on: "eth7", defaultRoute: nil) == [])
    }
}
