internal import FoundationEssentials
internal import Glibc
internal import NearshareBase
internal import NearshareDBus

extension NetworkDiagnosis {
    /// Collects the facts and derives the findings, without changing or sending anything. Blocks for some milliseconds; up to
    /// three seconds where the system bus or nft hangs.
    /// - Parameters:
    ///   - engine: the name of the engine in use.
    ///   - port: the TCP port that peers connect to; nil when it is not known.
    package static func collect(engine: String, port: UInt16?) -> NetworkDiagnosis {
        let bus = try? DBusConnection()
        func isOnBus(_ name: String) -> Bool { (try? bus?.hasOwner(name, timeout: .milliseconds(500))) ?? false }
        let firewall = FirewallFacts(
            rules: readRules(), isUFWEnabled: isUFWEnabled, isFirewalldOnBus: isOnBus("org.fedoraproject.FirewallD1"))
        let interfaces = NetworkInterface.all()
        return NetworkDiagnosis(
            of: Facts(
                interfaces: interfaces, engine: engine, responders: otherProcesses(onUDPPort: 5353),
                isDaemonOnBus: isOnBus(AvahiDaemonConnection.busName), firewall: firewall, bridges: bridges(among: interfaces),
                port: port, privilege: privilege))
    }

    /// Put before advised commands that only root can run: "sudo ", or nothing in a session of root's own.
    package static var privilege: String { geteuid() == 0 && getenv("SUDO_UID") == nil ? "" : "sudo " }

    /// A tool that keeps rules of its own.
    package enum FirewallTool: Sendable {
        case ufw, firewalld
    }

    /// Returns the tool that is in force on this machine; nil where neither is.
    package static func firewallTool() -> FirewallTool? {
        if isUFWEnabled { return .ufw }
        let hasFirewalld = try? (try? DBusConnection())?.hasOwner("org.fedoraproject.FirewallD1", timeout: .milliseconds(500))
        return hasFirewalld == true ? .firewalld : nil
    }

    private static func bridges(among interfaces: [NetworkInterface]) -> Set<String> {
        Set(interfaces.map(\.name).filter { access("/sys/class/net/\($0)/bridge", F_OK) == 0 })
    }

    /// Returns what the firewall does with packets of peers; empty where there are no rules, nil where they cannot be read.
    package static func firewallVerdicts(port: UInt16) -> [FirewallVerdict]? {
        let interfaces = NetworkInterface.all()
        return switch readRules() {
        case .none: []
        case .notPermitted, .noTool, .unreadable: nil
        case .filter(let filter):
            FirewallVerdict.all(filter, interfaces: interfaces, bridges: bridges(among: interfaces), port: port)
        }
    }

    // MARK: Other processes on the port

    /// The name of the tool, whose nodes share the port as they are made to.
    private static let toolName = "nearshare"

    /// The names of other programs.
    private static func otherProcesses(onUDPPort port: UInt16) -> [String] {
        var inodes: Set<String> = []
        for table in ["udp", "udp6"] {
            inodes.formUnion(Self.inodes(in: text(of: "/proc/net/" + table) ?? "", boundTo: port))
        }
        inodes.subtract(socketInodes(ofProcess: "self"))
        var names: [String] = []
        for process in owners(of: &inodes) {
            let name = name(ofProcess: process)
            if name != toolName { names.append(name ?? "?") }
        }
        return names + inodes.map { _ in "?" }
    }

    /// Returns the id of the node of this tool that listens on a TCP port; nil where another program does, and where processes
    /// of other users hide their sockets.
    package static func nodeProcess(onTCPPort port: UInt16) -> Int32? {
        var inodes = ["tcp", "tcp6"].reduce(into: Set<String>()) { inodes, table in
            inodes.formUnion(Self.inodes(in: text(of: "/proc/net/" + table) ?? "", boundTo: port, isListening: true))
        }
        return owners(of: &inodes).first { name(ofProcess: $0) == toolName }.flatMap { Int32($0) }
    }

    /// Returns the processes that have sockets, which are removed from `inodes`.
    private static func owners(of inodes: inout Set<String>) -> [String] {
        guard !inodes.isEmpty else { return [] }
        var owners: [String] = []
        for process in entries(of: "/proc") where process.allSatisfy(\.isNumber) && !inodes.isEmpty {
            let found = inodes.intersection(socketInodes(ofProcess: process))
            guard !found.isEmpty else { continue }
            inodes.subtract(found)
            owners.append(process)
        }
        return owners
    }

    private static func name(ofProcess process: String) -> String? {
        text(of: "/proc/\(process)/comm")?.split(separator: "\n").first.map(String.init)
    }

    /// Returns the inodes of the sockets that are bound to `port`, from a table in the format of /proc/net/udp.
    /// - Parameter isListening: only TCP sockets that accept connections.
    static func inodes(in table: String, boundTo port: UInt16, isListening: Bool = false) -> Set<String> {
        let hex = String(port, radix: 16, uppercase: true)
        let suffix = ":" + String(repeating: "0", count: 4 - hex.count) + hex
        var inodes: Set<String> = []
        for line in table.split(separator: "\n").dropFirst() {
            let fields = line.split(separator: " ")
            guard fields.count > 9, fields[1].hasSuffix(suffix), !isListening || fields[3] == listeningState
            else { continue }
            inodes.insert(String(fields[9]))
        }
        return inodes
    }

    /// TCP_LISTEN of the kernel.
    private static let listeningState = "0A"

    /// - Parameter process: a process ID, or "self".
    private static func socketInodes(ofProcess process: String) -> Set<String> {
        let directory = "/proc/\(process)/fd"
        return Set(
            entries(of: directory).compactMap { entry in
                guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\(entry)"),
                    target.hasPrefix("socket:["), target.hasSuffix("]")
                else { return nil }
                return String(target.dropFirst(8).dropLast())
            })
    }

    private static func entries(of directory: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    }

    /// Reads up to ``maximumTextByteCount`` bytes, as files under /proc state no size.
    private static func text(of path: String) -> String? {
        guard let file = fopen(path, "re") else { return nil }
        defer { fclose(file) }
        return text(of: file)
    }

    private static func text(of file: UnsafeMutablePointer<FILE>) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16384)
        while bytes.count < maximumTextByteCount {
            let count = fread(&buffer, 1, buffer.count, file)
            guard count > 0 else { break }
            bytes += buffer.prefix(count)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Firewalls

    private static var isUFWEnabled: Bool {
        text(of: "/etc/ufw/ufw.conf")?.split(separator: "\n").contains { $0 == "ENABLED=yes" } ?? false
    }

    /// Reads the rules of nftables, and those of iptables where nft does not show them.
    private static func readRules() -> FirewallFacts.Rules {
        let nft = path(of: ["nft"])
        guard nft != nil || path(of: ["iptables-save"]) != nil else { return .noTool }
        guard geteuid() == 0 else { return .notPermitted }
        var filter = PacketFilter()
        var foreign: Set<String>?
        if let nft {
            guard let json = output(of: "\(nft) -j list ruleset"), let listing = output(of: "\(nft) -a list ruleset"),
                let rules = PacketFilter(nftables: json, listing: listing)
            else { return .unreadable }
            filter = rules
            foreign = PacketFilter.tablesOfIPTables(in: json)
        }
        for (tool, family) in [("iptables", PacketFilter.Family.ip), ("ip6tables", .ip6)] {
            let isIPv6 = family == .ip6
            // Matches of iptables' extensions are not shown by nft.
            if let save = path(of: ["\(tool)-nft-save", "\(tool)-save"]), let text = output(of: save), isNFTables(text) {
                let isShown: (String) -> Bool = { foreign?.contains("\(family.rawValue) \($0)") ?? true }
                filter.chains.removeAll { $0.id.family == family && isShown($0.id.table) }
                filter.add(iptables: text, isIPv6: isIPv6, where: isShown)
            }
            // The kernel's older interface has rules of its own.
            guard let names = text(of: "/proc/net/\(family.rawValue)_tables_names"), !names.isEmpty else { continue }
            guard let save = path(of: ["\(tool)-legacy-save", "\(tool)-save"]), let text = output(of: save), !isNFTables(text)
            else { return .unreadable }
            filter.add(iptables: text, isIPv6: isIPv6)
        }
        return filter.isEmpty ? .none : .filter(filter)
    }

    /// Whether iptables-save has printed rules that it keeps in nftables.
    private static func isNFTables(_ text: String) -> Bool { text.contains("nft-save") || text.contains("xtables-save") }

    /// Returns nil when the command fails, and when its output was cut off, which says nothing about what is missing.
    /// - Parameter command: constant, so that the shell parses no outside text, and with its path: the user may be root.
    static func output(of command: String) -> String? {
        let environment = "/usr/bin/env -i LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin"
        guard let pipe = popen("exec \(environment) timeout -s KILL 2 \(command) 2>/dev/null", "re") else { return nil }
        let text = text(of: pipe)
        guard pclose(pipe) == 0, text.utf8.count < maximumTextByteCount else { return nil }
        return text
    }

    private static func path(of tools: [String]) -> String? {
        let paths = tools.flatMap { tool in ["/usr/sbin", "/sbin", "/usr/bin"].map { "\($0)/\(tool)" } }
        return paths.first { access($0, X_OK) == 0 }
    }

    /// Sets with the networks of whole countries are large.
    private static let maximumTextByteCount = 16 << 20
}
