internal import NearshareBase

extension PacketFilter {
    /// Adds the tables in the output of iptables-save(8) or ip6tables-save(8). What is not understood becomes
    /// ``Condition/unknown``.
    /// - Parameter isIncluded: which tables to add, by name.
    mutating func add(iptables text: String, isIPv6: Bool, where isIncluded: (String) -> Bool = { _ in true }) {
        let family: Family = isIPv6 ? .ip6 : .ip
        var table = ""
        var indices: [String: Int] = [:]
        for line in text.split(separator: "\n") {
            if line.hasPrefix("*") {
                table = String(line.dropFirst())
                indices = [:]
            } else if !isIncluded(table) {
                continue
            } else if line.hasPrefix(":") {
                let words = line.dropFirst().split(separator: " ").map(String.init)
                guard words.count > 1 else { continue }
                indices[words[0]] = chains.count
                chains.append(
                    Chain(
                        id: ChainID(source: .iptables, family: family, table: table, name: words[0]),
                        base: Self.base(table, words[0], drops: words[1] == "DROP"),
                        dropsOutgoing: ["OUTPUT", "POSTROUTING"].contains(words[0]) ? words[1] == "DROP" : nil))
            } else if line.hasPrefix("-A ") {
                var parser = RuleParser(String(line))
                if let (chain, rule) = parser.rule(), let index = indices[chain] { chains[index].rules.append(rule) }
            }
        }
    }

    private static func base(_ table: String, _ chain: String, drops: Bool) -> BaseChain? {
        // NF_IP_PRI_… in linux/netfilter_ipv4.h.
        let priorities = ["raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50]
        let hooks: [String: Hook] = ["PREROUTING": .prerouting, "INPUT": .input]
        guard let priority = priorities[table], let hook = hooks[chain] else { return nil }
        return BaseChain(hook: hook, priority: table == "nat" && hook == .input ? 100 : priority, devices: nil, drops: drops)
    }
}

/// Parses one line of iptables-save: `-A CHAIN`, matches, `-j TARGET` and its options.
private struct RuleParser {
    typealias Condition = PacketFilter.Condition

    private let words: [String]
    private let text: String
    private var position = 0

    init(_ line: String) {
        words = Self.words(line)
        text = String(line.dropFirst(3))
    }

    /// Splits at spaces outside of quotation marks.
    private static func words(_ line: String) -> [String] {
        var words: [String] = []
        var word = ""
        var (isQuoted, isEscaped) = (false, false)
        for character in line {
            if isEscaped {
                word.append(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "\"" {
                isQuoted.toggle()
            } else if character == " ", !isQuoted {
                if !word.isEmpty { words.append(word) }
                word = ""
            } else {
                word.append(character)
            }
        }
        return word.isEmpty ? words : words + [word]
    }

    private mutating func next() -> String? {
        guard position < words.count else { return nil }
        defer { position += 1 }
        return words[position]
    }

    /// Returns the chain and the rule.
    mutating func rule() -> (String, PacketFilter.Rule)? {
        guard next() == "-A", let chain = next() else { return nil }
        var conditions: [Condition] = []
        var action = PacketFilter.Action.continue
        var isNegated = false
        while let word = next() {
            if word == "!" {
                isNegated = true
                continue
            }
            if word == "-j" || word == "-g" {
                let target = next() ?? ""
                action = word == "-g" ? .goto(target) : Self.action(target, words.dropFirst(position))
                // Options of the target follow.
                break
            }
            let condition = condition(word)
            conditions.append(isNegated ? .not(condition) : condition)
            isNegated = false
        }
        return (chain, PacketFilter.Rule(conditions: conditions, action: action, text: text))
    }

    private static func action(_ target: String, _ options: ArraySlice<String>) -> PacketFilter.Action {
        switch target {
        case "ACCEPT": .accept
        case "DROP", "REJECT": .drop
        case "RETURN": .return
        case "NOTRACK": .untrack
        case "CT": options.contains("--notrack") ? .untrack : .continue
        case "LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "TRACE", "AUDIT", "SET", "TTL", "HL", "TOS", "DSCP", "TCPMSS",
            "CHECKSUM", "CLASSIFY", "SECMARK", "CONNSECMARK", "TCPOPTSTRIP", "LED", "RATEEST":
            .continue
        case "NFQUEUE", "QUEUE", "DNAT", "REDIRECT", "TPROXY", "SYNPROXY", "NETMAP", "DNPT", "SNPT", "CLUSTERIP", "TARPIT",
            "DELUDE", "CHAOS", "STEAL", "TEE", "IDLETIMER", "HMARK", "NFLOW":
            .unknown
        default: .jump(target)
        }
    }

    private mutating func condition(_ option: String) -> Condition {
        switch option {
        // The options of the module say what it matches; those of an unknown module are unknown.
        case "-m": return next().map { Self.isModuleKnown($0) ? .constant(true) : .unknown } ?? .unknown
        case "-p":
            return next().map {
                $0 == "all" ? .constant(true) : .matches(.transport, .text(PacketFilter.transports[$0] ?? $0))
            } ?? .unknown
        case "-i", "-o":
            let field: PacketFilter.Field = option == "-i" ? .interface : .outgoingInterface
            return next().map { .matches(field, .text($0.hasSuffix("+") ? $0.dropLast() + "*" : $0)) } ?? .unknown
        // The first packet of a connection is no fragment.
        case "-f": return .constant(false)
        case "-s": return addresses(.source)
        case "-d": return addresses(.destination)
        case "--dst-range": return addressRange(.destination)
        case "--src-range": return addressRange(.source)
        case "--dport", "--dports": return ports([.destinationPort])
        case "--sport", "--sports": return ports([.sourcePort])
        case "--ports": return ports([.sourcePort, .destinationPort])
        case "--ctstate", "--state": return texts(.connectionState)
        case "--dst-type": return texts(.destinationType)
        case "--pkt-type": return next().map { .matches(.packetType, .text($0 == "unicast" ? "host" : $0)) } ?? .unknown
        case "--syn": return .matches(.transport, .text("tcp"))
        case "--tcp-flags": return flags()
        // A limit is assumed not to be reached.
        case "--limit", "--limit-burst", "--comment", "--connlimit-upto":
            position += 1
            return .constant(true)
        // Packets of peers have no routing header; ICMP is another transport.
        case "--icmp-type", "--icmpv6-type", "--rt-type", "--connlimit-above":
            position += 1
            return .constant(false)
        case "--connlimit-mask":
            position += 1
            return .constant(true)
        case "--connlimit-saddr", "--connlimit-daddr": return .constant(true)
        default:
            while position < words.count, !words[position].hasPrefix("-"), words[position] != "!" { position += 1 }
            return .unknown
        }
    }

    private static func isModuleKnown(_ name: String) -> Bool {
        [
            "tcp", "udp", "icmp", "icmp6", "conntrack", "state", "multiport", "comment", "limit", "addrtype", "pkttype",
            "iprange", "connlimit", "rt",
        ].contains(name)
    }

    private mutating func addresses(_ field: PacketFilter.Field) -> Condition {
        .any(
            list().map { text in
                let parts = text.pathComponents
                guard let first = parts.first, let address = IPAddress(text: first) else { return .unknown }
                guard parts.count > 1 else {
                    return .matches(field, .range(PacketFilter.range(of: address, prefixLength: 128)))
                }
                guard let length = Int(parts[1]) else { return .unknown }
                return .matches(field, .range(PacketFilter.range(of: address, prefixLength: length)))
            })
    }

    private mutating func addressRange(_ field: PacketFilter.Field) -> Condition {
        let bounds = (next() ?? "").split(separator: "-").compactMap { IPAddress(text: String($0)) }.map {
            PacketFilter.number(of: $0).value
        }
        guard bounds.count == 2, bounds[0] <= bounds[1] else { return .unknown }
        return .matches(field, .range(bounds[0]...bounds[1]))
    }

    private mutating func ports(_ fields: [PacketFilter.Field]) -> Condition {
        .any(
            list().flatMap { text in
                let parts = text.split(separator: ":", omittingEmptySubsequences: false)
                let low = parts.first.flatMap { $0.isEmpty ? 0 : UInt16($0) }
                let high = parts.last.flatMap { $0.isEmpty ? .max : UInt16($0) }
                return fields.map { field -> Condition in
                    guard let low, let high, low <= high else { return .unknown }
                    return .matches(field, .range(UInt128(low)...UInt128(high)))
                }
            })
    }

    private mutating func texts(_ field: PacketFilter.Field) -> Condition {
        .any(list().map { .matches(field, .text($0.lowercased())) })
    }

    private mutating func flags() -> Condition {
        let mask = Set(list().map { $0 == "ALL" ? "SYN" : $0 })
        let wanted = Set(list())
        let set: Set<String> = mask.contains("SYN") ? ["SYN"] : []
        return .constant(set == (wanted == ["NONE"] ? [] : wanted))
    }

    private mutating func list() -> [String] { (next() ?? "").split(separator: ",").map(String.init) }
}
