// Several machines on one: network namespaces joined by a bridge, and in each a process that discovers.

internal import FoundationEssentials
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

struct LabError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// The environment of a suite of contract tests: machines that discover each other.
protocol Lab: Sendable {
    /// The interface over which the machines meet.
    var interface: String { get }

    /// - Parameter number: 0 or 1.
    func host(_ number: Int) async throws -> any LabHost

    /// Where sightings of the host's services may point to.
    func isAddress(_ address: String, of number: Int) -> Bool
}

protocol LabHost: Sendable {
    func advertise(_ advertisement: Advertisement) async throws -> any LabAdvertisement
    func browse(interface: String?) async throws -> Sighter
}

protocol LabAdvertisement: Sendable {
    func update(txt: [[UInt8]]) async throws
    func stop() async throws
}

/// The sightings of one browser.
final class Sighter: Sendable {
    let events: Mailbox<DiscoveryEvent>
    private let onEnd: @Sendable () -> Void

    init(_ events: Mailbox<DiscoveryEvent>, onEnd: @escaping @Sendable () -> Void) {
        self.events = events
        self.onEnd = onEnd
    }

    deinit { onEnd() }

    /// The first event from now on that fits; what comes before is passed over.
    func first(
        within limit: Duration = .seconds(20), _ what: String, where fits: (DiscoveryEvent) -> Bool
    ) async throws -> DiscoveryEvent {
        let end = ContinuousClock.now + limit
        var others: [DiscoveryEvent] = []
        while let event = await events.take(within: max(.zero, end - .now)) {
            if fits(event) { return event }
            others.append(event)
        }
        throw LabError("waited in vain for \(what); came: \(others)")
    }

    @discardableResult
    func seen(
        _ instance: String, _ what: String = "a sighting", where fits: (ServiceSighting) -> Bool = { _ in true }
    ) async throws -> ServiceSighting {
        let event = try await first("\(what) of \(instance)") { event in
            if case .seen(let sighting) = event { sighting.key.instance == instance && fits(sighting) } else { false }
        }
        guard case .seen(let sighting) = event else { throw LabError("cannot be") }
        return sighting
    }

    func gone(_ key: ServiceSighting.Key) async throws {
        _ = try await first("the end of \(key.instance)") { $0 == .gone(key) }
    }

    /// Everything up to the first ``DiscoveryEvent/settled``.
    func untilSettled() async throws -> [ServiceSighting] {
        var sightings: [ServiceSighting] = []
        _ = try await first("settled") { event in
            if case .seen(let sighting) = event { sightings.append(sighting) }
            return event == .settled
        }
        return sightings
    }
}

// MARK: In memory

final class MemoryLab: Lab {
    let segment = InMemorySegment()
    private let hosts: [MemoryHost]

    init() { hosts = (0...1).map { [segment] in MemoryHost(discovery: segment.join(host: Self.address($0))) } }

    var interface: String { segment.interfaceName }

    func host(_ number: Int) -> any LabHost { hosts[number] }

    func isAddress(_ address: String, of number: Int) -> Bool { address == Self.address(number) }

    private static func address(_ number: Int) -> String { "10.0.0.\(number + 1)" }
}

private final class MemoryHost: LabHost {
    private let discovery: any Discovery
    /// The running advertisements: like those of a process, they stay until they are stopped.
    private let running = Mutex<[any RunningAdvertisement]>([])

    init(discovery: any Discovery) { self.discovery = discovery }

    func advertise(_ advertisement: Advertisement) throws -> any LabAdvertisement {
        let advertisement = try discovery.advertise(advertisement)
        running.withLock { $0.append(advertisement) }
        return MemoryAdvertisement(running: advertisement)
    }

    func browse(interface: String?) throws -> Sighter {
        let stream = try discovery.browse(for: .nearshare, interface: interface)
        let events = Mailbox<DiscoveryEvent>()
        let task = Task {
            do {
                for try await event in stream { events.put(event) }
            } catch {}
            events.close()
        }
        return Sighter(events) { task.cancel() }
    }
}

private struct MemoryAdvertisement: LabAdvertisement {
    let running: any RunningAdvertisement
    func update(txt: [[UInt8]]) throws { try running.update(txt: txt) }
    func stop() { running.stop() }
}

// MARK: Namespaces

/// Two network namespaces joined by a veth pair, and what runs in them. A shell that waits for the end of its input keeps
/// them, so that they go even when the test is killed.
final class NamespaceLab: Lab {
    enum Engine: String { case automatic, embedded, daemon }

    /// Why tests that need namespaces cannot run here; nil when they can.
    static let obstacle: String? = {
        guard geteuid() == 0 else { return "needs root, for network namespaces" }
        guard access(probe, X_OK) == 0 else { return "needs \(probe)" }
        guard let shell = try? ChildProcess("sh", ["-c", "unshare -n true && command -v ip >/dev/null"]) else {
            return "needs a shell"
        }
        return shell.end() == 0 ? nil : "needs ip(8) and the right to make network namespaces"
    }()

    static let firewallObstacle: String? = {
        if let obstacle { return obstacle }
        let shell = try? ChildProcess(
            "sh", ["-c", "command -v python3 iptables ip6tables >/dev/null && unshare -n nft add table inet probe"])
        return shell?.end() == 0 ? nil : "needs python3, nft, iptables and a kernel with nftables"
    }()

    static let daemonObstacle: String? = {
        if let obstacle { return obstacle }
        let shell = try? ChildProcess("sh", ["-c", "command -v dbus-daemon avahi-daemon >/dev/null && unshare -m true"])
        return shell?.end() == 0 ? nil : "needs dbus-daemon and avahi-daemon"
    }()

    let interface = "veth0"
    private let engines: [Engine]
    private let script: ChildProcess
    private let folder: String
    private let names: [String]
    private let hosts = Mutex<[Int: ProbeHost]>([:])

    init(_ engines: [Engine] = [.embedded, .embedded], hasIPv4: Bool = true) async throws {
        self.engines = engines
        let id = "\(getpid())-\(UInt32.random(in: .min ... .max))"
        names = ["nearshare-\(id)-0", "nearshare-\(id)-1"]
        folder = "/tmp/nearshare-lab-\(id)"
        script = try ChildProcess(
            "bash", ["-c", Self.script] + ["lab", folder, hasIPv4 ? "4" : "6"] + names + engines.map(\.rawValue))
        guard let line = await script.lines.take(within: .seconds(30)), line == "ready" else {
            script.end()
            throw LabError("the namespaces could not be made")
        }
    }

    func close() {
        hosts.withLock { $0 = [:] }
        script.end()
    }

    func host(_ number: Int) async throws -> any LabHost {
        if let known = hosts.withLock({ $0[number] }) { return known }
        let new = try await probe(number)
        hosts.withLock { $0[number] = new }
        return new
    }

    /// One more process on that machine.
    func probe(_ number: Int, _ engine: Engine? = nil) async throws -> ProbeHost {
        let engine = engine ?? engines[number]
        let environment = ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=\(folder)/bus\(number)", "SWIFT_BACKTRACE": "enable=no"]
        let child = try ChildProcess(
            "ip", ["netns", "exec", names[number], Self.probe, engine.rawValue], environment: environment)
        return try await ProbeHost(child)
    }

    func isAddress(_ address: String, of number: Int) -> Bool {
        address == "10.83.0.\(number + 1)" || (address.hasPrefix("fe80::") && address.hasSuffix("%" + interface))
    }

    /// Runs a command as root of that machine.
    func run(_ command: String, on number: Int) throws {
        let child = try ChildProcess("ip", ["netns", "exec", names[number], "sh", "-c", command])
        guard child.end() == 0 else { throw LabError("failed: \(command)") }
    }

    /// Sends a signal to each connection of that machine's bus, as any of its users can, from the path of the bus itself.
    func forgeSignal(_ member: String, _ arguments: [String], on number: Int) throws {
        let values = arguments.map { "string:'\($0)'" }.joined(separator: " ")
        try run(
            """
            export DBUS_SYSTEM_BUS_ADDRESS=unix:path=\(folder)/bus\(number)
            names=$(dbus-send --system --print-reply --dest=\(bus) / \(bus).ListNames | grep -o ':1[.][0-9]*')
            for name in ${names:?}; do dbus-send --system --type=signal --dest=$name /org/freedesktop/DBus \(member) \(values); done
            """, on: number)
    }

    private var bus: String { "org.freedesktop.DBus" }

    /// Starts a program on that machine.
    func start(_ program: String, _ arguments: [String], on number: Int) throws -> ChildProcess {
        try ChildProcess("ip", ["netns", "exec", names[number], program] + arguments)
    }

    /// Ends that machine's avahi-daemon.
    func stopDaemon(_ number: Int) async throws { try await command("stop \(number)") }

    /// Starts that machine's avahi-daemon after it was stopped.
    func startDaemon(_ number: Int) async throws { try await command("start \(number)") }

    /// Ends that machine's avahi-daemon and starts another.
    func restartDaemon(_ number: Int) async throws {
        try await stopDaemon(number)
        try await startDaemon(number)
    }

    /// Sends a command to the script, and waits until it is carried out.
    private func command(_ line: String) async throws {
        script.say(line)
        guard let line = await script.lines.take(within: .seconds(30)), line == "ready" else {
            throw LabError("no answer to \(line)")
        }
    }

    private static let probe: String = {
        var path = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &path, path.count)
        let executable = String(decoding: path.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let folder = executable.split(separator: "/").dropLast().joined(separator: "/")
        let candidates = ["/\(folder)/discovery-probe"] + CommandLine.arguments.map { $0.parent + "/discovery-probe" }
        return candidates.first { access($0, X_OK) == 0 } ?? candidates[0]
    }()

    /// Duplicate address detection is off: IPv6 would be usable only 1 to 2 s after the interface comes up.
    private static let script = """
        folder=$1 families=$2 names=("$3" "$4") engines=("$5" "$6") avahi=() bus=()
        end() {
            for pid in "${avahi[@]}" "${bus[@]}"; do kill "$pid" 2>/dev/null; done
            wait
            for name in "${names[@]}"; do ip netns del "$name" 2>/dev/null; done
            rm -rf "$folder"
        }
        trap end EXIT
        trap 'exit 1' INT TERM HUP
        quietly() { "$@" >/dev/null 2>&1 </dev/null; }
        start_daemon() {
            printf '[server]\\nhost-name=lab%s\\n[wide-area]\\nenable-wide-area=no\\n' $1 >"$folder/avahi$1.conf"
            DBUS_SYSTEM_BUS_ADDRESS=unix:path=$folder/bus$1 ip netns exec "${names[$1]}" unshare -m sh -c "
                mount -t tmpfs none /run && mkdir /run/avahi-daemon &&
                exec avahi-daemon -f $folder/avahi$1.conf --no-drop-root --no-chroot --no-rlimits" >/dev/null 2>&1 </dev/null &
            avahi[$1]=$!
            for _ in $(seq 200); do
                quietly env DBUS_SYSTEM_BUS_ADDRESS=unix:path=$folder/bus$1 dbus-send --system --print-reply \\
                    --dest=org.freedesktop.Avahi / org.freedesktop.Avahi.Server.GetVersionString && return
                sleep 0.05
            done
            exit 1
        }
        start_bus() {
            cat >"$folder/bus$1.conf" <<END
        <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
        <busconfig><type>system</type><listen>unix:path=$folder/bus$1</listen><auth>EXTERNAL</auth>
        <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
        <allow receive_sender="*"/></policy></busconfig>
        END
            dbus-daemon --config-file="$folder/bus$1.conf" --nofork --nopidfile >/dev/null 2>&1 </dev/null &
            bus[$1]=$!
            for _ in $(seq 200); do [ -S "$folder/bus$1" ] && return; sleep 0.05; done
            exit 1
        }
        mkdir "$folder" && chmod 755 "$folder" || exit 1
        for i in 0 1; do
            ip netns add "${names[$i]}" || exit 1
            ip netns exec "${names[$i]}" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
                echo 0 >/proc/sys/net/ipv6/conf/default/dad_transmits' 2>/dev/null
            ip -n "${names[$i]}" link set lo up
        done
        ip link add name veth0 netns "${names[0]}" type veth peer name veth0 netns "${names[1]}" || exit 1
        for i in 0 1; do
            ip netns exec "${names[$i]}" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/veth0/accept_dad' 2>/dev/null
            [ "$families" = 4 ] && ip -n "${names[$i]}" addr add 10.83.0.$((i + 1))/24 dev veth0
            ip -n "${names[$i]}" link set veth0 up
        done
        for i in 0 1; do
            [ "${engines[$i]}" = daemon ] || continue
            start_bus $i
            start_daemon $i
        done
        echo ready
        while read -r command number; do
            case $command in
            stop) kill "${avahi[$number]}"; wait "${avahi[$number]}" ;;
            start) start_daemon "$number" ;;
            esac
            echo ready
        done
        """
}

extension String {
    fileprivate var parent: String { lastIndex(of: "/").map { String(self[..<$0]) } ?? "." }
}

/// A discovery-probe in a namespace. See Tests/Support/discovery-probe for what is said.
final class ProbeHost: LabHost {
    let child: ChildProcess
    /// The engine's name for itself.
    let engine: String
    private let answers: Mailbox<[String]>
    private let sighters: Registry
    private let reader: Task<Void, Never>

    init(_ child: ChildProcess) async throws {
        let (answers, sighters) = (Mailbox<[String]>(), Registry())
        (self.child, self.answers, self.sighters) = (child, answers, sighters)
        reader = Task {
            while let line = await child.lines.take(within: .seconds(600)) {
                let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
                if let (id, event) = Self.event(fields) { sighters.events(of: id)?.put(event) } else { answers.put(fields) }
            }
            answers.close()
        }
        engine = try await Self.answer("ready", among: answers)[1]
    }

    deinit {
        reader.cancel()
        child.end()
    }

    func advertise(_ advertisement: Advertisement) async throws -> any LabAdvertisement {
        let id = sighters.newID()
        let txt = advertisement.txt.map { " " + Hex.encode($0) }.joined()
        let instance = Hex.encode(advertisement.instance.utf8)
        child.say("advertise \(id) \(advertisement.interface ?? "-") \(advertisement.port) .\(instance)\(txt)")
        _ = try await answer("advertised")
        return ProbeAdvertisement(host: self, id: id)
    }

    func browse(interface: String?) async throws -> Sighter {
        let id = sighters.newID()
        let events = Mailbox<DiscoveryEvent>()
        sighters.add(id, events)
        let sighter = Sighter(events) { [child, sighters] in
            child.say("unbrowse \(id)")
            sighters.remove(id)
        }
        child.say("browse \(id) \(interface ?? "-")")
        _ = try await answer("browsing")
        return sighter
    }

    func diagnose(port: UInt16) async throws -> [[String]] {
        child.say("diagnose \(port)")
        var findings: [[String]] = []
        while let fields = await answers.take(within: .seconds(20)), fields[0] == "finding" { findings.append(fields) }
        return findings
    }

    /// The verdicts of that machine's firewall: service, family, outcome and rule of each verdict.
    func filter(port: UInt16) async throws -> [[String]] {
        child.say("filter \(port)")
        var verdicts: [[String]] = []
        while let fields = await answers.take(within: .seconds(20)) {
            switch fields[0] {
            case "verdict": verdicts.append(Array(fields[1...4]))
            case "filtered": return verdicts
            default: throw LabError("unexpected answer: \(fields)")
            }
        }
        throw LabError("the probe did not answer")
    }

    fileprivate func say(_ line: String, answer expected: String) async throws {
        child.say(line)
        _ = try await answer(expected)
    }

    private func answer(_ expected: String) async throws -> [String] {
        try await Self.answer(expected, among: answers)
    }

    private static func answer(_ expected: String, among answers: Mailbox<[String]>) async throws -> [String] {
        while let fields = await answers.take(within: .seconds(20)) {
            if fields[0] == expected { return fields }
            if fields[0] == "error" { throw LabError(fields[1]) }
        }
        throw LabError("the probe did not answer with \(expected)")
    }

    private static func event(_ fields: [String]) -> (id: String, event: DiscoveryEvent)? {
        func key() -> ServiceSighting.Key {
            ServiceSighting.Key(
                instance: String(decoding: Hex.decode(fields[2]) ?? [], as: UTF8.self),
                interfaceIndex: Int32(fields[3]) ?? -1, isIPv6: fields[4] == "6")
        }
        switch fields[0] {
        case "seen":
            let address = LinkAddress(host: fields[5], port: UInt16(fields[6]) ?? 0)
            let txt = fields[8].split(separator: ",").compactMap { Hex.decode(String($0)) }
            return (fields[1], .seen(ServiceSighting(key: key(), address: address, txt: txt, isOwn: fields[7] == "own")))
        case "gone": return (fields[1], .gone(key()))
        case "settled": return (fields[1], .settled)
        default: return nil
        }
    }
}

private struct ProbeAdvertisement: LabAdvertisement {
    let host: ProbeHost
    let id: String

    func update(txt: [[UInt8]]) async throws {
        try await host.say("update \(id)" + txt.map { " " + Hex.encode($0) }.joined(), answer: "updated")
    }

    func stop() async throws { try await host.say("stop \(id)", answer: "stopped") }
}

private final class Registry: Sendable {
    private let state = Mutex<(mailboxes: [String: Mailbox<DiscoveryEvent>], count: Int)>(([:], 0))

    func newID() -> String {
        state.withLock { state in
            state.count += 1
            return "n\(state.count)"
        }
    }

    func add(_ id: String, _ events: Mailbox<DiscoveryEvent>) { state.withLock { $0.mailboxes[id] = events } }
    func remove(_ id: String) { state.withLock { $0.mailboxes[id] = nil } }
    func events(of id: String) -> Mailbox<DiscoveryEvent>? { state.withLock { $0.mailboxes[id] } }
}
