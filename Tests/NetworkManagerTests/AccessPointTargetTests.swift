import NearshareInterfaces
import Testing

@testable import NearshareNetworkManager

@Suite struct AccessPointTargetTests {
    private static func device(
        _ interface: String, state: Int = 30, _ capabilities: NetworkManager.Capabilities = .protectedAccessPoint,
        connection: String? = nil
    ) -> AccessPointFacts.WiFiDevice {
        AccessPointFacts.WiFiDevice(
            path: "/devices/\(interface)", interface: interface, state: state, capabilities: capabilities,
            connection: connection.map { .init(name: $0, profile: "/settings/\($0)") })
    }

    private static func facts(_ devices: [AccessPointFacts.WiFiDevice]) -> AccessPointFacts {
        var facts = AccessPointFacts()
        facts.devices = devices
        return facts
    }

    private static func error(_ facts: AccessPointFacts, on interface: String? = nil) -> AccessPointError? {
        do throws(AccessPointError) {
            _ = try AccessPointTarget(facts, interface: interface)
            return nil
        } catch {
            return error
        }
    }

    @Test func `a device without a connection is taken before one that loses its own`() throws {
        let busy = Self.device("wlan0", state: 100, connection: "Office")
        let target = try AccessPointTarget(Self.facts([busy, Self.device("wlan1")]), interface: nil)
        #expect(target.interface == "wlan1" && target.replacedProfile == nil && target.plan.replacedConnection == nil)
        let named = try AccessPointTarget(Self.facts([busy, Self.device("wlan1")]), interface: "wlan0")
        #expect(named.interface == "wlan0" && named.replacedProfile == "/settings/Office")
        #expect(
            named.plan == AccessPointPlan(interface: "wlan0", replacedConnection: "Office", sharedConnection: nil))
    }

    @Test func `the connection to the internet is shared unless the hotspot takes it away`() throws {
        var facts = Self.facts([Self.device("wlan0", state: 100, connection: "Office")])
        facts.uplink = .init(name: "Office", devices: ["/devices/wlan0"])
        #expect(try AccessPointTarget(facts, interface: nil).plan.sharedConnection == nil)
        facts.uplink = .init(name: "Wired", devices: ["/devices/eth0"])
        #expect(try AccessPointTarget(facts, interface: nil).plan.sharedConnection == "Wired")
    }

    @Test func `a device that lacks 2.4 GHz uses 5 GHz`() throws {
        for (more, lacks) in [([], false), ([.knowsBands], true), ([.knowsBands, .band2GHz], false)]
            as [(NetworkManager.Capabilities, Bool)]
        {
            let device = Self.device("wlan0", NetworkManager.Capabilities.protectedAccessPoint.union(more))
            #expect(try AccessPointTarget(Self.facts([device]), interface: nil).lacks2GHz == lacks)
        }
    }

    @Test func `each obstacle has its own reason`() {
        #expect(Self.error(Self.facts([])) == .noDevice)
        let one = Self.facts([Self.device("wlan0")])
        #expect(Self.error(one) == nil)
        #expect(Self.error(one, on: "eth0") == .notWiFi(interface: "eth0"))
        for (change, expected) in [
            ({ $0.isNetworkingEnabled = false }, .networkingOff),
            ({ $0.isWirelessEnabled = false }, .radioOff(isHardwareSwitch: false)),
            ({ $0.isWirelessHardwareEnabled = false }, .radioOff(isHardwareSwitch: true)),
            ({ $0.devices[0].state = 10 }, .unmanaged(interface: "wlan0")),
            ({ $0.devices[0].state = 20 }, .deviceUnavailable(interface: "wlan0")),
            ({ $0.devices[0].capabilities = [.rsn, .ccmp] }, .noAccessPointMode(interface: "wlan0")),
            ({ $0.devices[0].capabilities = [.accessPoint, .rsn] }, .noAccessPointMode(interface: "wlan0")),
            ({ $0.permissions[NetworkManager.sharingPermission] = "no" }, .notPermitted),
            ({ $0.permissions[NetworkManager.controlPermission] = "no" }, .notPermitted),
        ] as [((inout AccessPointFacts) -> Void, AccessPointError)] {
            var facts = one
            change(&facts)
            #expect(Self.error(facts) == expected)
        }
        var asked = one
        asked.permissions = [NetworkManager.sharingPermission: "auth", NetworkManager.controlPermission: "yes"]
        #expect(Self.error(asked) == nil)
    }

    @Test func `a device that cannot does not hide one that can`() throws {
        let devices = [
            Self.device("wlan0", state: 10), Self.device("wlan1", [.rsn, .ccmp]), Self.device("wlan2", state: 20),
            Self.device("wlan3", state: 100, connection: "Office"),
        ]
        #expect(try AccessPointTarget(Self.facts(devices), interface: nil).interface == "wlan3")
    }
}
