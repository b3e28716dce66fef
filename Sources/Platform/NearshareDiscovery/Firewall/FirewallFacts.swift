internal import NearshareBase

/// The facts about firewalls that this process can observe.
package struct FirewallFacts: Sendable, Hashable {
    package enum Rules: Sendable, Hashable {
        /// There are no rules.
        case none
        /// No tool that lists rules is installed; others could have set some.
        case noTool
        /// There may be rules, which only root may read.
        case notPermitted
        /// The tool that lists the rules has failed.
        case unreadable
        case filter(PacketFilter)
    }

    package var rules: Rules
    package var isUFWEnabled: Bool
    package var isFirewalldOnBus: Bool

    package init(rules: Rules, isUFWEnabled: Bool = false, isFirewalldOnBus: Bool = false) {
        self.rules = rules
        self.isUFWEnabled = isUFWEnabled
        self.isFirewalldOnBus = isFirewalldOnBus
    }
}

/// The fate of the first packet of a peer by the rules of this machine.
package struct FirewallVerdict: Sendable, Hashable {
    /// A destination of peers' packets.
    package enum Service: Sendable, Hashable {
        case multicastDNS
        case connections(port: UInt16)

        package var port: UInt16 {
            switch self {
            case .multicastDNS: 5353
            case .connections(let port): port
            }
        }

        var transport: PacketFilter.Packet.Transport {
            switch self {
            case .multicastDNS: .udp
            case .connections: .tcp
            }
        }

        /// Port and transport, such as "5353/udp".
        var name: String { "\(port)/\(transport.rawValue)" }
    }

    package var service: Service
    package var interface: String
    package var isIPv6: Bool
    var verdict: PacketFilter.Verdict

    /// "passes", "dropped" or "undecided", and the rule that decides.
    package var description: (outcome: String, rule: String) {
        switch verdict {
        case .passes: ("passes", "")
        case .dropped(let rule, _): ("dropped", rule)
        case .undecided(let rule): ("undecided", rule)
        }
    }

    private var isDropped: Bool { if case .dropped = verdict { true } else { false } }

    /// Returns the verdicts for each interface that leads to peers, and both address families.
    /// - Parameter bridges: the interfaces that are bridges.
    package static func all(
        _ filter: PacketFilter, interfaces: [NetworkInterface], bridges: Set<String> = [], port: UInt16?
    ) -> [FirewallVerdict] {
        let services = [Service.multicastDNS] + (port.map { [.connections(port: $0)] } ?? [])
        var all: [FirewallVerdict] = []
        for interface in interfaces where interface.leadsToOthers {
            for isIPv6 in [false, true] {
                let addresses = interface.addresses.filter { ($0.address.bytes.count == 16) == isIPv6 }
                guard !addresses.isEmpty else { continue }
                for service in services {
                    let addresses = service == .multicastDNS ? linkLocal(addresses) : addresses
                    let verdicts = addresses.map { address in
                        filter.verdict(
                            for: packet(to: service, address, on: interface, isBridged: bridges.contains(interface.name)))
                    }
                    all.append(
                        FirewallVerdict(
                            service: service, interface: interface.name, isIPv6: isIPv6, verdict: merged(verdicts)))
                }
            }
        }
        return all
    }

    private static func packet(
        to service: Service, _ address: IPSubnet, on interface: NetworkInterface, isBridged: Bool
    ) -> PacketFilter.Packet {
        let isIPv6 = address.address.bytes.count == 16
        let isMulticast = service == .multicastDNS
        let group: UInt128 = isIPv6 ? 0xff02 << 112 | 0xfb : 0xe000_00fb
        return PacketFilter.Packet(
            interface: interface.name, isBridged: isBridged, isIPv6: isIPv6, transport: service.transport,
            destinationPort: service.port, sourcePorts: isMulticast ? 5353...5353 : 1024...65535,
            sources: PacketFilter.range(of: address.address, prefixLength: address.prefixLength),
            destination: isMulticast ? group : PacketFilter.number(of: address.address).value, isMulticast: isMulticast)
    }

    /// The addresses from which neighbours send multicast: link-local ones, where an interface has some.
    private static func linkLocal(_ addresses: [IPSubnet]) -> [IPSubnet] {
        let local = addresses.filter { $0.address.bytes.starts(with: [0xfe, 0x80]) }
        return local.isEmpty ? addresses : local
    }

    /// The verdict for an interface with several addresses of a family. Where they differ, it depends on the peer's address.
    private static func merged(_ verdicts: [PacketFilter.Verdict]) -> PacketFilter.Verdict {
        guard let first = verdicts.first(where: { $0 != .passes }) else { return .passes }
        guard case .dropped(let rule, _) = first else { return first }
        func isDropped(_ verdict: PacketFilter.Verdict) -> Bool { if case .dropped = verdict { true } else { false } }
        return verdicts.allSatisfy(isDropped) ? first : .undecided(rule)
    }
}

// MARK: Findings

extension FirewallVerdict {
    /// The verdicts of one service that have one reason, as one finding each.
    /// - Parameter privilege: put before commands that only root can run.
    static func findings(
        _ verdicts: [FirewallVerdict], isUFWEnabled: Bool, privilege: String = ""
    ) -> [NetworkDiagnosis.Finding] {
        var groups: [(key: Self, members: [Self])] = []
        for verdict in verdicts where verdict.verdict != .passes {
            if let index = groups.firstIndex(where: { $0.key.service == verdict.service && $0.key.verdict == verdict.verdict })
            {
                groups[index].members.append(verdict)
            } else {
                groups.append((verdict, [verdict]))
            }
        }
        return groups.map { group in
            let what =
                group.key.service == .multicastDNS ? "multicast DNS (5353/udp)" : "connections (\(group.key.service.name))"
            let places = group.members.map { "\($0.interface) (\($0.isIPv6 ? "IPv6" : "IPv4"))" }.joined(separator: ", ")
            let commands = group.key.commands(isUFWEnabled: isUFWEnabled).map { "`\(privilege)\($0)`" }
                .joined(separator: ", ")
            if case .dropped(let rule, _) = group.key.verdict {
                // Where it is open on no interface and in no family, no peer finds or reaches this machine.
                let isDroppedEverywhere = verdicts.allSatisfy { $0.service != group.key.service || $0.isDropped }
                return NetworkDiagnosis.Finding(
                    isDroppedEverywhere ? .error : .warning, .firewall,
                    "the firewall drops \(what) on \(places): \(TerminalText.escaped(rule, columns: 200))",
                    advice: "allow it: \(commands)")
            }
            return NetworkDiagnosis.Finding(
                .notice, .firewall,
                "cannot tell whether the firewall accepts \(what) on \(places): it depends on "
                    + TerminalText.escaped(group.key.description.rule, columns: 200),
                advice: "if peers do not find or reach this machine, allow it: \(commands)")
        }
    }

    /// The commands of the firewall in use that open the service.
    private func commands(isUFWEnabled: Bool) -> [String] {
        let chain: PacketFilter.ChainID? =
            switch verdict {
            case .dropped(_, let chain): chain
            case .passes, .undecided: nil
            }
        let (rule, transport) = (description.rule, service.transport.rawValue)
        if chain?.table ?? "" == "firewalld" || rule.contains(" firewalld ") { return Self.firewalldCommands(service) }
        if isUFWEnabled, chain.map({ $0.table == "filter" && $0.name == "INPUT" }) ?? rule.contains("ufw") {
            return ["ufw allow \(service.name)"]
        }
        guard let chain else { return ["nft insert rule <family> <table> <chain> \(transport) dport \(service.port) accept"] }
        if chain.source == .iptables {
            let table = chain.table == "filter" ? "" : "-t \(chain.table) "
            let command = "-I \(chain.name) -p \(transport) --dport \(service.port) -j ACCEPT"
            return ["\(chain.family == .ip6 ? "ip6tables" : "iptables") \(table)\(command)"]
        }
        let name = TerminalText.escaped(chain.description, columns: 200)
        return ["nft insert rule \(name) \(transport) dport \(service.port) accept"]
    }

    static func firewalldCommands(_ service: Service) -> [String] {
        let addition = service == .multicastDNS ? "--add-service=mdns" : "--add-port=\(service.name)"
        return ["firewall-cmd --permanent \(addition)", "firewall-cmd --reload"]
    }
}
