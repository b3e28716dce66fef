internal import NearshareBase

/// The rules of nftables and iptables that decide about incoming packets, as one model: base chains at the hooks that a packet
/// for this machine passes, in the order of their priorities. Chains for outgoing packets are not evaluated, only noticed.
package struct PacketFilter: Sendable, Hashable {
    enum Family: String, Sendable {
        case ip, ip6, inet, netdev, bridge
    }

    /// The hooks in the order in which a packet passes them.
    enum Hook: String, Sendable, CaseIterable {
        case ingress, prerouting, input
    }

    /// Where rules come from, which is where a command can change them.
    enum Source: Sendable {
        case nftables, iptables
    }

    struct ChainID: Sendable, Hashable, CustomStringConvertible {
        var source: Source
        var family: Family
        var table: String
        var name: String

        var description: String { "\(family.rawValue) \(table) \(name)" }
    }

    struct BaseChain: Sendable, Hashable {
        var hook: Hook
        var priority: Int
        /// nil for all interfaces.
        var devices: [String]?
        var drops: Bool
    }

    struct Chain: Sendable, Hashable {
        var id: ChainID
        /// nil for a chain that is only jumped to.
        var base: BaseChain?
        /// Whether the policy of a base chain for outgoing packets drops them; nil for other chains.
        var dropsOutgoing: Bool?
        var rules: [Rule] = []
    }

    struct Rule: Sendable, Hashable {
        var conditions: [Condition]
        var action: Action
        /// The rule as its tool prints it.
        var text: String
    }

    enum Action: Sendable, Hashable {
        case accept, drop
        /// Leaves the chain.
        case `return`
        case jump(String)
        case goto(String)
        /// Evaluation goes on with the next rule.
        case `continue`
        /// Ends connection tracking for the packet.
        case untrack
        /// May accept, drop or divert the packet.
        case unknown
    }

    /// A condition of a rule, in three-valued logic.
    indirect enum Condition: Sendable, Hashable {
        case matches(Field, Pattern)
        case constant(Bool)
        case unknown
        case not(Condition)
        case any([Condition])
        case all([Condition])
    }

    enum Field: Sendable, Hashable {
        case interface, outgoingInterface, family, transport, sourcePort, destinationPort, source, destination
        case connectionState, packetType, destinationType
    }

    enum Pattern: Sendable, Hashable {
        case range(ClosedRange<UInt128>)
        /// A trailing asterisk matches any characters.
        case text(String)
    }

    var chains: [Chain] = []

    package var isEmpty: Bool { chains.allSatisfy { $0.base == nil } && outgoingDrop == nil }

    /// The first policy or rule that drops some of what this machine sends, which may be none of nearshare's packets; nil for none.
    var outgoingDrop: String? {
        for chain in chains {
            guard let dropsAll = chain.dropsOutgoing else { continue }
            if dropsAll { return "\(chain.id): policy drop" }
            if let rule = firstDrop(from: chain) { return "\(chain.id): \(rule.text)" }
        }
        return nil
    }

    /// The first rule that drops packets, in a chain and those to which it leads.
    private func firstDrop(from start: Chain) -> Rule? {
        var waiting = [start]
        var seen: Set<ChainID> = [start.id]
        while let chain = waiting.popLast() {
            for rule in chain.rules where !rule.conditions.contains(where: \.concernsNoDiscovery) {
                switch rule.action {
                case .drop: return rule
                case .jump(let name), .goto(let name):
                    var id = chain.id
                    id.name = name
                    guard seen.insert(id).inserted, let target = chains.first(where: { $0.id == id }) else { continue }
                    waiting.append(target)
                case .accept, .return, .continue, .untrack, .unknown: break
                }
            }
        }
        return nil
    }
}

extension PacketFilter.Condition {
    /// Whether no packet meets it, or only one to addresses that discovery does not use: ufw and firewalld come with such rules for
    /// outgoing packets.
    fileprivate var concernsNoDiscovery: Bool {
        switch self {
        case .constant(let value): !value
        case .matches(.destination, .range(let range)): !Self.containsDiscoveryGroup(range)
        case .matches: false
        case .any(let all): !all.isEmpty && all.allSatisfy(\.concernsNoDiscovery)
        case .all(let all): all.contains(where: \.concernsNoDiscovery)
        case .not, .unknown: false
        }
    }

    /// Whether a range of addresses contains a multicast group of mDNS.
    private static func containsDiscoveryGroup(_ range: ClosedRange<UInt128>) -> Bool {
        let groups: [UInt128] = [0xe000_00fb, 0xff02 << 112 | 0xfb]
        // From 0 on it is ::/96, which has the numbers of IPv4 addresses.
        return range.lowerBound > 0 && groups.contains { range.contains($0) }
    }
}

// MARK: Evaluation

extension PacketFilter {
    /// An incoming packet as far as it is known: a range means any value in it.
    struct Packet: Sendable {
        enum Transport: String, Sendable {
            case udp, tcp
        }

        var interface: String
        /// Whether it arrives through a port of the bridge ``interface``.
        var isBridged = false
        var isIPv6: Bool
        var transport: Transport
        var destinationPort: UInt16
        var sourcePorts: ClosedRange<UInt16>
        var sources: ClosedRange<UInt128>
        var destination: UInt128
        var isMulticast: Bool
    }

    enum Verdict: Sendable, Hashable {
        case passes
        /// - Parameter chain: the base chain whose rules drop the packet.
        case dropped(by: String, chain: ChainID)
        /// The fate depends on a rule that this model cannot decide.
        case undecided(String)
    }

    /// Returns what happens to the first packet of a new connection, as long as no rate limit is reached.
    func verdict(for packet: Packet) -> Verdict {
        var evaluation = Evaluation(filter: self, packet: packet)
        var undecided: String?
        for hook in Hook.allCases {
            for chain in baseChains(at: hook, for: packet) {
                switch evaluation.verdict(of: chain) {
                case .passes: break
                case .undecided(let rule): undecided = undecided ?? rule
                case .dropped(let rule, let id): return .dropped(by: rule, chain: id)
                }
            }
        }
        return undecided.map { .undecided($0) } ?? .passes
    }

    private func baseChains(at hook: Hook, for packet: Packet) -> [Chain] {
        func isPassed(_ chain: Chain) -> Bool {
            guard let base = chain.base, base.hook == hook else { return false }
            if let devices = base.devices, !devices.contains(packet.interface) { return false }
            return switch chain.id.family {
            case .inet, .netdev: true
            case .ip: !packet.isIPv6
            case .ip6: packet.isIPv6
            case .bridge: packet.isBridged
            }
        }
        // A stable order: chains of one priority in the order in which they were registered.
        return chains.enumerated().filter { isPassed($0.element) }
            .sorted { ($0.element.base?.priority ?? 0, $0.offset) < ($1.element.base?.priority ?? 0, $1.offset) }
            .map(\.element)
    }

    /// The possible fates of the packet at the end of a chain.
    private struct Outcome {
        var mayPass = false
        /// The first rule that may drop the packet.
        var drop: String?
        /// Whether the next rule of the calling chain, or the policy, may follow.
        var mayContinue = false
        /// The first rule that could not be decided.
        var undecided: String?

        mutating func merge(_ other: Outcome) {
            mayPass = mayPass || other.mayPass
            drop = drop ?? other.drop
            undecided = undecided ?? other.undecided
        }
    }

    /// The walk of one packet through the chains.
    private struct Evaluation {
        private let chains: [ChainID: Chain]
        private let packet: Packet
        private var isTracked = true
        private var outcomes: [ChainID: Outcome] = [:]

        /// The kernel allows 16 nested jumps (NFT_JUMP_STACK_SIZE).
        private static let maximumDepth = 16

        init(filter: PacketFilter, packet: Packet) {
            chains = Dictionary(filter.chains.map { ($0.id, $0) }) { first, _ in first }
            self.packet = packet
        }

        mutating func verdict(of chain: Chain) -> Verdict {
            var outcome = run(chain, depth: 1)
            if outcome.mayContinue {
                if chain.base?.drops == true {
                    outcome.drop = outcome.drop ?? "\(chain.id): policy drop"
                } else {
                    outcome.mayPass = true
                }
            }
            switch (outcome.mayPass, outcome.drop) {
            case (_, nil): return .passes
            case (false, let rule?): return .dropped(by: rule, chain: chain.id)
            case (true, let rule?): return .undecided(outcome.undecided ?? rule)
            }
        }

        private mutating func run(_ chain: Chain, depth: Int) -> Outcome {
            var total = Outcome()
            for rule in chain.rules {
                let match = value(of: .all(rule.conditions), in: chain.id.family)
                guard match != false else { continue }
                let text = "\(chain.id): \(rule.text)"
                var branch = Outcome()
                switch rule.action {
                case .continue: continue
                case .untrack:
                    isTracked = false
                    continue
                case .accept: branch.mayPass = true
                case .drop: branch.drop = text
                case .return: total.mayContinue = true
                case .unknown: (branch.mayPass, branch.drop, branch.mayContinue, branch.undecided) = (true, text, true, text)
                case .jump(let name): branch = outcome(of: name, from: chain.id, depth: depth, text)
                case .goto(let name):
                    branch = outcome(of: name, from: chain.id, depth: depth, text)
                    if branch.mayContinue { total.mayContinue = true }
                    branch.mayContinue = false
                }
                total.merge(branch)
                if match == true, !branch.mayContinue { return total }
                if match == nil { total.undecided = total.undecided ?? text }
            }
            total.mayContinue = true
            return total
        }

        private mutating func outcome(of name: String, from caller: ChainID, depth: Int, _ text: String) -> Outcome {
            var id = caller
            id.name = name
            guard let chain = chains[id], depth < Self.maximumDepth else {
                return Outcome(mayPass: true, drop: text, mayContinue: true, undecided: text)
            }
            if let known = outcomes[id] { return known }
            let outcome = run(chain, depth: depth + 1)
            outcomes[id] = outcome
            return outcome
        }

        /// Returns nil when the condition cannot be decided.
        private func value(of condition: Condition, in family: Family) -> Bool? {
            switch condition {
            case .constant(let value): return value
            case .unknown: return nil
            case .not(let inner): return value(of: inner, in: family).map { !$0 }
            case .any(let inner):
                let values = inner.map { value(of: $0, in: family) }
                return values.contains(true) ? true : values.contains { $0 == nil } ? nil : false
            case .all(let inner):
                let values = inner.map { value(of: $0, in: family) }
                return values.contains(false) ? false : values.contains { $0 == nil } ? nil : true
            case .matches(let field, let pattern): return matches(field, pattern, in: family)
            }
        }

        private func matches(_ field: Field, _ pattern: Pattern, in family: Family) -> Bool? {
            switch field {
            // Rules of a bridge name its ports.
            case .interface: return family == .bridge ? nil : Self.matches(packet.interface, pattern)
            // An incoming packet has none.
            case .outgoingInterface: return false
            case .family: return Self.matches(packet.isIPv6 ? "ip6" : "ip", pattern)
            case .transport: return Self.matches(packet.transport.rawValue, pattern)
            case .connectionState: return isTracked ? Self.matches("new", pattern) : nil
            case .packetType: return Self.matches(packet.isMulticast ? "multicast" : "host", pattern)
            case .destinationType: return Self.matches(packet.isMulticast ? "multicast" : "local", pattern)
            case .sourcePort:
                return Self.matches(UInt128(packet.sourcePorts.lowerBound)...UInt128(packet.sourcePorts.upperBound), pattern)
            case .destinationPort:
                return Self.matches(UInt128(packet.destinationPort)...UInt128(packet.destinationPort), pattern)
            case .source: return Self.matches(packet.sources, pattern)
            case .destination: return Self.matches(packet.destination...packet.destination, pattern)
            }
        }

        private static func matches(_ text: String, _ pattern: Pattern) -> Bool? {
            guard case .text(let wanted) = pattern else { return nil }
            return wanted.hasSuffix("*") ? text.hasPrefix(wanted.dropLast()) : text == wanted
        }

        private static func matches(_ values: ClosedRange<UInt128>, _ pattern: Pattern) -> Bool? {
            guard case .range(let wanted) = pattern else { return nil }
            guard wanted.overlaps(values) else { return false }
            return wanted.lowerBound <= values.lowerBound && values.upperBound <= wanted.upperBound ? true : nil
        }
    }
}

// MARK: Addresses

extension PacketFilter {
    /// Returns the number of an address, and the number of its bits.
    static func number(of address: IPAddress) -> (value: UInt128, bitCount: Int) {
        (UInt128(truncatingBigEndian: address.bytes), address.bytes.count * 8)
    }

    /// Returns the addresses that share the first bits of an address.
    static func range(of address: IPAddress, prefixLength: Int) -> ClosedRange<UInt128> {
        let (value, bitCount) = number(of: address)
        let hostBitCount = bitCount - min(max(prefixLength, 0), bitCount)
        let hosts: UInt128 = hostBitCount >= UInt128.bitWidth ? .max : (1 << UInt128(hostBitCount)) &- 1
        return (value & ~hosts)...(value | hosts)
    }
}
