// The contract of every engine, checked over the in-memory form and over the real engines between network namespaces.

import NearshareInterfaces
import Testing

/// The contract, one function a promise.
enum Contract: String, CaseIterable, CustomTestStringConvertible {
    case advertisedBefore = "a browser sees what was advertised before, with port, text and address"
    case advertisedAfter = "a browser sees what is advertised later, its new text, and its end"
    case unusualNames = "instance names keep spaces, dots, quotes, UTF-8 and all of their 63 bytes"
    case sameText = "two instances that say the same text are two"
    case settling = "a browser is told when all that was there has been reported, also when that is nothing"
    case ownSightings = "what this machine advertises is seen by itself, as its own"
    case restriction = "advertising and browsing can be restricted to an interface, which must exist"
    case refusals = "what cannot be published is refused"
    case secondBrowser = "browsers come and go without disturbing each other"

    var testDescription: String { rawValue }

    func check(over lab: any Lab) async throws {
        switch self {
        case .advertisedBefore: try await advertisedBefore(lab)
        case .advertisedAfter: try await advertisedAfter(lab)
        case .unusualNames: try await unusualNames(lab)
        case .sameText: try await sameText(lab)
        case .settling: try await settling(lab)
        case .ownSightings: try await ownSightings(lab)
        case .restriction: try await restriction(lab)
        case .refusals: try await refusals(lab)
        case .secondBrowser: try await secondBrowser(lab)
        }
    }

    private func advertisedBefore(_ lab: any Lab) async throws {
        let text = ["id=0123456789abcdef", "v=1", "name=Anna"].map { Array($0.utf8) }
        _ = try await lab.host(0).advertise(service("anna", port: 4242, txt: text))
        let browser = try await lab.host(1)
        let sighting = try await browser.browse(interface: nil).seen("anna")
        #expect(sighting.address.port == 4242)
        #expect(sighting.txt == text)
        #expect(lab.isAddress(sighting.address.host, of: 0))
        #expect(!sighting.isOwn)
    }

    private func advertisedAfter(_ lab: any Lab) async throws {
        let (host, other) = (try await lab.host(0), try await lab.host(1))
        let sighter = try await other.browse(interface: nil)
        _ = try await sighter.untilSettled()
        let advertisement = try await host.advertise(service("late", port: 1, txt: [Array("a=1".utf8)]))
        let sighting = try await sighter.seen("late")
        #expect(sighting.txt == [Array("a=1".utf8)])
        let newText = [Array("a=2".utf8), Array("b=3".utf8)]
        try await advertisement.update(txt: newText)
        let again = try await sighter.seen("late", "the new text") { $0.key == sighting.key && $0.txt == newText }
        #expect(again.address == sighting.address)
        try await advertisement.stop()
        try await sighter.gone(sighting.key)
        // More than once is allowed.
        try? await advertisement.stop()
    }

    private func unusualNames(_ lab: any Lab) async throws {
        let names = [
            "Ann's \"Mac\" 5. floor", "a.b\\c.", " leading", "ünï–🎈 (2)", "\\046", "_nearshare._tcp",
            String(repeating: "ä", count: 31) + "x",
        ]
        let (host, other) = (try await lab.host(0), try await lab.host(1))
        var running: [any LabAdvertisement] = []
        for name in names { running.append(try await host.advertise(service(name))) }
        let sighter = try await other.browse(interface: nil)
        var missing = Set(names)
        while !missing.isEmpty {
            _ = try await sighter.first("\(missing)") { event in
                guard case .seen(let sighting) = event else { return false }
                #expect(names.contains(sighting.key.instance))
                return missing.remove(sighting.key.instance) != nil
            }
        }
        withExtendedLifetime(running) {}
    }

    private func sameText(_ lab: any Lab) async throws {
        let text = [Array("name=Anna".utf8)]
        let (one, two) = (try await lab.host(0), try await lab.host(1))
        _ = try await one.advertise(service("0000", port: 10, txt: text))
        _ = try await two.advertise(service("1111", port: 11, txt: text))
        let sighter = try await two.browse(interface: nil)
        var ports: [String: UInt16] = [:]
        _ = try await sighter.first("both") { event in
            if case .seen(let sighting) = event {
                #expect(sighting.txt == text)
                ports[sighting.key.instance] = sighting.address.port
            }
            return ports.count == 2
        }
        #expect(ports == ["0000": 10, "1111": 11])
    }

    private func settling(_ lab: any Lab) async throws {
        let (host, other) = (try await lab.host(0), try await lab.host(1))
        #expect(try await other.browse(interface: nil).untilSettled().isEmpty)
        _ = try await host.advertise(service("there"))
        // Engines take a moment to be heard: from then on the next browser has it before it settles.
        try await other.browse(interface: nil).seen("there")
        let sightings = try await other.browse(interface: nil).untilSettled()
        #expect(Set(sightings.map(\.key.instance)) == ["there"])
    }

    private func ownSightings(_ lab: any Lab) async throws {
        let host = try await lab.host(0)
        _ = try await host.advertise(service("self", port: 77))
        let sighting = try await host.browse(interface: nil).seen("self")
        #expect(sighting.isOwn)
        #expect(sighting.address.port == 77)
    }

    private func restriction(_ lab: any Lab) async throws {
        let (host, other) = (try await lab.host(0), try await lab.host(1))
        await #expect(throws: (any Error).self) { try await host.advertise(service("x", interface: "nosuch0")) }
        await #expect(throws: (any Error).self) { try await other.browse(interface: "nosuch0") }
        _ = try await host.advertise(service("bound", interface: lab.interface))
        let sighting = try await other.browse(interface: lab.interface).seen("bound")
        #expect(lab.isAddress(sighting.address.host, of: 0))
    }

    private func refusals(_ lab: any Lab) async throws {
        let host = try await lab.host(0)
        let advertisement = try await host.advertise(service("fine"))
        let refused = [
            service(""), service(String(repeating: "x", count: 64)), service("nul\0"), service("port", port: 0),
            service("long", txt: [[UInt8](repeating: 65, count: 256)]), service("many", txt: .init(repeating: [65], count: 17)),
        ]
        for one in refused { await #expect(throws: (any Error).self) { try await host.advertise(one) } }
        let text = [[UInt8]](repeating: [65], count: 17)
        await #expect(throws: (any Error).self) { try await advertisement.update(txt: text) }
        // Refused, and no more than that: what was published is, and can be changed.
        let allowed = [Array("still=1".utf8)]
        try await advertisement.update(txt: allowed)
        try await lab.host(1).browse(interface: nil).seen("fine", "the text that was not refused") { $0.txt == allowed }
    }

    private func secondBrowser(_ lab: any Lab) async throws {
        let (host, other) = (try await lab.host(0), try await lab.host(1))
        _ = try await host.advertise(service("steady"))
        let first = try await other.browse(interface: nil)
        try await first.seen("steady")
        do {
            let second = try await other.browse(interface: nil)
            try await second.seen("steady")
        }
        _ = try await host.advertise(service("more"))
        try await first.seen("more")
    }

    private func service(
        _ instance: String, port: UInt16 = 9, txt: [[UInt8]] = [Array("v=1".utf8)], interface: String? = nil
    ) -> Advertisement {
        Advertisement(instance: instance, type: .nearshare, port: port, txt: txt, interface: interface)
    }
}

@Suite("discovery contract over the in-memory form")
struct ContractOverTwin {
    @Test(arguments: Contract.allCases)
    func `the implementation keeps the contract`(_ contract: Contract) async throws {
        try await contract.check(over: MemoryLab())
    }
}

@Suite(
    "discovery contract over the embedded responder",
    .enabled(if: NamespaceLab.obstacle == nil, "\(NamespaceLab.obstacle ?? "")"))
struct ContractOverResponder {
    @Test(arguments: Contract.allCases)
    func `the implementation keeps the contract`(_ contract: Contract) async throws {
        try await withLab(NamespaceLab([.embedded, .embedded])) { try await contract.check(over: $0) }
    }
}

@Suite(
    "discovery contract over avahi-daemon",
    .enabled(if: NamespaceLab.daemonObstacle == nil, "\(NamespaceLab.daemonObstacle ?? "")"))
struct ContractOverDaemon {
    @Test("the daemon on both machines", arguments: Contract.allCases)
    func both(_ contract: Contract) async throws {
        try await withLab(NamespaceLab([.daemon, .daemon])) { try await contract.check(over: $0) }
    }

    @Test(
        "the daemon advertises, the embedded responder browses",
        arguments: [Contract.advertisedAfter, .unusualNames, .settling])
    func advertising(_ contract: Contract) async throws {
        try await withLab(NamespaceLab([.daemon, .embedded])) { try await contract.check(over: $0) }
    }

    @Test(
        "the embedded responder advertises, the daemon browses",
        arguments: [Contract.advertisedAfter, .unusualNames, .settling])
    func browsing(_ contract: Contract) async throws {
        try await withLab(NamespaceLab([.embedded, .daemon])) { try await contract.check(over: $0) }
    }
}

/// Takes the machines down again, whatever happens.
func withLab<Result>(_ lab: NamespaceLab, _ body: (NamespaceLab) async throws -> Result) async throws -> Result {
    defer { lab.close() }
    return try await body(lab)
}
