internal import NearshareBase
package import NearshareInterfaces

/// Reasons why peers may not be found, as far as this machine alone shows them.
package struct NetworkDiagnosis: Sendable, Hashable {
    package enum Subject: String, Sendable, Hashable {
        case interfaces
        case engine
        case responders
        case firewall
    }

    package typealias Finding = DiagnosticFinding<Subject>

    /// The facts about this machine that the findings follow from.
    package struct Facts: Sendable, Hashable {
        package var interfaces: [NetworkInterface]
        /// ``NearshareInterfaces/Discovery/engine`` of the engine in use.
        package var engine: String
        /// Names of the other processes that have bound UDP port 5353; "?" for a process of another user.
        package var responders: [String]
        /// Whether org.freedesktop.Avahi has an owner on the system bus.
        package var isDaemonOnBus: Bool
        package var firewall: FirewallFacts
        /// The names of the interfaces that are bridges.
        package var bridges: Set<String>
        /// The TCP port that peers connect to; nil when it is not known.
        package var port: UInt16?
        /// Put before commands that only root can run: "sudo ", or nothing for root.
        package var privilege: String

        package init(
            interfaces: [NetworkInterface], engine: String, responders: [String], isDaemonOnBus: Bool, firewall: FirewallFacts,
            bridges: Set<String> = [], port: UInt16?, privilege: String = ""
        ) {
            self.privilege = privilege
            self.interfaces = interfaces
            self.engine = engine
            self.responders = responders
            self.isDaemonOnBus = isDaemonOnBus
            self.firewall = firewall
            self.bridges = bridges
            self.port = port
        }
    }

    package var facts: Facts
    package var findings: [Finding]

    /// The highest severity of the findings.
    package var severity: DiagnosticSeverity { findings.map(\.severity).max() ?? .ok }

    /// Derives the findings.
    package init(of facts: Facts) {
        self.facts = facts
        findings = Self.interfaceFindings(facts) + Self.engineFindings(facts)
        findings += Self.responderFindings(facts) + Self.firewallFindings(facts)
    }

    private static func interfaceFindings(_ facts: Facts) -> [Finding] {
        var findings: [Finding] = []
        for one in facts.interfaces where !one.isLoopback {
            let name = one.name
            if !one.isUp {
                findings.append(
                    Finding(
                        .notice, .interfaces, "\(name) is switched off",
                        advice: "switch it on: `\(facts.privilege)ip link set \(name) up`"))
            } else if !one.isRunning {
                findings.append(
                    Finding(
                        .notice, .interfaces, "\(name) is up, but has no link", advice: "plug in its cable, or join a network"))
            } else if !one.isMulticastCapable || one.isPointToPoint {
                findings.append(
                    Finding(
                        .notice, .interfaces, "\(name) does not carry multicast, so no peer is discovered over it",
                        advice: "use the peer's address to reach a peer behind it"))
            } else if one.addresses.isEmpty {
                findings.append(
                    Finding(
                        .warning, .interfaces, "\(name) has no address",
                        advice: "configure one by DHCP, or enable link-local IPv6 addresses"))
            } else {
                let addresses = one.addresses.map(\.address.description).joined(separator: ", ")
                findings.append(Finding(.ok, .interfaces, "\(name) carries discovery (\(addresses))"))
            }
        }
        if !facts.interfaces.contains(where: \.leadsToOthers) {
            findings.append(
                Finding(
                    .error, .interfaces,
                    "no network interface leads to other machines: only peers on this machine can be found",
                    advice: "connect both machines to the same network"))
        }
        return findings
    }

    private static func engineFindings(_ facts: Facts) -> [Finding] {
        var findings = [Finding(.ok, .engine, "discovery uses the \(facts.engine)")]
        if facts.engine == "avahi-daemon", !facts.isDaemonOnBus {
            findings.append(
                Finding(
                    .error, .engine, "avahi-daemon does not respond on the system bus",
                    advice: "start it (`\(facts.privilege)systemctl start avahi-daemon`), or use the embedded responder"))
        }
        return findings
    }

    private static func responderFindings(_ facts: Facts) -> [Finding] {
        let names = Set(facts.responders).sorted()
        let shown = names.map { $0 == "?" ? "a process of another user" : TerminalText.escaped($0, columns: 32) }
        var findings: [Finding] = []
        if !names.isEmpty {
            findings.append(
                Finding(
                    .notice, .responders, "UDP port 5353 is shared with \(shown.joined(separator: ", ")), which usually works"))
        }
        if names.contains("avahi-daemon"), !facts.isDaemonOnBus {
            findings.append(
                Finding(
                    .notice, .responders, "avahi-daemon is running, but not available on the system bus",
                    advice: "nothing, unless it is to be used: see `systemctl status avahi-daemon dbus`"))
        }
        if names.contains(where: { $0.hasPrefix("systemd-resolve") }), names.contains("avahi-daemon") {
            findings.append(
                Finding(
                    .warning, .responders, "avahi-daemon and systemd-resolved both answer for this machine's name",
                    advice: "disable one of them: `\(facts.privilege)resolvectl mdns <interface> no`"))
        }
        return findings
    }

    private static func firewallFindings(_ facts: Facts) -> [Finding] {
        let services = [FirewallVerdict.Service.multicastDNS] + (facts.port.map { [.connections(port: $0)] } ?? [])
        switch facts.firewall.rules {
        case .none: return [Finding(.ok, .firewall, "no firewall was found")]
        case .filter(let filter):
            let verdicts = FirewallVerdict.all(
                filter, interfaces: facts.interfaces, bridges: facts.bridges, port: facts.port)
            var findings = FirewallVerdict.findings(
                verdicts, isUFWEnabled: facts.firewall.isUFWEnabled, privilege: facts.privilege)
            if findings.isEmpty {
                let names = services.map(\.name).joined(separator: " and ")
                findings = [
                    Finding(.ok, .firewall, filter.isEmpty ? "no firewall was found" : "the firewall accepts \(names)")
                ]
            }
            if let rule = filter.outgoingDrop {
                findings.append(
                    Finding(
                        .notice, .firewall,
                        "rules for what this machine sends exist, and are not checked: "
                            + TerminalText.escaped(rule, columns: 200),
                        advice: "if peers are not found or reached, allow outgoing connections, and packets to 5353/udp"))
            }
            return findings
        case .notPermitted, .noTool, .unreadable:
            var findings: [Finding] = []
            if facts.firewall.isUFWEnabled {
                findings.append(
                    Finding(
                        .warning, .firewall, "ufw is enabled and may block peers: only root can read its rules",
                        advice: "unless that is done, allow them: "
                            + services.map { "`\(facts.privilege)ufw allow \($0.name)`" }.joined(separator: ", ")))
            }
            if facts.firewall.isFirewalldOnBus {
                let commands = services.flatMap { FirewallVerdict.firewalldCommands($0).dropLast() } + ["firewall-cmd --reload"]
                findings.append(
                    Finding(
                        .warning, .firewall, "firewalld is running and may block peers",
                        advice: "allow them: " + commands.map { "`\(facts.privilege)\($0)`" }.joined(separator: ", ")))
            }
            let (text, advice) =
                switch facts.firewall.rules {
                case .noTool:
                    (
                        "the firewall's rules, if it has any, cannot be listed: neither nft nor iptables-save is installed",
                        "if peers do not find or reach this machine, install nftables, and run `sudo nearshare doctor`"
                    )
                case .unreadable:
                    (
                        "the firewall's rules could not be read",
                        "see what is wrong with `\(facts.privilege)nft list ruleset` and `\(facts.privilege)iptables-save`"
                    )
                default:
                    (
                        "only root can read the firewall's rules",
                        "`sudo nearshare doctor` says whether they drop what peers send"
                    )
                }
            findings.append(Finding(.notice, .firewall, text, advice: advice))
            return findings
        }
    }
}
