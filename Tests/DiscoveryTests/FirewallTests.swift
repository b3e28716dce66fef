import NearshareBase
import Testing

@testable import NearshareDiscovery

@Suite("evaluation of packet filters") struct PacketFilterTests {
    private static let interface = NetworkInterface(
        name: "eth0", index: 2, isUp: true, isRunning: true, isLoopback: false, isMulticastCapable: true, isPointToPoint: false,
        addresses: [
            .init(.v4(0xc0a8_0102), prefixLength: 24),
            .init(IPAddress(text: "fe80::1")!, prefixLength: 64),
        ])

    /// "udp4", "tcp4", "udp6" and "tcp6" with their outcomes and rules.
    private func outcomes(_ filter: PacketFilter) -> [String: (outcome: String, rule: String)] {
        let verdicts = FirewallVerdict.all(filter, interfaces: [Self.interface], port: 4242)
        return Dictionary(
            verdicts.map { ("\($0.service == .multicastDNS ? "udp" : "tcp")\($0.isIPv6 ? 6 : 4)", $0.description) }
        ) { first, _ in first }
    }

    /// A table with one base chain, from rules in JSON.
    private func filter(
        _ rules: [String], family: String = "inet", policy: String = "drop", hook: String = "input", more: [String] = []
    ) throws -> PacketFilter {
        let chain = """
            {"chain": {"family": "\(family)", "table": "t", "name": "c", "handle": 1, "type": "filter", "hook": "\(hook)", \
            "prio": 0, "policy": "\(policy)"}}
            """
        let rules = rules.enumerated().map { number, expressions in
            """
            {"rule": {"family": "\(family)", "table": "t", "chain": "c", "handle": \(number + 2), "expr": [\(expressions)]}}
            """
        }
        let json = "{\"nftables\": [\((["{\"metainfo\": {}}", chain] + more + rules).joined(separator: ","))]}"
        return try #require(PacketFilter(nftables: json))
    }

    private func match(_ protocolName: String, _ field: String, _ right: String, _ op: String = "==") -> String {
        """
        {"match": {"op": "\(op)", "left": {"payload": {"protocol": "\(protocolName)", "field": "\(field)"}}, "right": \(right)}}
        """
    }

    @Test func `a policy of drop drops what no rule accepts`() throws {
        let outcomes = outcomes(try filter(["\(match("tcp", "dport", "4242")), {\"accept\": null}"]))
        #expect(outcomes["tcp4"]?.outcome == "passes" && outcomes["tcp6"]?.outcome == "passes")
        #expect(outcomes["udp4"]?.outcome == "dropped" && outcomes["udp4"]?.rule == "inet t c: policy drop")
    }

    @Test func `a port number in a rule for the other transport opens nothing`() throws {
        let outcomes = outcomes(
            try filter([
                match("tcp", "dport", "5353") + ", {\"accept\": null}", match("udp", "dport", "4242") + ", {\"accept\": null}",
            ]))
        #expect(outcomes.values.allSatisfy { $0.outcome == "dropped" })
    }

    @Test func `a rule without the packet's protocol does not match, also when it is negated`() throws {
        let outcomes = outcomes(try filter([match("tcp", "dport", "22", "!=") + ", {\"drop\": null}"], policy: "accept"))
        #expect(outcomes["udp4"]?.outcome == "passes" && outcomes["tcp4"]?.outcome == "dropped")
    }

    @Test func `what cannot be decided is said, with its rule`() throws {
        let mark = "{\"match\": {\"op\": \"==\", \"left\": {\"meta\": {\"key\": \"mark\"}}, \"right\": 5}}"
        let undecided = outcomes(try filter([mark + ", {\"accept\": null}"]))
        #expect(undecided.values.allSatisfy { $0 == ("undecided", "inet t c: rule with handle 2") })
        // The next rule decides, whatever the mark is.
        let decided = outcomes(try filter([mark + ", {\"accept\": null}", "{\"accept\": null}"]))
        #expect(decided.values.allSatisfy { $0.outcome == "passes" })
    }

    @Test func `a source address decides when it covers the whole network of the interface`() throws {
        func prefix(_ length: Int) -> String {
            match("ip", "saddr", "{\"prefix\": {\"addr\": \"192.168.1.0\", \"len\": \(length)}}") + ", {\"accept\": null}"
        }
        #expect(outcomes(try filter([prefix(24)]))["tcp4"]?.outcome == "passes")
        #expect(outcomes(try filter([prefix(25)]))["tcp4"]?.outcome == "undecided")
        #expect(outcomes(try filter([prefix(24)]))["tcp6"]?.outcome == "dropped")
    }

    @Test func `a jump returns, a goto does not, and recursion ends`() throws {
        func chain(_ name: String, _ expressions: String) -> [String] {
            [
                "{\"chain\": {\"family\": \"inet\", \"table\": \"t\", \"name\": \"\(name)\", \"handle\": 50}}",
                "{\"rule\": {\"family\": \"inet\", \"table\": \"t\", \"chain\": \"\(name)\", \"handle\": 51, \"expr\": [\(expressions)]}}",
            ]
        }
        let leave = chain("sub", "{\"return\": null}")
        let accept = "{\"accept\": null}"
        #expect(outcomes(try filter(["{\"jump\": {\"target\": \"sub\"}}", accept], more: leave))["tcp4"]?.outcome == "passes")
        #expect(outcomes(try filter(["{\"goto\": {\"target\": \"sub\"}}", accept], more: leave))["tcp4"]?.outcome == "dropped")
        let loop = chain("sub", "{\"jump\": {\"target\": \"sub\"}}")
        #expect(outcomes(try filter(["{\"jump\": {\"target\": \"sub\"}}"], more: loop))["tcp4"]?.outcome == "undecided")
    }

    @Test func `rules of another hook do not count`() throws {
        #expect(outcomes(try filter(["{\"drop\": null}"], hook: "forward")).values.allSatisfy { $0.outcome == "passes" })
    }

    @Test func `rules for what this machine sends are noticed where they drop something`() throws {
        func findings(_ filter: PacketFilter) -> [NetworkDiagnosis.Finding] {
            NetworkDiagnosis(
                of: NetworkDiagnosis.Facts(
                    interfaces: [Self.interface], engine: "embedded responder", responders: [], isDaemonOnBus: false,
                    firewall: FirewallFacts(rules: filter.isEmpty ? .none : .filter(filter)), port: 4242)
            ).findings.filter { $0.subject == .firewall }
        }
        let policy = findings(try filter([], hook: "output"))
        #expect(
            policy.map(\.text) == [
                "the firewall accepts 5353/udp and 4242/tcp",
                "rules for what this machine sends exist, and are not checked: inet t c: policy drop",
            ])
        let sub = [
            "{\"chain\": {\"family\": \"inet\", \"table\": \"t\", \"name\": \"sub\", \"handle\": 50}}",
            """
            {"rule": {"family": "inet", "table": "t", "chain": "sub", "handle": 51, "expr": [{"drop": null}]}}
            """,
        ]
        let jump = "{\"jump\": {\"target\": \"sub\"}}"
        let reached = try filter([jump, jump], policy: "accept", hook: "output", more: sub)
        #expect(findings(reached).last?.text.hasSuffix(": inet t c: rule with handle 51") == true)
        for open in [
            try filter([], policy: "accept", hook: "output"),
            try filter(["{\"accept\": null}"], policy: "accept", hook: "output"),
            try filter([], policy: "accept", hook: "output", more: sub),
        ] {
            #expect(findings(open).map(\.text) == ["no firewall was found"])
        }
        var tables = PacketFilter()
        tables.add(iptables: "*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT DROP [0:0]\nCOMMIT", isIPv6: false)
        #expect(findings(tables).last?.text.hasSuffix(": ip filter OUTPUT: policy drop") == true)
        let destinations = [
            ("-o wlan0", true), ("-d 224.0.0.0/4", true), ("-d 192.88.99.0/24", false), ("-m rt --rt-type 0 -o wlan0", false),
        ]
        for (condition, isNoticed) in destinations {
            var tables = PacketFilter()
            tables.add(iptables: "*filter\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT \(condition) -j DROP\nCOMMIT", isIPv6: false)
            #expect(findings(tables).last?.text.contains("what this machine sends") == isNoticed, "\(condition)")
        }
    }

    @Test func `what is not a rule set is rejected`() {
        for json in ["", "[]", "{\"nftables\": 5", "{}"] { #expect(PacketFilter(nftables: json) == nil) }
        // Parts that are missing or of another type are passed over.
        #expect(PacketFilter(nftables: "{\"nftables\": [5, {\"rule\": 7}, {\"chain\": {}}, {\"rule\": {\"expr\": 1}}]}") != nil)
    }

    /// The rules that ufw 0.36 writes, shortened.
    private static let ufw = """
        # Generated by iptables-nft-save v1.8.9 (nf_tables)
        *filter
        :INPUT DROP [0:0]
        :ufw-before-input - [0:0]
        :ufw-before-logging-input - [0:0]
        :ufw-after-input - [0:0]
        :ufw-not-local - [0:0]
        :ufw-user-input - [0:0]
        -A INPUT -j ufw-before-logging-input
        -A INPUT -j ufw-before-input
        -A INPUT -j ufw-after-input
        -A ufw-before-input -i lo -j ACCEPT
        -A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
        -A ufw-before-input -m conntrack --ctstate INVALID -m limit --limit 3/min -j LOG --log-prefix "[UFW BLOCK] "
        -A ufw-before-input -m conntrack --ctstate INVALID -j DROP
        -A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT
        -A ufw-before-input -p udp -m udp --sport 67 --dport 68 -j ACCEPT
        -A ufw-before-input -j ufw-not-local
        -A ufw-before-input -d 224.0.0.251/32 -p udp -m udp --dport 5353 -j ACCEPT
        -A ufw-before-input -j ufw-user-input
        -A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
        -A ufw-not-local -m addrtype --dst-type MULTICAST -j RETURN
        -A ufw-not-local -m addrtype --dst-type BROADCAST -j RETURN
        -A ufw-not-local -j DROP
        -A ufw-user-input -p tcp -m multiport --dports 22,80:90 -m comment --comment "a b" -j ACCEPT
        COMMIT
        """

    @Test func `ufw lets multicast DNS in and drops a port that it was not told of`() {
        var filter = PacketFilter()
        filter.add(iptables: Self.ufw, isIPv6: false)
        let closed = outcomes(filter)
        #expect(closed["udp4"]?.outcome == "passes" && closed["tcp6"]?.outcome == "passes")
        #expect(closed["tcp4"] ?? ("", "") == ("dropped", "ip filter INPUT: policy drop"))
        let findings = NetworkDiagnosis(
            of: NetworkDiagnosis.Facts(
                interfaces: [Self.interface], engine: "embedded responder", responders: [], isDaemonOnBus: false,
                firewall: FirewallFacts(rules: .filter(filter), isUFWEnabled: true), port: 4242)
        ).findings.filter { $0.subject == .firewall }
        #expect(findings.count == 1 && findings.first?.advice == "allow it: `ufw allow 4242/tcp`")
        var open = PacketFilter()
        open.add(iptables: Self.ufw.split(separator: "22,80:90").joined(separator: "22,4000:4500"), isIPv6: false)
        #expect(outcomes(open)["tcp4"]?.outcome == "passes")
    }

    @Test(arguments: [
        ("-p udp -j DROP", "dropped"), ("-p 17 -j DROP", "dropped"), ("! -i eth0 -j DROP", "passes"),
        ("-i eth+ -j DROP", "dropped"), ("-s 192.168.0.0/16 -j REJECT --reject-with icmp-port-unreachable", "dropped"),
        ("-d 224.0.0.0/4 -j DROP", "dropped"), ("-m pkttype --pkt-type multicast -j DROP", "dropped"),
        ("-m recent --update --seconds 30 -j DROP", "undecided"), ("-j SOMETHING", "undecided"),
        ("-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP", "passes"), ("-j LOG", "passes"),
        ("-m conntrack --ctstate NEW -m udp -p udp --dport 5353 -j DROP", "dropped"),
        ("-m rt --rt-type 0 -j DROP", "passes"), ("-m rt ! --rt-type 0 -j DROP", "dropped"),
    ])
    func `a rule of iptables decides about multicast DNS`(_ rule: String, _ outcome: String) {
        var filter = PacketFilter()
        filter.add(iptables: "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT \(rule)\nCOMMIT", isIPv6: false)
        #expect(outcomes(filter)["udp4"]?.outcome == outcome)
    }

    @Test(arguments: [
        (PacketFilter.Source.nftables, PacketFilter.Family.inet, "t", "c", "`nft insert rule inet t c tcp dport 4242 accept`"),
        (.iptables, .ip, "filter", "INPUT", "`iptables -I INPUT -p tcp --dport 4242 -j ACCEPT`"),
        (.iptables, .ip6, "raw", "PREROUTING", "`ip6tables -t raw -I PREROUTING -p tcp --dport 4242 -j ACCEPT`"),
        (
            .nftables, .inet, "firewalld", "filter_INPUT",
            "`firewall-cmd --permanent --add-port=4242/tcp`, `firewall-cmd --reload`"
        ),
    ])
    func `advice is a command of the firewall that drops the packet`(
        _ source: PacketFilter.Source, _ family: PacketFilter.Family, _ table: String, _ chain: String, _ commands: String
    ) {
        let id = PacketFilter.ChainID(source: source, family: family, table: table, name: chain)
        let verdict = FirewallVerdict(
            service: .connections(port: 4242), interface: "eth0", isIPv6: false,
            verdict: .dropped(by: "\(id): policy drop", chain: id))
        #expect(FirewallVerdict.findings([verdict], isUFWEnabled: false).map(\.advice) == ["allow it: \(commands)"])
        let advice = FirewallVerdict.findings([verdict], isUFWEnabled: false, privilege: "sudo ").first?.advice
        #expect(advice?.hasPrefix("allow it: `sudo ") == true)
    }
}

@Suite(
    "evaluation of packet filters against the kernel",
    .enabled(if: NamespaceLab.firewallObstacle == nil, "\(NamespaceLab.firewallObstacle ?? "")"))
struct KernelFilterTests {
    private static let port: UInt16 = 4242

    private static func table(_ rules: String, policy: String = "drop") -> String {
        "add table inet t; add chain inet t c { type filter hook input priority 0; policy \(policy); };"
            + " add rule inet t c meta l4proto ipv6-icmp accept;" + rules
    }

    /// Commands of nft, or of a shell after an exclamation mark.
    private static let ruleSets = [
        "",
        table(""),
        table("add rule inet t c ct state established,related accept; add rule inet t c tcp dport 22 accept"),
        table("add rule inet t c udp dport 5353 accept; add rule inet t c tcp dport { 22, 4000-5000 } accept"),
        table("add rule inet t c tcp dport 5353 accept; add rule inet t c udp dport 4242 accept"),
        table("add rule inet t c tcp dport 4242 reject", policy: "accept"),
        table("add rule inet t c udp dport mdns drop", policy: "accept"),
        table("add rule inet t c ip saddr 10.0.0.0/8 accept; add rule inet t c ip6 saddr { fe80::/10, fd00::/8 } accept"),
        table("add rule inet t c iifname != veth0 drop; add rule inet t c iifname vmap { lo : drop, veth0 : accept }"),
        table("add rule inet t c ct state vmap { established : accept, new : accept }"),
        table("add rule inet t c ct state { established, new } tcp dport 4242 limit rate 1000/second accept"),
        table(
            "add set inet t s { type inet_service; flags interval; elements = { 4000-4300 }; };"
                + "add rule inet t c tcp dport @s counter accept"),
        table(
            "add chain inet t sub; add rule inet t sub udp dport 5353 return; add rule inet t sub accept;"
                + "add rule inet t c jump sub; add rule inet t c meta nfproto ipv4 udp dport 5353 accept"),
        table(
            "add chain inet t sub; add rule inet t sub udp dport 5353 return; add rule inet t sub accept;"
                + "add rule inet t c goto sub; add rule inet t c accept"),
        table("add rule inet t c tcp flags & (fin | syn | rst | ack) == syn drop; add rule inet t c accept"),
        table(
            "add rule inet t c fib daddr type multicast accept; add rule inet t c fib daddr type local tcp dport 4242 accept"),
        table("add rule inet t c meta pkttype multicast drop; add rule inet t c accept"),
        table(
            "add chain inet t late { type filter hook input priority 10; policy accept; };"
                + "add rule inet t late th dport { 4242, 5353 } meta nfproto ipv6 drop", policy: "accept"),
        "add table ip6 t; add chain ip6 t c { type filter hook input priority 0; policy accept; };"
            + "add rule ip6 t c udp dport 5353 drop",
        "add table ip t; add chain ip t c { type filter hook prerouting priority raw; policy accept; };"
            + "add rule ip t c udp dport 5353 drop",
        "add table netdev t; add chain netdev t c { type filter hook ingress device veth0 priority 0; policy accept; };"
            + "add rule netdev t c tcp dport 4242 drop",
        table("add rule inet t c tcp flags ! syn drop; add rule inet t c accept"),
        table("add rule inet t c tcp flags syn drop; add rule inet t c accept"),
        table("add rule inet t c tcp flags ! ack drop; add rule inet t c accept"),
        table("add rule inet t c ip saddr . tcp dport != { 10.1.2.3 . 22 } drop; add rule inet t c accept"),
        table("add rule inet t c meta nfproto . th dport { ipv4 . 4242, ipv6 . 5353 } accept"),
        "add table inet t { flags dormant; }; add chain inet t c { type filter hook input priority 0; policy drop; }",
        "!iptables -P INPUT DROP; iptables -A INPUT -p udp -m udp --dport 5353 -m addrtype --dst-type MULTICAST -j ACCEPT;"
            + "iptables -A INPUT -p tcp -m multiport --dports 22,4242 -m conntrack --ctstate NEW,ESTABLISHED -j ACCEPT",
        "!ip6tables -N sub; ip6tables -A sub -p tcp --dport 4242 -j REJECT; ip6tables -A INPUT ! -i lo -j sub;"
            + "iptables -t raw -A PREROUTING -s 10.83.0.0/24 -p udp --dport 5353 -j DROP",
    ]

    @Test func `the evaluation says what the kernel does with packets of a peer`() async throws {
        try await withLab(NamespaceLab()) { lab in
            for number in 0...1 { try lab.run("ip addr add fd83::\(number + 1)/64 dev veth0 nodad", on: number) }
            let probe = try await lab.probe(0)
            let receiver = try lab.start("python3", ["-c", Self.receiver], on: 0)
            defer { receiver.end() }
            #expect(await receiver.lines.take(within: .seconds(20)) == "ready")
            for (number, rules) in Self.ruleSets.enumerated() {
                try lab.run("nft flush ruleset; iptables -P INPUT ACCEPT; nft flush ruleset", on: 0)
                let command = rules.hasPrefix("!") ? String(rules.dropFirst()) : "nft '\(rules)'"
                if !rules.isEmpty { try lab.run("set -e; " + command, on: 0) }
                let verdicts = try await probe.filter(port: Self.port)
                var expected: [String: String] = ["udp4": "passes", "tcp4": "passes", "udp6": "passes", "tcp6": "passes"]
                for verdict in verdicts { expected[verdict[0] + verdict[1]] = verdict[2] }
                let open = expected.filter { $0.value == "passes" }.keys.sorted()
                let sender = try lab.start("python3", ["-c", Self.sender, "\(number)"] + open, on: 1)
                var arrived: Set<String> = []
                while let line = await sender.lines.take(within: .seconds(30)) { arrived.insert(line) }
                sender.end()
                for name in ["udp4", "udp6"] {
                    // Expected packets are waited for; the sender has waited for the rest.
                    while let line = await receiver.lines.take(
                        within: open.contains(name) && !arrived.contains(name) ? .seconds(5) : .zero)
                    {
                        let words = line.split(separator: " ")
                        if words.last == "\(number)", let name = words.first { arrived.insert(String(name)) }
                    }
                }
                #expect(arrived == Set(open), "\(rules): \(verdicts)")
                #expect(!expected.values.contains("undecided"), "\(rules): \(verdicts)")
            }
        }
    }

    /// Accepts connections, and prints the datagrams that arrive.
    private static let receiver = """
        import select, socket, struct
        tcp = socket.socket(socket.AF_INET6)
        tcp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        tcp.bind(("::", 4242))
        tcp.listen()
        index = socket.if_nametoindex("veth0")
        names = {}
        for name, family in ("udp4", socket.AF_INET), ("udp6", socket.AF_INET6):
            udp = socket.socket(family, socket.SOCK_DGRAM)
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                group = socket.inet_pton(family, "ff02::fb") + struct.pack("@I", index)
                udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
            else:
                group = socket.inet_pton(family, "224.0.0.251") + struct.pack("@4si", bytes(4), index)
                udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            udp.bind(("", 5353))
            names[udp] = name
        print("ready", flush=True)
        while True:
            for found in select.select([tcp, 0, *names], [], [])[0]:
                if found == 0:
                    raise SystemExit
                if found is tcp:
                    tcp.accept()[0].close()
                else:
                    print(names[found], found.recv(100).decode(), flush=True)
        """

    /// Sends to all services, and prints the connections that were accepted. Arguments: a tag, and what is expected to arrive.
    private static let sender = """
        import os, socket, struct, sys, threading
        index = socket.if_nametoindex("veth0")
        for family, group in (socket.AF_INET, "224.0.0.251"), (socket.AF_INET6, "ff02::fb"):
            udp = socket.socket(family, socket.SOCK_DGRAM)
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
                udp.bind(("::", 5353))
                udp.sendto(sys.argv[1].encode(), (group, 5353, 0, index))
            else:
                udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@4s4si", bytes(4), bytes(4), index))
                udp.bind(("", 5353))
                udp.sendto(sys.argv[1].encode(), (group, 5353))
        def connect(name, address):
            try:
                socket.create_connection((address, 4242), timeout=5 if name in sys.argv else 0.7).close()
                os.write(1, (name + "\\n").encode())
            except OSError:
                pass
        threads = [threading.Thread(target=connect, args=one) for one in (("tcp4", "10.83.0.1"), ("tcp6", "fd83::1"))]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """
}
