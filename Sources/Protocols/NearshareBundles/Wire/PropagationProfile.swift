internal import NearshareBase

/// The limits on the distance and duration of a bundle's forwarding. The sender chooses them and signs them with the bundle,
/// and every node complies with them; a node's own profile may limit them further.
package struct PropagationProfile: Sendable, Hashable {
    /// Limit of hops along one path.
    package let hopLimit: Int
    /// Seconds from the creation time to the expiry.
    package let timeToLiveSeconds: Int
    /// Milliseconds for which it is offered to a neighbour at each encounter.
    package let sharingTimeMilliseconds: Int
    /// Limit of copies that one node forwards.
    package let maximumPropagation: Int
    /// Limit of the list of visited nodes, to which it is not offered again.
    package let tracklistLimit: Int

    /// The value that is out of bounds.
    package enum OutOfBounds: Error, Sendable, Hashable, CustomStringConvertible {
        /// The number of hops.
        case hopLimit(Int)
        /// Seconds.
        case timeToLive(Int)
        /// Milliseconds.
        case sharingTime(Int)
        /// The number of copies.
        case maximumPropagation(Int)
        /// The number of visited nodes.
        case tracklistLimit(Int)

        package var description: String {
            func text(_ name: String, _ value: Int, bounds range: ClosedRange<Int>, unit: String = "") -> String {
                "\(name) of \(value)\(unit) is out of bounds; choose one from \(range.lowerBound) to \(range.upperBound)\(unit)"
            }
            return switch self {
            case .hopLimit(let value): text("a hop limit", value, bounds: Bounds.hopLimit)
            case .timeToLive(let value): text("a time to live", value, bounds: Bounds.timeToLive, unit: " s")
            case .sharingTime(let value): text("a sharing time", value, bounds: Bounds.sharingTime, unit: " ms")
            case .maximumPropagation(let value): text("a maximum propagation", value, bounds: Bounds.maximumPropagation)
            case .tracklistLimit(let value): text("a tracklist limit", value, bounds: Bounds.tracklistLimit)
            }
        }
    }

    /// Bounds of every profile, this node's or another's.
    package enum Bounds {
        /// Hops.
        package static let hopLimit = 1...500
        /// Seconds.
        package static let timeToLive = 10...604_800
        /// Milliseconds.
        package static let sharingTime = 1_000...60_000
        /// Copies.
        package static let maximumPropagation = 1...1_000
        /// Visited nodes.
        package static let tracklistLimit = 0...50
    }

    /// - Throws: ``OutOfBounds`` for a value outside ``Bounds``.
    package init(
        hopLimit: Int, timeToLiveSeconds: Int, sharingTimeMilliseconds: Int, maximumPropagation: Int, tracklistLimit: Int
    ) throws(OutOfBounds) {
        guard Bounds.hopLimit.contains(hopLimit) else { throw .hopLimit(hopLimit) }
        guard Bounds.timeToLive.contains(timeToLiveSeconds) else { throw .timeToLive(timeToLiveSeconds) }
        guard Bounds.sharingTime.contains(sharingTimeMilliseconds) else { throw .sharingTime(sharingTimeMilliseconds) }
        guard Bounds.maximumPropagation.contains(maximumPropagation) else { throw .maximumPropagation(maximumPropagation) }
        guard Bounds.tracklistLimit.contains(tracklistLimit) else { throw .tracklistLimit(tracklistLimit) }
        self.init(
            checkedHopLimit: hopLimit, timeToLiveSeconds: timeToLiveSeconds, sharingTimeMilliseconds: sharingTimeMilliseconds,
            maximumPropagation: maximumPropagation,
            tracklistLimit: tracklistLimit)
    }

    private init(
        checkedHopLimit hopLimit: Int, timeToLiveSeconds: Int, sharingTimeMilliseconds: Int, maximumPropagation: Int,
        tracklistLimit: Int
    ) {
        self.hopLimit = hopLimit
        self.timeToLiveSeconds = timeToLiveSeconds
        self.sharingTimeMilliseconds = sharingTimeMilliseconds
        self.maximumPropagation = maximumPropagation
        self.tracklistLimit = tracklistLimit
    }

    /// For most situations.
    package static let standard = Self(
        checkedHopLimit: 100, timeToLiveSeconds: 86_400, sharingTimeMilliseconds: 15_000, maximumPropagation: 200,
        tracklistLimit: 50)
    /// For crowds, in which few copies reach everyone.
    package static let highDensity = Self(
        checkedHopLimit: 50, timeToLiveSeconds: 3_600, sharingTimeMilliseconds: 10_000, maximumPropagation: 50,
        tracklistLimit: 50)
    /// For few nodes that are seldom in range of each other.
    package static let sparse = Self(
        checkedHopLimit: 100, timeToLiveSeconds: 302_400, sharingTimeMilliseconds: 10_000, maximumPropagation: 250,
        tracklistLimit: 50)
    /// The longest paths and the longest time to live.
    package static let longReach = Self(
        checkedHopLimit: 250, timeToLiveSeconds: 604_800, sharingTimeMilliseconds: 15_000, maximumPropagation: 1_000,
        tracklistLimit: 50)
    /// For nodes nearby, for half an hour.
    package static let shortReach = Self(
        checkedHopLimit: 50, timeToLiveSeconds: 1_800, sharingTimeMilliseconds: 10_000, maximumPropagation: 50,
        tracklistLimit: 50)

    /// The name of ``standard``.
    package static let standardName = "standard"

    /// The named profiles, with their names on the command line.
    package static let named: [(name: String, profile: PropagationProfile)] = [
        (standardName, .standard), ("high-density", .highDensity), ("sparse", .sparse), ("long-reach", .longReach),
        ("short-reach", .shortReach),
    ]

    /// - Returns: nil for a name that none of ``named`` has.
    package init?(name: String) {
        guard let found = Self.named.first(where: { $0.name == name })?.profile else { return nil }
        self = found
    }

    /// The name of a predefined profile; nil for a custom one.
    package var name: String? { Self.named.first { $0.profile == self }?.name }

    /// The same profile with another time to live, within ``Bounds``.
    func limited(toSeconds seconds: Int) -> Self {
        let bounds = Bounds.timeToLive
        return Self(
            checkedHopLimit: hopLimit, timeToLiveSeconds: min(max(seconds, bounds.lowerBound), bounds.upperBound),
            sharingTimeMilliseconds: sharingTimeMilliseconds, maximumPropagation: maximumPropagation,
            tracklistLimit: tracklistLimit)
    }

    static let encodedByteCount = 11

    func encode(to writer: inout ByteWriter) {
        writer.write(UInt16(clamping: hopLimit))
        writer.write(UInt32(clamping: timeToLiveSeconds))
        writer.write(UInt16(clamping: sharingTimeMilliseconds))
        writer.write(UInt16(clamping: maximumPropagation))
        writer.write(UInt8(clamping: tracklistLimit))
    }

    init(reading reader: inout ByteReader) throws(MalformedInput) {
        let hopLimit = Int(try reader.readInteger(UInt16.self))
        let timeToLiveSeconds = Int(try reader.readInteger(UInt32.self))
        let sharingTimeMilliseconds = Int(try reader.readInteger(UInt16.self))
        let maximumPropagation = Int(try reader.readInteger(UInt16.self))
        let tracklistLimit = Int(try reader.readInteger(UInt8.self))
        do {
            try self.init(
                hopLimit: hopLimit, timeToLiveSeconds: timeToLiveSeconds, sharingTimeMilliseconds: sharingTimeMilliseconds,
                maximumPropagation: maximumPropagation, tracklistLimit: tracklistLimit)
        } catch {
            throw MalformedInput("bundle: \(error)")
        }
    }
}
