package import NearshareBase

/// What somebody on the network claims of a service, before anything of it has been checked.
package struct ServiceClaim: Sendable, Hashable {
    package var instance: [UInt8]
    /// A numeric address without zone.
    package var address: IPAddress
    package var port: UInt16
    package var txt: [[UInt8]]
    package var interfaceIndex: Int32
    package var interfaceName: String
    package var isOnLoopback: Bool
    /// The family of the packets that carried the claim.
    package var isIPv6: Bool
    package var isOwn: Bool

    package init(
        instance: [UInt8], address: IPAddress, port: UInt16, txt: [[UInt8]], interfaceIndex: Int32, interfaceName: String,
        isOnLoopback: Bool, isIPv6: Bool, isOwn: Bool
    ) {
        self.instance = instance
        self.address = address
        self.port = port
        self.txt = txt
        self.interfaceIndex = interfaceIndex
        self.interfaceName = interfaceName
        self.isOnLoopback = isOnLoopback
        self.isIPv6 = isIPv6
        self.isOwn = isOwn
    }
}

extension ServiceSighting {
    package static let maximumInstanceBytes = 63
    package static let maximumTXTStrings = 16
    package static let maximumTXTStringBytes = 255
    /// What one Ethernet frame can carry with room for the rest of the packet (RFC 6763, section 6.2).
    package static let maximumTXTBytes = 1300

    /// nil for a claim that nobody honest makes: a port of 0, an address that no one machine has, a name that is no name.
    package init?(_ claim: ServiceClaim) {
        guard let instance = Self.instance(claim.instance), claim.port != 0 else { return nil }
        guard claim.address.canBeReached(onLoopback: claim.isOnLoopback) else { return nil }
        let zone = claim.address.needsZone ? "%" + claim.interfaceName : ""
        self.init(
            key: Key(instance: instance, interfaceIndex: claim.interfaceIndex, isIPv6: claim.isIPv6),
            address: LinkAddress(host: claim.address.description + zone, port: claim.port),
            txt: Self.bounded(claim.txt), isOwn: claim.isOwn)
    }

    /// An instance name is one DNS label: 1 to 63 bytes, UTF-8 by RFC 6763, section 4.1.1. NUL would end it early in C.
    package static func instance(_ bytes: [UInt8]) -> String? {
        guard (1...maximumInstanceBytes).contains(bytes.count), !bytes.contains(0) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    /// The strings in front that are within all three bounds; the rest is dropped. Empty ones say nothing, and are how DNS
    /// writes a record without strings (RFC 6763, section 6.1).
    package static func bounded(_ strings: [[UInt8]]) -> [[UInt8]] {
        var kept: [[UInt8]] = []
        var total = 0
        for string in strings where !string.isEmpty {
            guard kept.count < maximumTXTStrings, string.count <= maximumTXTStringBytes else { break }
            total += string.count + 1
            guard total <= maximumTXTBytes else { break }
            kept.append(string)
        }
        return kept
    }
}

extension Advertisement {
    /// Says what keeps this from being published, before a C library or a daemon says it less clearly.
    package func check() throws(DiscoveryError) {
        guard ServiceSighting.instance(Array(instance.utf8)) != nil else {
            throw DiscoveryError("cannot advertise: an instance name has 1 to 63 bytes and no NUL; choose a shorter name")
        }
        guard port != 0 else { throw DiscoveryError("cannot advertise port 0: start to listen first") }
        try Self.check(txt: txt)
    }

    package static func check(txt: [[UInt8]]) throws(DiscoveryError) {
        guard ServiceSighting.bounded(txt) == txt else {
            throw DiscoveryError(
                "cannot advertise: at most 16 TXT strings of 1 to 255 bytes, 1300 bytes in all; say less about the service")
        }
    }
}

/// What one browser has seen: joins what several sources say of the same service, and never grows beyond its capacity.
package struct SightingTable {
    /// More services than any network that people share; past it the one not heard of for longest goes.
    package static let capacity = 1024

    private struct Entry {
        var sighting: ServiceSighting
        var order: UInt64
        /// nil once the engine itself has seen it: from then on it stays until the engine says that it is gone.
        var deadline: MonotonicInstant?
    }

    private var entries: [ServiceSighting.Key: Entry] = [:]
    private var clock: UInt64 = 0

    package init() {}

    package var count: Int { entries.count }

    /// - Parameter deadline: when it is gone unless the engine confirms it; nil for what comes from the engine.
    package mutating func see(_ sighting: ServiceSighting, until deadline: MonotonicInstant? = nil) -> [DiscoveryEvent] {
        clock += 1
        if let known = entries[sighting.key] {
            // A quick answer that comes after the engine's own must not put a deadline back on it, nor an older text.
            guard deadline == nil || known.deadline != nil else { return [] }
            entries[sighting.key] = Entry(sighting: sighting, order: clock, deadline: deadline)
            return known.sighting == sighting ? [] : [.seen(sighting)]
        }
        var events: [DiscoveryEvent] = []
        if entries.count >= Self.capacity, let oldest = entries.min(by: { $0.value.order < $1.value.order })?.key {
            entries[oldest] = nil
            events.append(.gone(oldest))
        }
        entries[sighting.key] = Entry(sighting: sighting, order: clock, deadline: deadline)
        events.append(.seen(sighting))
        return events
    }

    package mutating func lose(_ key: ServiceSighting.Key) -> [DiscoveryEvent] {
        entries.removeValue(forKey: key) == nil ? [] : [.gone(key)]
    }

    /// The engine has lost its view of the network: what it does not confirm by `deadline` is gone.
    package mutating func doubtAll(until deadline: MonotonicInstant) {
        for key in entries.keys { entries[key]?.deadline = deadline }
    }

    /// When ``expire(at:)`` has something to do; nil while the engine has confirmed all.
    package var nextDeadline: MonotonicInstant? { entries.values.lazy.compactMap(\.deadline).min() }

    package mutating func expire(at now: MonotonicInstant) -> [DiscoveryEvent] {
        let late = entries.filter { $0.value.deadline.map { $0 <= now } ?? false }.keys
        return late.flatMap { lose($0) }
    }
}
