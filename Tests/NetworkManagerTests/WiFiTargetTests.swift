import NearshareBase
import NearshareDBus
import NearshareInterfaces
import Testing

@testable import NearshareNetworkManager

@Suite struct WiFiTargetTests {
    private static func device(
        _ interface: String, state: Int = 30, _ capabilities: NetworkManager.Capabilities = .protectedAccessPoint,
        connection: String? = nil
    ) -> WiFiFacts.WiFiDevice {
        WiFiFacts.WiFiDevice(
            path: "/devices/\(interface)", interface: interface, state: state, capabilities: capabilities,
            connection: connection.map { .init(name: $0, profile: "/settings/\($0)") })
    }

    private static func facts(_ devices: [WiFiFacts.WiFiDevice]) -> WiFiFacts {
        var facts = WiFiFacts()
        facts.devices = devices
        return facts
    }

    private static func error(_ facts: WiFiFacts, on interface: String? = nil) -> WiFiError? {
        do throws(WiFiError) {
            _ = try WiFiTarget(facts, interface: interface)
            return nil
        } catch {
            return error
        }
    }

    @Test func `a device without a connection is taken before one that loses its own`() throws {
        let busy = Self.device("wlan0", state: 100, connection: "Office")
        let target = try WiFiTarget(Self.facts([busy, Self.device("wlan1")]), interface: nil)
        #expect(target.interface == "wlan1" && target.replacedProfile == nil && target.plan.replacedConnection == nil)
        let named = try WiFiTarget(Self.facts([busy, Self.device("wlan1")]), interface: "wlan0")
        #expect(named.interface == "wlan0" && named.replacedProfile == "/settings/Office")
        #expect(
            named.plan == WiFiPlan(interface: "wlan0", replacedConnection: "Office", sharedConnection: nil))
    }

    @Test func `the connection to the internet is shared unless the hotspot takes it away`() throws {
        var facts = Self.facts([Self.device("wlan0", state: 100, connection: "Office")])
        facts.uplink = .init(name: "Office", devices: ["/devices/wlan0"])
        #expect(try WiFiTarget(facts, interface: nil).plan.sharedConnection == nil)
        facts.uplink = .init(name: "Wired", devices: ["/devices/eth0"])
        #expect(try WiFiTarget(facts, interface: nil).plan.sharedConnection == "Wired")
    }

    @Test func `a device that lacks 2.4 GHz uses 5 GHz`() throws {
        for (more, lacks) in [([], false), ([.knowsBands], true), ([.knowsBands, .band2GHz], false)]
            as [(NetworkManager.Capabilities, Bool)]
        {
            let device = Self.device("wlan0", NetworkManager.Capabilities.protectedAccessPoint.union(more))
            #expect(try WiFiTarget(Self.facts([device]), interface: nil).plan.band == (lacks ? .ghz5 : .ghz2Point4))
        }
    }

    @Test func `joining needs neither an access-point mode nor the right to share`() throws {
        var facts = Self.facts([Self.device("wlan0", state: 100, .protected, connection: "Office")])
        facts.uplink = .init(name: "Wired", devices: ["/devices/eth0"])
        facts.permissions = [NetworkManager.sharingPermission: "no"]
        #expect(throws: WiFiError.noAccessPointMode(interface: "wlan0")) {
            try WiFiTarget(facts, interface: nil, purpose: .accessPoint)
        }
        let plan = try WiFiTarget(facts, interface: nil, purpose: .station).plan
        // Nothing is shared with a peer, and the cable leads to the internet all the same.
        #expect(plan.replacedConnection == "Office" && plan.sharedConnection == nil && plan.keepsInternet)
        facts.devices[0].capabilities = .accessPoint
        #expect(throws: WiFiError.noProtection(interface: "wlan0")) {
            try WiFiTarget(facts, interface: nil, purpose: .station)
        }
        facts.devices[0].capabilities = .protectedAccessPoint
        #expect(throws: WiFiError.notPermitted) { try WiFiTarget(facts, interface: nil, purpose: .accessPoint) }
        facts.permissions = [NetworkManager.controlPermission: "no"]
        #expect(throws: WiFiError.notPermitted) { try WiFiTarget(facts, interface: nil, purpose: .station) }
    }

    @Test("N18: a profile for a peer's network has an address of its own and leads nowhere else") func settings() throws {
        let target = try WiFiTarget(Self.facts([Self.device("wlan0")]), interface: nil, purpose: .accessPoint)
        let network = WiFiNetwork(ssid: "nearshare-0a1b", passphrase: "abcd-efgh")
        let address = IPAddress.v4(0x0a01_0202)
        let shared = NetworkManagerClient.settings(of: network, .sharing, on: target)
        #expect(shared["ipv4"] == ["method": .string("shared")] && shared["802-11-wireless"]?["mode"] == .string("ap"))
        let made = NetworkManagerClient.settings(of: network, .accessPoint(address, prefixLength: 24), on: target)
        #expect(made["802-11-wireless"]?["mode"] == .string("ap") && made["802-11-wireless"]?["band"] == .string("bg"))
        for band in [nil, WiFiBand.ghz5] {
            let joined = NetworkManagerClient.settings(of: network, .station(address, prefixLength: 24, band), on: target)
            #expect(joined["802-11-wireless"]?["mode"] == .string("infrastructure"))
            #expect(joined["802-11-wireless"]?["band"] == band.map { _ in .string("a") })
            #expect(joined["802-11-wireless"]?["ssid"] == .bytes(Array("nearshare-0a1b".utf8)))
            #expect(joined["ipv4"] == made["ipv4"] && joined["ipv6"] == ["method": .string("ignore")])
            // Neither a UUID of a saved profile, nor one that connects by itself later.
            #expect(
                joined["connection"] == [
                    "id": .string("nearshare-0a1b"), "type": .string("802-11-wireless"), "autoconnect": .boolean(false),
                ])
            let security = joined["802-11-wireless-security"]
            #expect(security?["psk"] == .string("abcd-efgh") && security?["key-mgmt"] == .string("wpa-psk"))
        }
        #expect(made["ipv4"]?["method"] == .string("manual") && made["ipv4"]?["never-default"] == .boolean(true))
        #expect(
            made["ipv4"]?["address-data"]
                == .dictionaries([["address": .string("10.1.2.2"), "prefix": .uint32(24)]]))
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
        ] as [((inout WiFiFacts) -> Void, WiFiError)] {
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
        #expect(try WiFiTarget(Self.facts(devices), interface: nil).interface == "wlan3")
    }
}
