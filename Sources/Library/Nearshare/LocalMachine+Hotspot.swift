internal import NearshareDiscovery
package import NearshareInterfaces
internal import NearshareNetworkManager

extension LocalMachine {
    /// A Wi-Fi connection for a hotspot. Nothing is used or changed before it is prepared.
    package static func wifiConnection() -> any WiFiConnection { NetworkManagerWiFiConnection() }

    /// A fresh network with a random passphrase.
    package static func makeWiFiNetwork() -> WiFiNetwork {
        WiFiNetwork(random: randomBytes(WiFiNetwork.randomByteCount))
    }

    /// The commands that open the firewall in use for devices that have joined a hotspot; none where no firewall is known to run.
    /// - Parameter interface: of the hotspot.
    package static func hotspotFirewallCommands(interface: String) -> [[String]] {
        switch NetworkDiagnosis.firewallTool() {
        // The addresses that NetworkManager gives, and the page.
        case .ufw:
            [
                ["sudo", "ufw", "allow", "in", "on", interface, "to", "any", "port", "67", "proto", "udp"],
                ["sudo", "ufw", "allow", "nearshare"],
            ]
        // NetworkManager puts the interface into this zone, which lets in DHCP and DNS only.
        case .firewalld: [["sudo", "firewall-cmd", "--zone=nm-shared", "--add-service=nearshare"]]
        case nil: []
        }
    }
}
