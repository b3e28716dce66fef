package import NearshareBase

/// An unchecked claim about a service, as received from the network.
package struct ServiceClaim: Sendable, Hashable {
    package var instance: [UInt8]
    /// A numeric address without zone.
    package var address: IPAddress
    package var port: UInt16
    package var txt: [[UInt8]]
    package var interfaceIndex: Int32
    package var interfaceName: String
    package var isOnLoopback: Bool
    /// The address family of the packet that carried the claim.
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
    /// Fits into one Ethernet frame with the rest of the packet (RFC 6763, section 6.2).
    package static let maximumTXTBytes = 1300

    /// - Returns: nil for port 0, an address that is not a host's, or an invalid instance name.
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

    /// The longest prefix of the strings within all three bounds. Empty strings are skipped: DNS writes a record without
    /// strings as one empty string (RFC 6763, section 6.1).
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
    /// Throws for an advertisement that cannot be published; C library and daemon report it less clearly.
    package func check() throws(DiscoveryError) {
        guard ServiceSighting.instance(Array(instance.utf8)) != nil else {
            throw DiscoveryError("cannot advertise: an instance name has 1 to 63 bytes and no NUL; choose a shorter name")
        }
        guard port != 0 else { throw DiscoveryError("cannot advertise port 0: start listening first") }
        try Self.check(txt: txt)
    }

    package static func check(txt: [[UInt8]]) throws(DiscoveryError) {
        guard ServiceSighting.bounded(txt) == txt else {
            throw DiscoveryError(
                "cannot advertise: at most 16 TXT strings of 1 to 255 bytes, 1300 bytes in all; say less about the service")
        }
    }
}

/// The sightings of one browser, merged from several sources and bounded by ``capacity``.
package struct SightingTable {
    /// Limit on sightings; the one that was not updated for the longest time is evicted.
    package static let capacity = 1024

    private struct Entry {
        var sighting: ServiceSighting
        var order: UInt64
        /// nil once the discovery engine has confirmed it: it then stays until the engine reports its removal.
        var deadline: MonotonicInstant?
    }

    private var entries: [ServiceSighting.Key: Entry] = [:]
    /// The number of the last update; orders entries by age.
    private var sequence: UInt64 = 0

    package init() {}

    package var count: Int { entries.count }

    /// Inserts or updates a sighting.
    /// - Parameter deadline: the time at which it is removed unless the engine confirms it; nil for a sighting of the engine's.
    package mutating func insert(_ sighting: ServiceSighting, until deadline: MonotonicInstant? = nil) -> [DiscoveryEvent] {
        sequence += 1
        if let known = entries[sighting.key] {
            // A quick query's answer that arrives after the engine's must not restore a deadline or an older TXT record.
            guard deadline == nil || known.deadline != nil else { return [] }
            entries[sighting.key] = Entry(sighting: sighting, order: sequence, deadline: deadline)
            return known.sighting == sighting ? [] : [.seen(sighting)]
        }
        var events: [DiscoveryEvent] = []
        if entries.count >= Self.capacity, let oldest = entries.min(by: { $0.value.order < $1.value.order })?.key {
            entries[oldest] = nil
            events.append(.gone(oldest))
        }
        entries[sighting.key] = Entry(sighting: sighting, order: sequence, deadline: deadline)
        events.append(.seen(sighting))
        return events
    }

    package mutating func remove(_ key: ServiceSighting.Key) -> [DiscoveryEvent] {
        entries.removeValue(forKey: key) == nil ? [] : [.gone(key)]
    }

    /// Marks all sightings as unconfirmed after the engine was restarted: each is removed at `deadline` unless confirmed.
    package mutating func markUnconfirmed(until deadline: MonotonicInstant) {
        for key in entries.keys { entries[key]?.deadline = deadline }
    }

    /// The time of the next ``expire(at:)``; nil while all sightings are confirmed.
    package var nextDeadline: MonotonicInstant? { entries.values.lazy.compactMap(\.deadline).min() }

    package mutating func expire(at now: MonotonicInstant) -> [DiscoveryEvent] {
        let late = entries.filter { $0.value.deadline.map { $0 <= now } ?? false }.keys
        return late.flatMap { remove($0) }
    }
}
