import NearshareBase
import Testing

@testable import NearshareDiscovery

@Suite("why peers may not be found")
struct DiagnosisTests {
    private static let lo = NetworkInterface(
        name: "lo", index: 1, isUp: true, isRunning: true, isLoopback: true, isMulticastCapable: false, isPointToPoint: false,
        addresses: [.init(.v4(0x7f00_0001), prefixLength: 8)])
    private static let eth = NetworkInterface(
        name: "eth0", index: 2, isUp: true, isRunning: true, isLoopback: false, isMulticastCapable: true, isPointToPoint: false,
        addresses: [.init(.v4(0x0a00_0001), prefixLength: 24)])

    private func facts(_ change: (inout NetworkDiagnosis.Facts) -> Void = { _ in }) -> NetworkDiagnosis {
        var facts = NetworkDiagnosis.Facts(
            interfaces: [Self.lo, Self.eth], engine: "embedded responder", responders: [], isDaemonOnBus: false,
            firewall: FirewallFacts(rules: .none), port: 4242)
        change(&facts)
        return NetworkDiagnosis(of: facts)
    }

    @Test("a machine on a network without a firewall is fine")
    func fine() {
        #expect(facts().severity == .ok)
        #expect(facts().findings.allSatisfy { $0.advice == nil })
    }

    @Test("without an interface that leads to others there is a problem, with advice")
    func alone() {
        let diagnosis = facts { $0.interfaces = [Self.lo] }
        #expect(diagnosis.severity == .error)
        #expect(diagnosis.findings.contains { $0.subject == .interfaces && $0.severity == .error && $0.advice != nil })
    }

    @Test(
        "rules count only when the tool has printed all of them",
        arguments: [
            ("echo table inet", "table inet\n"), ("true", ""), ("false", nil), ("sh -c 'echo table; exit 1'", nil),
            ("head -c 20000000 /dev/zero", nil),
        ])
    func rules(_ command: String, _ output: String?) {
        #expect(NetworkDiagnosis.output(of: command) == output)
    }

    @Test("each interface that does not carry discovery is named, and why")
    func interfaces() {
        var (off, unplugged, mute, bare) = (Self.eth, Self.eth, Self.eth, Self.eth)
        (off.name, unplugged.name, mute.name, bare.name) = ("off0", "cable0", "mute0", "bare0")
        off.isUp = false
        unplugged.isRunning = false
        mute.isMulticastCapable = false
        bare.addresses = []
        let diagnosis = facts { $0.interfaces += [off, unplugged, mute, bare] }
        for name in ["off0", "cable0", "mute0", "bare0"] {
            #expect(diagnosis.findings.contains { $0.text.hasPrefix(name) && $0.severity > .ok && $0.advice != nil })
        }
        #expect(diagnosis.severity == .warning)
        #expect(!mute.canCarryDiscovery && !off.canCarryDiscovery && unplugged.canCarryDiscovery && !unplugged.leadsToOthers)
    }

    @Test("another responder is a note, two that fight a warning, a daemon out of reach is told")
    func responders() {
        #expect(
            facts {
                $0.responders = ["avahi-daemon"]
                $0.isDaemonOnBus = true
            }.severity == .notice)
        #expect(
            facts {
                $0.responders = ["avahi-daemon", "systemd-resolve"]
                $0.isDaemonOnBus = true
            }.severity == .warning)
        #expect(facts { $0.engine = "avahi-daemon" }.severity == .error)
        let hostile = facts { $0.responders = ["\u{1b}[2J"] }
        #expect(hostile.findings.allSatisfy { !$0.text.contains("\u{1b}") })
    }

    @Test("firewalls that may be in the way are named, with the command that opens them")
    func firewalls() {
        let ufw = facts { $0.firewall = FirewallFacts(rules: .notPermitted, isUFWEnabled: true) }
        #expect(
            ufw.findings.contains {
                $0.advice?.contains("ufw allow 5353/udp") == true && $0.advice?.contains("4242/tcp") == true
            })
        let firewalld = facts { $0.firewall = FirewallFacts(rules: .notPermitted, isFirewalldOnBus: true) }
        #expect(firewalld.findings.contains { $0.advice?.contains("--add-service=mdns") == true })
        let hidden = facts { $0.firewall.rules = .notPermitted }
        #expect(hidden.severity == .notice)
        #expect(hidden.findings.contains { $0.advice?.contains("sudo nearshare doctor") == true })
        #expect(facts { $0.firewall.rules = .unreadable }.severity == .notice)
        let untold = facts { $0.firewall.rules = .noTool }
        #expect(untold.severity == .notice)
        #expect(untold.findings.contains { $0.text.contains("neither nft nor iptables-save is installed") })
    }

    @Test("a user is advised to run with sudo what only root can run")
    func privilege() {
        var off = Self.eth
        off.isUp = false
        let diagnosis = facts {
            $0.privilege = "sudo "
            $0.interfaces = [Self.eth, off]
            $0.engine = "avahi-daemon"
            $0.responders = ["avahi-daemon", "systemd-resolve"]
            $0.firewall = FirewallFacts(rules: .notPermitted, isUFWEnabled: true, isFirewalldOnBus: true)
        }
        let advice = diagnosis.findings.compactMap(\.advice).joined(separator: "\n")
        for command in [
            "ip link set", "systemctl start", "resolvectl mdns", "ufw allow", "firewall-cmd --permanent",
            "firewall-cmd --reload",
        ] {
            #expect(advice.contains("`sudo \(command)") && !advice.contains("`\(command)"))
        }
    }

    @Test("sockets on a port are found in the kernel's table")
    func table() {
        let table = """
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
             1234: 00000000:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 777 2 0000000000000000 0
             1235: 0100007F:14EA 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 778 2 0000000000000000 0
             1236: short
             1237: 0100007F:0035 00000000:14E9 07 00000000:00000000 00:00000000 00000000     0        0 779 2 0000000000000000 0
            """
        #expect(NetworkDiagnosis.inodes(in: table, boundTo: 5353) == ["777"])
        #expect(NetworkDiagnosis.inodes(in: table, boundTo: 53) == ["779"])
        #expect(NetworkDiagnosis.inodes(in: "", boundTo: 53).isEmpty)
    }

    @Test("this very machine can be looked at")
    func here() {
        let diagnosis = NetworkDiagnosis.collect(engine: "embedded responder", port: 1)
        #expect(diagnosis.findings.contains { $0.subject == .engine })
        #expect(diagnosis.findings.contains { $0.subject == .firewall })
    }
}
