import NearshareBase
import NearshareDiscovery
import Testing

@testable import NearshareService

@Suite("addresses for a page") struct PageHostsTests {
    private static func interface(_ name: String, _ addresses: [[UInt8]], isUp: Bool = true) -> NetworkInterface {
        NetworkInterface(
            name: name, index: 1, isUp: isUp, isRunning: true, isLoopback: name == "lo", isMulticastCapable: true,
            isPointToPoint: false,
            addresses: addresses.map { IPSubnet(IPAddress(bytes: $0)!, prefixLength: 24) })
    }

    private static let global: [UInt8] = [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [1]
    private static let interfaces = [
        interface("lo", [[127, 0, 0, 1]]), interface("docker0", [[172, 17, 0, 1]]),
        interface("down", [[10, 1, 1, 1]], isUp: false),
        interface("wlan0", [[0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [1], global, [192, 168, 1, 5]]),
    ]

    private static func likelihood(_ interface: NetworkInterface) -> PageHosts.Likelihood {
        switch interface.name {
        case "wlan0": .defaultRoute
        case "eth1": .adapter
        case "docker0": .virtual
        default: .other
        }
    }

    @Test func `the interface of the default route is first, virtual bridges and IPv6 are last`() {
        let others = [Self.interface("vpn", [[10, 8, 0, 2]]), Self.interface("eth1", [[10, 2, 2, 2]])]
        #expect(
            PageHosts.hosts(of: others + Self.interfaces, on: nil, likelihood: Self.likelihood) == [
                "192.168.1.5", "10.2.2.2", "10.8.0.2", "172.17.0.1", "2001:db8::1",
            ])
    }

    @Test func `an interface without a carrier is last`() {
        var interfaces = Self.interfaces
        interfaces[3].isRunning = false
        let hosts = PageHosts.hosts(of: interfaces, on: nil, likelihood: Self.likelihood)
        #expect(hosts == ["172.17.0.1", "192.168.1.5", "2001:db8::1"])
    }

    @Test func `an interface that the user has chosen is the only one`() {
        #expect(PageHosts.hosts(of: Self.interfaces, on: "docker0", likelihood: Self.likelihood) == ["172.17.0.1"])
        #expect(PageHosts.hosts(of: Self.interfaces, on: "eth7", likelihood: Self.likelihood) == [])
    }

    @Test func `of several default routes the one with the lowest metric counts`() {
        let lines = [
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
            "eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0",
            "eth0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0",
            "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0",
        ]
        #expect(PageHosts.defaultRouteInterface(of: lines) == "wlan0")
        #expect(PageHosts.defaultRouteInterface(of: Array(lines.prefix(2))) == nil)
    }
}
