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
        let bus = try? SystemBus()
        func isOnBus(_ name: String) -> Bool { (try? bus?.hasOwner(name, timeout: .milliseconds(500))) ?? false }
        let firewall = FirewallFacts(
            rules: readRules(), isUFWEnabled: isUFWEnabled, isFirewalldOnBus: isOnBus("org.fedoraproject.FirewallD1"))
        return NetworkDiagnosis(
            of: Facts(
                interfaces: NetworkInterface.all(), engine: engine, responders: otherProcesses(onUDPPort: 5353),
                isDaemonOnBus: isOnBus(AvahiDaemonConnection.busName), firewall: firewall, port: port))
    }

    // MARK: Other processes on the port

    private static func otherProcesses(onUDPPort port: UInt16) -> [String] {
        var inodes: Set<String> = []
        for table in ["udp", "udp6"] {
            inodes.formUnion(Self.inodes(in: text(of: "/proc/net/" + table) ?? "", boundTo: port))
        }
        guard !inodes.isEmpty else { return [] }
        inodes.subtract(socketInodes(ofProcess: "self"))
        var names: [String] = []
        for process in entries(of: "/proc") where process.allSatisfy(\.isNumber) && !inodes.isEmpty {
            let found = inodes.intersection(socketInodes(ofProcess: process))
            guard !found.isEmpty else { continue }
            inodes.subtract(found)
            let name = text(of: "/proc/\(process)/comm")?.split(separator: "\n").first
            names.append(name.map(String.init) ?? "?")
        }
        return names + inodes.map { _ in "?" }
    }

    /// Returns the inodes of the sockets that are bound to `port`, from a table in the format of /proc/net/udp.
    static func inodes(in table: String, boundTo port: UInt16) -> Set<String> {
        let hex = String(port, radix: 16, uppercase: true)
        let suffix = ":" + String(repeating: "0", count: 4 - hex.count) + hex
        var inodes: Set<String> = []
        for line in table.split(separator: "\n").dropFirst() {
            let fields = line.split(separator: " ")
            guard fields.count > 9, fields[1].hasSuffix(suffix) else { continue }
            inodes.insert(String(fields[9]))
        }
        return inodes
    }

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

    private static func readRules() -> FirewallFacts.Rules {
        guard let nft = nftPaths.first(where: { access($0, X_OK) == 0 }) else { return .none }
        guard geteuid() == 0 else { return .unreadable }
        return rules(printedBy: "timeout -s KILL 2 \(nft) list ruleset")
    }

    /// - Parameter command: constant, so that the shell parses no outside text.
    static func rules(printedBy command: String) -> FirewallFacts.Rules {
        guard let pipe = popen("exec \(command) 2>/dev/null", "re") else { return .unreadable }
        let rules = text(of: pipe)
        // Output that was cut off says nothing about what is missing from it.
        guard pclose(pipe) == 0, rules.utf8.count < maximumTextByteCount else { return .unreadable }
        return rules.isEmpty ? .none : .text(rules)
    }

    private static let nftPaths = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"]
    private static let maximumTextByteCount = 1 << 20
}
