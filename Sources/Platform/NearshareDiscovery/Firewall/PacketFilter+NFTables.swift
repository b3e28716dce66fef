internal import FoundationEssentials
internal import NearshareBase

extension PacketFilter {
    /// Decodes the output of `nft -j list ruleset` (libnftables-json(5)). What is not understood becomes
    /// ``Condition/unknown``.
    /// - Parameter listing: the output of `nft -a list ruleset`, for the texts of the rules.
    /// - Returns: nil when `json` has another form.
    init?(nftables json: String, listing: String = "") {
        guard let root = try? JSONDecoder().decode(StructuredValue.self, from: Data(json.utf8)),
            let objects = root["nftables"]?.elements
        else { return nil }
        let (texts, dormant) = Self.ruleTexts(in: listing)
        var sets: [String: [StructuredValue]] = [:]
        for case .object(let object) in objects {
            for kind in ["set", "map"] {
                guard let set = object[kind], let key = Self.setKey(of: set, set["name"]?.text) else { continue }
                sets[key] = set["elem"]?.elements ?? []
            }
        }
        var indices: [ChainID: Int] = [:]
        for object in objects {
            guard let chain = object["chain"], let id = Self.id(of: chain, chain["name"]?.text),
                !dormant.contains("\(id.family.rawValue) \(id.table)")
            else { continue }
            indices[id] = chains.count
            chains.append(Chain(id: id, base: Self.base(chain), dropsOutgoing: Self.dropsOutgoing(chain)))
        }
        for object in objects {
            guard let rule = object["rule"], let id = Self.id(of: rule, rule["chain"]?.text), let index = indices[id] else {
                continue
            }
            let handle = rule["handle"]?.integer ?? 0
            let text = texts["\(id.family.rawValue) \(id.table) \(handle)"] ?? "rule with handle \(handle)"
            let decoder = StatementDecoder(table: "\(id.family.rawValue) \(id.table)", sets: sets)
            chains[index].rules += decoder.rules(rule["expr"]?.elements ?? [], text: text)
        }
    }

    /// Returns the tables whose rules nft cannot show, as "ip filter": iptables has written them.
    static func tablesOfIPTables(in json: String) -> Set<String> {
        guard let root = try? JSONDecoder().decode(StructuredValue.self, from: Data(json.utf8)) else { return [] }
        return Set(
            (root["nftables"]?.elements ?? []).compactMap { object in
                guard let rule = object["rule"], rule["expr"]?.elements.contains(where: { $0["xt"] != nil }) == true,
                    let family = rule["family"]?.text, let table = rule["table"]?.text
                else { return nil }
                return "\(family) \(table)"
            })
    }

    private static func setKey(of object: StructuredValue, _ name: String?) -> String? {
        guard let family = object["family"]?.text, let name else { return nil }
        return object["table"]?.text.map { "\(family) \($0) \(name)" } ?? "\(family) \(name)"
    }

    private static func id(of object: StructuredValue, _ chain: String?) -> ChainID? {
        guard let family = object["family"]?.text.flatMap(Family.init), let table = object["table"]?.text, let chain else {
            return nil
        }
        return ChainID(source: .nftables, family: family, table: table, name: chain)
    }

    private static func base(_ chain: StructuredValue) -> BaseChain? {
        guard let hook = chain["hook"]?.text.flatMap(Hook.init), let priority = chain["prio"]?.integer else { return nil }
        return BaseChain(
            hook: hook, priority: Int(priority), devices: chain["dev"]?.elements.compactMap(\.text),
            drops: chain["policy"]?.text == "drop")
    }

    private static func dropsOutgoing(_ chain: StructuredValue) -> Bool? {
        guard let hook = chain["hook"]?.text, ["output", "postrouting", "egress"].contains(hook) else { return nil }
        return chain["policy"]?.text == "drop"
    }

    /// Returns the rules' texts by family, table and handle, and the dormant tables, whose flag is
    /// not in JSON.
    private static func ruleTexts(in listing: String) -> (texts: [String: String], dormant: Set<String>) {
        var table = ""
        var texts: [String: String] = [:]
        var dormant: Set<String> = []
        for line in listing.split(separator: "\n") {
            let flags = line.split { $0.isWhitespace || $0 == "," }
            if flags.first == "flags", flags.contains("dormant") { dormant.insert(table) }
            let parts = line.split(separator: " # handle ")
            guard parts.count > 1, let handle = parts.last, let first = parts.first else { continue }
            let words = first.split { $0 == " " || $0 == "\t" }
            if words.first == "table", words.count > 2 { table = "\(words[1]) \(words[2])" }
            if words.last != "{" { texts["\(table) \(handle)"] = words.joined(separator: " ") }
        }
        return (texts, dormant)
    }
}

/// Decodes the statements and expressions of a rule.
private struct StatementDecoder {
    typealias Condition = PacketFilter.Condition
    typealias Action = PacketFilter.Action

    /// Family and name.
    let table: String
    let sets: [String: [StructuredValue]]

    /// A rule with a verdict map becomes a rule for each of its elements.
    func rules(_ statements: [StructuredValue], text: String) -> [PacketFilter.Rule] {
        var conditions: [Condition] = []
        var rules: [PacketFilter.Rule] = []
        for case .object(let statement) in statements {
            guard let (name, body) = statement.first else { continue }
            if let action = verdict(name, body) {
                rules.append(PacketFilter.Rule(conditions: conditions, action: action, text: text))
            } else if name == "vmap" {
                let operand = body["key"].map(operand)
                for (key, action) in verdictMap(body["data"]) {
                    let condition = operand.map { $0.condition("==", key, self) } ?? .unknown
                    rules.append(PacketFilter.Rule(conditions: conditions + [condition], action: action, text: text))
                }
            } else {
                conditions.append(condition(name, body))
            }
        }
        return rules
    }

    private func verdict(_ name: String, _ body: StructuredValue) -> Action? {
        switch name {
        case "accept": .accept
        case "drop", "reject": .drop
        case "return": .return
        case "continue": .continue
        case "jump": body["target"]?.text.map { .jump($0) } ?? .unknown
        case "goto": body["target"]?.text.map { .goto($0) } ?? .unknown
        case "notrack": .untrack
        case "queue", "dnat", "redirect", "tproxy", "fwd", "synproxy": .unknown
        case "xt" where body["type"]?.text == "target": .unknown
        default: nil
        }
    }

    private func verdictMap(_ data: StructuredValue?) -> [(StructuredValue, Action)] {
        guard let data else { return [] }
        return elements(data).map { element in
            let pair = element.elements
            guard pair.count == 2, case .object(let verdict) = pair[1], let (name, body) = verdict.first else {
                return (.null, .unknown)
            }
            return (pair[0], self.verdict(name, body) ?? .unknown)
        }
    }

    private func condition(_ name: String, _ body: StructuredValue) -> Condition {
        switch name {
        case "match":
            guard let left = body["left"], let right = body["right"], let op = body["op"]?.text else { return .unknown }
            return operand(left).condition(op, right, self)
        // A limit is assumed not to be reached.
        case "limit", "ct count": return .constant(body["inv"] != .bool(true))
        case "set", "map": return body["stmt"] == nil ? .constant(true) : .unknown
        case "counter", "log", "mangle", "comment", "dup", "flow", "ct helper", "ct timeout", "ct expectation", "secmark",
            "reset", "last":
            return .constant(true)
        case "xt" where body["type"]?.text == "watcher": return .constant(true)
        default: return .unknown
        }
    }

    /// Returns the elements of a set: named, anonymous, or a single value.
    func elements(_ value: StructuredValue) -> [StructuredValue] {
        if let name = value.text, name.hasPrefix("@") {
            // A set that is not listed cannot be decided.
            return sets["\(table) \(name.dropFirst())"] ?? [.null]
        }
        return value["set"]?.elements ?? value.elements
    }

    func operand(_ expression: StructuredValue) -> Operand {
        if let parts = expression["concat"] { return .concatenation(parts.elements.map(operand)) }
        if let key = expression["meta"]?["key"]?.text {
            return switch key {
            case "iifname", "iif": .field(.interface)
            case "l4proto": .field(.transport)
            case "nfproto", "protocol": .field(.family)
            case "pkttype": .field(.packetType)
            default: .unknown
            }
        }
        if let payload = expression["payload"] {
            return self.payload(payload["protocol"]?.text ?? "", payload["field"]?.text ?? "")
        }
        if let key = expression["ct"]?["key"]?.text {
            return switch key {
            case "state": .field(.connectionState)
            // A new connection: no NAT status bit is set.
            case "status": .constant("")
            case "direction": .constant("original")
            default: .unknown
            }
        }
        if let fib = expression["fib"] {
            let flags = fib["flags"]?.elements.compactMap(\.text) ?? []
            if fib["result"]?.text == "type" { return flags.contains("daddr") ? .field(.destinationType) : .unknown }
            // A reverse path filter: the routes to neighbours lead through the interface on which they are.
            return flags.contains("saddr") ? .reversePath : .unknown
        }
        if let parts = expression["&"]?.elements, parts.count == 2, parts[0]["payload"]?["field"] == .string("flags"),
            parts[0]["payload"]?["protocol"] == .string("tcp"), let mask = Operand.flags(parts[1])
        {
            return .flags(mask: mask)
        }
        return .unknown
    }

    private func payload(_ name: String, _ field: String) -> Operand {
        switch (name, field) {
        case ("tcp", "dport"), ("udp", "dport"): .field(.destinationPort, if: .matches(.transport, .text(name)))
        case ("tcp", "sport"), ("udp", "sport"): .field(.sourcePort, if: .matches(.transport, .text(name)))
        case ("th", "dport"): .field(.destinationPort)
        case ("th", "sport"): .field(.sourcePort)
        case ("tcp", "flags"): .flags(mask: nil)
        case ("ip", "saddr"), ("ip6", "saddr"): .field(.source, if: .matches(.family, .text(name)))
        case ("ip", "daddr"), ("ip6", "daddr"): .field(.destination, if: .matches(.family, .text(name)))
        case ("ip", "protocol"), ("ip6", "nexthdr"): .field(.transport, if: .matches(.family, .text(name)))
        case ("tcp", _), ("udp", _): .unknown(if: .matches(.transport, .text(name)))
        case ("ip", _), ("ip6", _): .unknown(if: .matches(.family, .text(name)))
        case ("icmp", _), ("icmpv6", _), ("igmp", _), ("esp", _), ("ah", _), ("sctp", _), ("dccp", _), ("udplite", _),
            ("arp", _):
            .unknown(if: .constant(false))
        default: .unknown
        }
    }
}

/// The left side of a comparison.
private indirect enum Operand {
    typealias Condition = PacketFilter.Condition

    case field(PacketFilter.Field, if: Condition = .constant(true))
    case concatenation([Operand])
    /// TCP flags; the first packet of a connection has only SYN.
    case flags(mask: Set<String>?)
    case constant(String)
    case reversePath
    case unknown(if: Condition)

    static var unknown: Operand { .unknown(if: .constant(true)) }

    /// Returns nil for what are not flags.
    static func flags(_ value: StructuredValue) -> Set<String>? {
        switch value {
        case .string(let name): return [name]
        case .integer(0): return []
        case .array(let parts):
            return parts.reduce(into: []) { names, part in names?.formUnion(flags(part) ?? ["?"]) }
        case .object: return value["|"].flatMap(flags)
        default: return nil
        }
    }

    /// The condition under which a packet has the field.
    private var presence: Condition {
        switch self {
        case .field(_, let condition), .unknown(let condition): condition
        case .concatenation(let operands): .all(operands.map(\.presence))
        case .flags: .matches(.transport, .text("tcp"))
        case .constant, .reversePath: .constant(true)
        }
    }

    /// Returns the comparison with a value or a set. A packet without the field does not match, whatever the operator.
    func condition(_ op: String, _ right: StructuredValue, _ decoder: StatementDecoder) -> Condition {
        let isNegated = op == "!="
        func guarded(_ inner: Condition) -> Condition {
            .all([presence, isNegated ? .not(inner) : inner])
        }
        switch self {
        case .unknown: return .all([presence, .unknown])
        case .constant(let value):
            return guarded(.constant(decoder.elements(right).contains { $0.text == value }))
        case .reversePath:
            // Compared with whether there is a route, or with the name of its interface.
            guard case .bool(let exists) = right else { return right.text == "missing" ? .constant(isNegated) : .unknown }
            return guarded(.constant(exists))
        case .flags(let mask):
            guard let wanted = Self.flags(right) else { return .unknown }
            let hasFlag = mask.map { $0.contains("syn") } ?? true
            let flags: Set<String> = hasFlag ? ["syn"] : []
            switch op {
            case "==", "!=": return guarded(.constant(flags == wanted))
            case "in" where mask == nil: return guarded(.constant(!flags.isDisjoint(with: wanted)))
            case "!" where mask == nil: return guarded(.constant(flags.isDisjoint(with: wanted)))
            default: return .all([presence, .unknown])
            }
        case .concatenation(let operands):
            let options = decoder.elements(right).map { element -> Condition in
                let parts = Self.content(element)["concat"]?.elements ?? []
                guard parts.count == operands.count else { return .unknown }
                return .all(zip(operands, parts).map { $0.condition("==", $1, decoder) })
            }
            return guarded(.any(options))
        case .field(let field, _):
            if let range = Self.comparisonRange(op, right) { return .all([presence, .matches(field, range)]) }
            guard ["==", "!=", "in"].contains(op) else { return .all([presence, .unknown]) }
            let options = decoder.elements(right).map { element in
                Self.pattern(field, Self.content(element)).map { Condition.matches(field, $0) } ?? .unknown
            }
            return guarded(.any(options))
        }
    }

    /// Removes the timeouts and comments of an element.
    private static func content(_ element: StructuredValue) -> StructuredValue { element["elem"]?["val"] ?? element }

    private static func comparisonRange(_ op: String, _ right: StructuredValue) -> PacketFilter.Pattern? {
        guard let number = right.integer.flatMap(UInt128.init(exactly:)) else { return nil }
        return switch op {
        case "<" where number > 0: .range(0...number - 1)
        case "<=": .range(0...number)
        case ">" where number < .max: .range((number + 1)...(.max))
        case ">=": .range(number...(.max))
        default: nil
        }
    }

    private static func pattern(_ field: PacketFilter.Field, _ value: StructuredValue) -> PacketFilter.Pattern? {
        switch field {
        case .interface, .outgoingInterface, .connectionState, .destinationType: return value.text.map { .text($0) }
        case .packetType: return value.text.map { .text($0 == "unicast" ? "host" : $0) }
        case .family: return value.text.map { .text(families[$0] ?? $0) }
        case .transport:
            return (value.text ?? value.integer.map(String.init)).map { .text(PacketFilter.transports[$0] ?? $0) }
        case .sourcePort, .destinationPort:
            if let bounds = value["range"]?.elements, bounds.count == 2 { return range(port(bounds[0]), port(bounds[1])) }
            return range(port(value), port(value))
        case .source, .destination:
            if let bounds = value["range"]?.elements, bounds.count == 2 { return range(address(bounds[0]), address(bounds[1])) }
            if let prefix = value["prefix"] {
                guard let text = prefix["addr"]?.text, let address = IPAddress(text: text),
                    let length = prefix["len"]?.integer
                else { return nil }
                return .range(PacketFilter.range(of: address, prefixLength: Int(clamping: length)))
            }
            return range(address(value), address(value))
        }
    }

    private static func range(_ low: UInt128?, _ high: UInt128?) -> PacketFilter.Pattern? {
        guard let low, let high, low <= high else { return nil }
        return .range(low...high)
    }

    private static func port(_ value: StructuredValue) -> UInt128? {
        if value.text == "mdns" { return 5353 }
        return value.integer.flatMap(UInt128.init(exactly:))
    }

    private static func address(_ value: StructuredValue) -> UInt128? {
        value.text.flatMap { IPAddress(text: $0) }.map { PacketFilter.number(of: $0).value }
    }

    private static let families = ["ipv4": "ip", "ipv6": "ip6"]
}

extension PacketFilter {
    /// Transports by number, as the tools print them.
    static let transports = ["6": "tcp", "17": "udp"]
}

extension StructuredValue {
    fileprivate subscript(_ key: String) -> StructuredValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    /// The elements of a list; a single value is a list of one.
    fileprivate var elements: [StructuredValue] {
        if case .array(let elements) = self { elements } else { [self] }
    }

    fileprivate var text: String? { if case .string(let text) = self { text } else { nil } }
    fileprivate var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
}
