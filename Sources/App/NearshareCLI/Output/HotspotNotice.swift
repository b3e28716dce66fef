internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The QR codes and the address by which a phone joins a hotspot and opens its page.
enum HotspotNotice {
    /// Shows the codes on the terminal, or emits their content as JSON.
    /// - Parameter action: the purpose of the page, as the end of "opens a page to …".
    static func show(_ hotspot: Hotspot, _ page: PageServer, purpose action: String, to reporter: any CommandReporter) {
        let url = page.url(host: hotspot.address.description)
        let pageMembers: [String: JSONValue] = ["url": .string(url), "urls": .array([.string(url)])]
        reporter.emit([("hotspot", jsonMembers(hotspot)), ("page", pageMembers)]) { write(hotspot, url, action) }
    }

    private static func write(_ hotspot: Hotspot, _ url: String, _ action: String) {
        let network = hotspot.network
        let commands = LocalMachine.hotspotFirewallCommands(interface: hotspot.plan.interface)
        if !commands.isEmpty {
            let list = commands.map { "`\($0.joined(separator: " "))`" }.joined(separator: ", ")
            Console.notice("a firewall runs on this machine; if phones cannot connect, run \(list)")
        }
        Console.notice("the hotspot is on; a phone may say that it has no internet: keep it connected")
        QRCodeOutput.write(
            [
                .init(
                    network.joinText,
                    caption: "1. the first code joins Wi-Fi network \(network.ssid), password \(network.passphrase)"),
                .init(url, caption: "2. the second one opens a page to \(action): \(url)"),
            ], to: STDERR_FILENO)
    }

    private static func jsonMembers(_ hotspot: Hotspot) -> [String: JSONValue] {
        [
            "name": .string(hotspot.network.ssid), "password": .string(hotspot.network.passphrase),
            "join": .string(hotspot.network.joinText), "interface": .string(hotspot.plan.interface),
            "address": .string(hotspot.address.description), "replaced": JSONValue(hotspot.plan.replacedConnection),
            "shared": JSONValue(hotspot.plan.sharedConnection),
        ]
    }
}
