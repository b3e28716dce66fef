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

    /// One observation, for the user.
    package struct Finding: Sendable, Hashable {
        package var severity: DiagnosticSeverity
        package var subject: Subject
        /// The observation, in lower case without a full stop.
        package var text: String
        /// Advice to the user; nil where nothing is needed.
        package var advice: String?

        package init(_ severity: DiagnosticSeverity, _ subject: Subject, _ text: String, advice: String? = nil) {
            self.severity = severity
            self.subject = subject
            self.text = text
            self.advice = advice
        }
    }

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
        /// The TCP port that peers connect to; nil when it is not known.
        package var port: UInt16?

        package init(
            interfaces: [NetworkInterface], engine: String, responders: [String], isDaemonOnBus: Bool, firewall: FirewallFacts,
            port: UInt16?
        ) {
            self.interfaces = interfaces
            self.engine = engine
            self.responders = responders
            self.isDaemonOnBus = isDaemonOnBus
            self.firewall = firewall
            self.port = port
        }
    }

    package var facts: Facts
    package var findings: [Finding]

    /// The highest severity of the findings.
    package var severity: DiagnosticSeverity { findings.map(\.severity).max() ?? .fine }

    /// Derives the findings.
    package init(of facts: Facts) {
        self.facts = facts
        findings = Self.interfaceFindings(facts.interfaces) + Self.engineFindings(facts)
        findings += Self.responderFindings(facts) + Self.firewallFindings(facts)
    }

    private static func interfaceFindings(_ interfaces: [NetworkInterface]) -> [Finding] {
        var findings: [Finding] = []
        for one in interfaces where !one.isLoopback {
            let name = one.name
            if !one.isUp {
                findings.append(
                    Finding(.note, .interfaces, "\(name) is switched off", advice: "switch it on: `ip link set \(name) up`"))
            } else if !one.isRunning {
                findings.append(
                    Finding(
                        .note, .interfaces, "\(name) is up, but has no link", advice: "plug in its cable, or join a network"))
            } else if !one.isMulticastCapable || one.isPointToPoint {
                findings.append(
                    Finding(
                        .note, .interfaces, "\(name) does not carry multicast, so no peer is discovered over it",
                        advice: "use the peer's address to reach a peer behind it"))
            } else if one.addresses.isEmpty {
                findings.append(
                    Finding(
                        .warning, .interfaces, "\(name) has no address",
                        advice: "configure one by DHCP, or enable link-local IPv6 addresses"))
            } else {
                let addresses = one.addresses.map(\.address.description).joined(separator: ", ")
                findings.append(Finding(.fine, .interfaces, "\(name) carries discovery (\(addresses))"))
            }
        }
        if !interfaces.contains(where: \.leadsToOthers) {
            findings.append(
                Finding(
                    .problem, .interfaces,
                    "no network interface leads to other machines: only peers on this machine can be found",
                    advice: "connect both machines to the same network"))
        }
        return findings
    }

    private static func engineFindings(_ facts: Facts) -> [Finding] {
        var findings = [Finding(.fine, .engine, "discovery uses the \(facts.engine)")]
        if facts.engine == "avahi-daemon", !facts.isDaemonOnBus {
            findings.append(
                Finding(
                    .problem, .engine, "avahi-daemon does not respond on the system bus",
                    advice: "start it (`systemctl start avahi-daemon`), or use the embedded responder"))
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
                    .note, .responders, "UDP port 5353 is shared with \(shown.joined(separator: ", ")), which usually works"))
        }
        if names.contains("avahi-daemon"), !facts.isDaemonOnBus {
            findings.append(
                Finding(
                    .note, .responders, "avahi-daemon is running, but not available on the system bus",
                    advice: "nothing, unless it is to be used: see `systemctl status avahi-daemon dbus`"))
        }
        if names.contains(where: { $0.hasPrefix("systemd-resolve") }), names.contains("avahi-daemon") {
            findings.append(
                Finding(
                    .warning, .responders, "avahi-daemon and systemd-resolved both answer for this machine's name",
                    advice: "disable one of them: `resolvectl mdns <interface> no`"))
        }
        return findings
    }

    private static func firewallFindings(_ facts: Facts) -> [Finding] {
        let wanted = ["5353/udp"] + (facts.port.map { ["\($0)/tcp"] } ?? [])
        var findings: [Finding] = []
        if facts.firewall.isUFWEnabled {
            findings.append(
                Finding(
                    .warning, .firewall, "ufw is enabled and may block peers",
                    advice: "allow them: " + wanted.map { "`ufw allow \($0)`" }.joined(separator: ", ")))
        }
        if facts.firewall.isFirewalldOnBus {
            findings.append(
                Finding(
                    .warning, .firewall, "firewalld is running and may block peers",
                    advice: "allow them: `firewall-cmd --add-service=mdns`"
                        + (facts.port.map { ", `firewall-cmd --add-port=\($0)/tcp`" } ?? "")))
        }
        switch facts.firewall.rules {
        case .unreadable:
            findings.append(
                Finding(
                    .note, .firewall, "the firewall's rules could not be read",
                    advice: "if peers are not found, look for \(wanted.joined(separator: " and ")) in `sudo nft list ruleset`"))
        case .text(let text):
            let closed = FirewallFacts.closedPorts(in: text, tcp: facts.port)
            if !closed.isEmpty {
                findings.append(
                    Finding(
                        .warning, .firewall, "the firewall drops packets by default, and no rule names \(closed[0])",
                        advice: closed.map { port in
                            "`nft insert rule <family> <table> <input chain> \(port.replacingSlash) accept`"
                        }.joined(separator: ", ")))
            }
        case .none: break
        }
        if findings.isEmpty { findings.append(Finding(.fine, .firewall, "no firewall was found")) }
        return findings
    }
}

extension String {
    /// "5353/udp" in nft's syntax: "udp dport 5353".
    fileprivate var replacingSlash: String {
        let parts = split(separator: "/")
        return "\(parts[1]) dport \(parts[0])"
    }
}

/// The facts about firewalls that an unprivileged process can observe.
package struct FirewallFacts: Sendable, Hashable {
    package enum Rules: Sendable, Hashable {
        /// nft is not installed, or there are no rules.
        case none
        /// There may be rules: this process may not read them, or nft has failed.
        case unreadable
        /// The output of `nft list ruleset`.
        case text(String)
    }

    package var rules: Rules
    package var isUFWEnabled: Bool
    package var isFirewalldOnBus: Bool

    package init(rules: Rules, isUFWEnabled: Bool = false, isFirewalldOnBus: Bool = false) {
        self.rules = rules
        self.isUFWEnabled = isUFWEnabled
        self.isFirewalldOnBus = isFirewalldOnBus
    }

    /// Returns the ports that peers use and that no rule of a default-drop firewall names, as "5353/udp". Rules may accept them
    /// in other ways: this is a suspicion.
    static func closedPorts(in ruleset: String, tcp port: UInt16?) -> [String] {
        let lines = ruleset.split(separator: "\n")
        let isClosed = lines.contains { line in
            line.contains("hook input") && (line.contains("policy drop") || line.contains("policy reject"))
        }
        guard isClosed else { return [] }
        func isNamed(_ transport: String, _ names: [String]) -> Bool {
            lines.contains { line in
                let words = line.split { !$0.isLetter && !$0.isNumber }
                return words.contains { $0 == transport } && words.contains { word in names.contains { $0 == word } }
            }
        }
        var closed: [String] = []
        if !isNamed("udp", ["5353", "mdns"]) { closed.append("5353/udp") }
        if let port, !isNamed("tcp", ["\(port)"]) { closed.append("\(port)/tcp") }
        return closed
    }
}
