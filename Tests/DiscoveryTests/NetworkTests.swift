import NearshareInterfaces
import Testing

@Suite(
    "the embedded responder on real networks",
    .enabled(if: NamespaceLab.obstacle == nil, "\(NamespaceLab.obstacle ?? "")"))
struct ResponderNetworkTests {
    private func service(_ instance: String, interface: String? = nil) -> Advertisement {
        Advertisement(instance: instance, type: .nearshare, port: 9, txt: [Array("v=1".utf8)], interface: interface)
    }

    @Test("on a link without IPv4, peers are found at link-local addresses with their zone")
    func ipv6Only() async throws {
        try await withLab(NamespaceLab(hasIPv4: false)) { lab in
            _ = try await lab.host(0).advertise(service("six"))
            let sighting = try await lab.host(1).browse(interface: nil).seen("six")
            #expect(sighting.key.isIPv6)
            #expect(sighting.address.host.hasPrefix("fe80::") && sighting.address.host.hasSuffix("%veth0"))
        }
    }

    @Test("without any network, processes of one machine find each other")
    func loopbackOnly() async throws {
        try await withLab(NamespaceLab()) { lab in
            try lab.run("ip link set veth0 down", on: 0)
            let (one, two) = (try await lab.probe(0), try await lab.probe(0))
            _ = try await one.advertise(service("here"))
            let sighting = try await two.browse(interface: nil).seen("here")
            #expect(sighting.address.host == "127.0.0.1")
            #expect(sighting.isOwn)
        }
    }

    @Test("what is advertised on one interface is not seen over another")
    func otherInterface() async throws {
        try await withLab(NamespaceLab()) { lab in
            let host = try await lab.host(0)
            _ = try await host.advertise(service("inside", interface: "lo"))
            _ = try await host.advertise(service("outside", interface: "veth0"))
            let sightings = try await lab.host(1).browse(interface: nil).untilSettled()
            #expect(Set(sightings.map(\.key.instance)) == ["outside"])
            let inside = try await host.browse(interface: "lo").untilSettled()
            #expect(Set(inside.map(\.key.instance)) == ["inside"])
        }
    }

    @Test("an address that comes later is advertised, one that goes is not any more")
    func addresses() async throws {
        try await withLab(NamespaceLab(hasIPv4: false)) { lab in
            _ = try await lab.host(0).advertise(service("mover"))
            let sighter = try await lab.host(1).browse(interface: nil)
            try await sighter.seen("mover")
            try lab.run("ip addr add 10.83.1.2/24 dev veth0 && ip addr add 10.83.2.2/24 dev veth0", on: 1)
            try lab.run("ip addr add 10.83.1.1/24 dev veth0", on: 0)
            try await sighter.seen("mover", "the first IPv4 address") { $0.address.host == "10.83.1.1" }
            try lab.run("ip addr add 10.83.2.1/24 dev veth0 && ip addr del 10.83.1.1/24 dev veth0", on: 0)
            try await sighter.seen("mover", "the second IPv4 address") { $0.address.host == "10.83.2.1" }
        }
    }

    @Test("a link that goes takes its sightings with it, and brings them back")
    func link() async throws {
        try await withLab(NamespaceLab()) { lab in
            _ = try await lab.host(0).advertise(service("anna"))
            let sighter = try await lab.host(1).browse(interface: nil)
            let sighting = try await sighter.seen("anna")
            try lab.run("ip link set veth0 down", on: 1)
            try await sighter.gone(sighting.key)
            try lab.run("ip link set veth0 up", on: 1)
            try await sighter.seen("anna")
        }
    }

    @Test("a process that ends in order is gone at once for others")
    func goodbye() async throws {
        try await withLab(NamespaceLab()) { lab in
            let host = try await lab.probe(0)
            _ = try await host.advertise(service("leaving"))
            let sighter = try await lab.host(1).browse(interface: nil)
            let sighting = try await sighter.seen("leaving")
            host.child.say("quit")
            try await sighter.gone(sighting.key)
        }
    }

    @Test("where no daemon can be reached, the embedded responder is chosen, and the daemon is refused with a sentence")
    func choice() async throws {
        try await withLab(NamespaceLab()) { lab in
            let host = try await lab.probe(0, .automatic)
            #expect(host.engine == "embedded responder")
            let error = await #expect(throws: LabError.self) { try await lab.probe(0, .daemon) }
            #expect(error?.description.contains("avahi-daemon is not available") == true)
        }
    }

    @Test("the diagnosis names a responder of another process")
    func diagnosis() async throws {
        try await withLab(NamespaceLab()) { lab in
            let (one, two) = (try await lab.probe(0), try await lab.probe(0))
            _ = try await one.advertise(service("a"))
            _ = try await two.advertise(service("b"))
            let findings = try await two.diagnose(port: 4242)
            #expect(findings.contains { $0[2] == "responders" && $0[3].contains("discovery-probe") })
            #expect(findings.contains { $0[2] == "interfaces" && $0[3].contains("veth0 carries discovery") })
        }
    }
}

@Suite(
    "avahi-daemon on real networks",
    .enabled(if: NamespaceLab.daemonObstacle == nil, "\(NamespaceLab.daemonObstacle ?? "")"))
struct DaemonNetworkTests {
    private func service(_ instance: String) -> Advertisement {
        Advertisement(instance: instance, type: .nearshare, port: 9, txt: [Array("v=1".utf8)])
    }

    @Test("where the daemon answers, it is chosen")
    func choice() async throws {
        try await withLab(NamespaceLab([.daemon, .embedded])) { lab in
            let host = try await lab.probe(0, .automatic)
            #expect(host.engine == "avahi-daemon")
        }
    }

    @Test("the embedded responder gets along with a daemon on the same machine, in both directions")
    func neighbours() async throws {
        try await withLab(NamespaceLab([.daemon, .embedded])) { lab in
            let (daemon, embedded) = (try await lab.probe(0, .daemon), try await lab.probe(0, .embedded))
            _ = try await daemon.advertise(service("by daemon"))
            _ = try await embedded.advertise(service("by responder"))
            try await embedded.browse(interface: nil).seen("by daemon")
            try await daemon.browse(interface: nil).seen("by responder")
            let other = try await lab.host(1).browse(interface: nil)
            var missing: Set = ["by daemon", "by responder"]
            _ = try await other.first("both") { event in
                if case .seen(let sighting) = event { missing.remove(sighting.key.instance) }
                return missing.isEmpty
            }
        }
    }

    @Test("after a restart of the daemon all is published and seen again")
    func restart() async throws {
        try await withLab(NamespaceLab([.daemon, .embedded])) { lab in
            let (host, other) = (try await lab.host(0), try await lab.host(1))
            let advertisement = try await host.advertise(service("phoenix"))
            let far = try await other.browse(interface: nil)
            try await far.seen("phoenix")
            let near = try await host.browse(interface: nil)
            _ = try await near.untilSettled()
            try await lab.restartDaemon(0)
            try await advertisement.update(txt: [Array("v=2".utf8)])
            try await far.seen("phoenix", "the text told to the new daemon") { $0.txt == [Array("v=2".utf8)] }
            _ = try await other.advertise(service("newcomer"))
            try await near.seen("newcomer")
        }
    }

    @Test("D9: signals that another user sends in the name of the bus are dropped")
    func forgedSignals() async throws {
        try await withLab(NamespaceLab([.daemon, .embedded])) { lab in
            let (host, other) = (try await lab.host(0), try await lab.host(1))
            let near = try await host.browse(interface: nil)
            _ = try await other.advertise(service("before"))
            try await near.seen("before")
            // The process would give up its requests, and wait for a daemon that never left.
            try lab.forgeSignal(
                "org.freedesktop.DBus.NameOwnerChanged", ["org.freedesktop.Avahi", ":1.0", ""], on: 0)
            _ = try await other.advertise(service("after"))
            try await near.seen("after")
        }
    }

    @Test("while avahi-daemon is away, a responder of the process advertises and browses")
    func fallback() async throws {
        try await withLab(NamespaceLab([.daemon, .embedded])) { lab in
            let host = try await lab.probe(0, .automatic)
            #expect(host.engine == "avahi-daemon")
            let other = try await lab.host(1)
            let far = try await other.browse(interface: nil)
            let advertisement = try await host.advertise(service("early"))
            let near = try await host.browse(interface: nil)
            _ = try await near.untilSettled()
            try await far.seen("early")
            for round in 1...3 {
                try await lab.stopDaemon(0)
                // The daemon's goodbye may be followed by the responder's announcement before any browser has noticed.
                let absence = [Array("absent=\(round)".utf8)]
                try await advertisement.update(txt: absence)
                try await far.seen("early", "the text told to the responder") { $0.txt == absence }
                // Without the daemon, new requests are served as well.
                let late = try await host.advertise(service("late \(round)"))
                try await far.seen("late \(round)")
                let later = try await host.browse(interface: nil)
                let newcomer = try await other.advertise(service("newcomer \(round)"))
                let seen = try await near.seen("newcomer \(round)")
                try await later.seen("newcomer \(round)")
                try await lab.startDaemon(0)
                // A browser that begins at once.
                try await host.browse(interface: nil).seen("newcomer \(round)")
                let text = [Array("round=\(round)".utf8)]
                try await advertisement.update(txt: text)
                try await far.seen("early", "the text told to the daemon") { $0.txt == text }
                try await newcomer.stop()
                try await near.gone(seen.key)
                try await late.stop()
            }
        }
    }

    @Test("a process that is killed is gone for others: the daemon says goodbye for it")
    func killed() async throws {
        try await withLab(NamespaceLab([.daemon, .embedded])) { lab in
            let host = try await lab.probe(0)
            _ = try await host.advertise(service("victim"))
            let sighter = try await lab.host(1).browse(interface: nil)
            let sighting = try await sighter.seen("victim")
            host.child.kill()
            try await sighter.gone(sighting.key)
        }
    }
}
