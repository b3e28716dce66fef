internal import Glibc
internal import NearshareBase
internal import NearshareDiscovery
internal import NearshareInterfaces

enum Probe {
    static func main() async {
        guard let preference = LinuxDiscovery.Preference(rawValue: CommandLine.arguments.dropFirst().first ?? "") else {
            say("error", "give it automatic, embedded or daemon")
            exit(2)
        }
        let discovery: any Discovery
        do {
            discovery = try LinuxDiscovery.make(preferring: preference)
        } catch {
            say("error", "\(error)")
            exit(1)
        }
        say("ready", discovery.engine)
        var session = ProbeSession(discovery: discovery)
        while let line = readLine() {
            let words = line.split(separator: " ").map(String.init)
            guard words.first != "quit" else { break }
            do { try session.obey(words) } catch { say("error", "\(error)") }
        }
        session.stopAll()
        say("bye")
    }

    /// Each line in one write, as other threads also print.
    static func say(_ fields: String...) {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let microseconds = time.tv_sec * 1_000_000 + time.tv_nsec / 1000
        let line = Array((fields + ["\(microseconds)"]).joined(separator: "\t").utf8) + [UInt8(ascii: "\n")]
        _ = line.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
    }
}

private struct ProbeSession {
    let discovery: any Discovery
    var advertisements: [String: any RunningAdvertisement] = [:]
    var browsers: [String: Task<Void, Never>] = [:]

    mutating func obey(_ words: [String]) throws {
        switch words.first {
        case "advertise":
            let advertisement = Advertisement(
                instance: String(decoding: Hex.decode(String(words[4].dropFirst())) ?? [], as: UTF8.self), type: .nearshare,
                port: UInt16(words[3]) ?? 0, txt: words.dropFirst(5).compactMap(Hex.decode),
                interface: words[2] == "-" ? nil : words[2])
            advertisements[words[1]] = try discovery.advertise(advertisement)
            Probe.say("advertised", words[1])
        case "update":
            try advertisements[words[1]]?.update(txt: words.dropFirst(2).compactMap(Hex.decode))
            Probe.say("updated", words[1])
        case "stop":
            advertisements.removeValue(forKey: words[1])?.stop()
            Probe.say("stopped", words[1])
        case "browse":
            let id = words[1]
            let events = try discovery.browse(for: .nearshare, interface: words[2] == "-" ? nil : words[2])
            Probe.say("browsing", id)
            browsers[id] = Task {
                do {
                    for try await event in events { Probe.say(id, event) }
                } catch {
                    Probe.say("broken", id, "\(error)")
                }
            }
        case "unbrowse":
            browsers.removeValue(forKey: words[1])?.cancel()
            Probe.say("unbrowsed", words[1])
        case "diagnose":
            for finding in NetworkDiagnosis.collect(
                engine: discovery.engine, port: words.dropFirst().first.flatMap(UInt16.init)
            ).findings {
                Probe.say("finding", finding.severity.rawValue, finding.subject.rawValue, finding.text, finding.advice ?? "")
            }
            Probe.say("diagnosed")
        case "filter":
            guard let verdicts = NetworkDiagnosis.firewallVerdicts(port: UInt16(words[1]) ?? 0) else {
                return Probe.say("error", "the rules could not be read")
            }
            for verdict in verdicts {
                let (outcome, rule) = verdict.description
                let service = verdict.service == .multicastDNS ? "udp" : "tcp"
                Probe.say("verdict", service, verdict.isIPv6 ? "6" : "4", outcome, rule)
            }
            Probe.say("filtered")
        default: Probe.say("error", "no such command")
        }
    }

    mutating func stopAll() {
        for browser in browsers.values { browser.cancel() }
        for advertisement in advertisements.values { advertisement.stop() }
    }
}

extension Probe {
    fileprivate static func say(_ id: String, _ event: DiscoveryEvent) {
        switch event {
        case .seen(let sighting):
            say(
                "seen", id, Hex.encode(sighting.key.instance.utf8), "\(sighting.key.interfaceIndex)",
                sighting.key.isIPv6 ? "6" : "4", sighting.address.host, "\(sighting.address.port)",
                sighting.isOwn ? "own" : "other", sighting.txt.map { Hex.encode($0) }.joined(separator: ","))
        case .gone(let key):
            say("gone", id, Hex.encode(key.instance.utf8), "\(key.interfaceIndex)", key.isIPv6 ? "6" : "4")
        case .settled: say("settled", id)
        }
    }
}
