internal import NearshareBase

/// How far and how long a message goes. Its sender chooses, signs it with the message, and carriers keep to it; a carrier's own
/// profile may hold it back further.
package struct PropagationProfile: Sendable, Hashable {
    /// How often a message is forwarded at most, counted along its way.
    package let hopLimit: Int
    /// Seconds since its creation.
    package let timeToLive: Int
    /// For so many milliseconds it is offered to a peer at each encounter.
    package let sharingTime: Int
    /// How often one node forwards it at most.
    package let maximumPropagation: Int
    /// How many of those who already carried it are noted, so that it isn't offered to them again.
    package let tracklistLimit: Int

    /// Which value is not possible.
    package enum OutOfBounds: Error, Sendable, Hashable, CustomStringConvertible {
        /// The number of hops.
        case hopLimit(Int)
        /// Seconds.
        case timeToLive(Int)
        /// Milliseconds.
        case sharingTime(Int)
        /// The number of copies.
        case maximumPropagation(Int)
        /// The number of carriers.
        case tracklistLimit(Int)

        package var description: String {
            func text(_ what: String, _ value: Int, _ range: ClosedRange<Int>, _ unit: String = "") -> String {
                "\(what) of \(value)\(unit) is out of bounds; choose one from \(range.lowerBound) to \(range.upperBound)\(unit)"
            }
            return switch self {
            case .hopLimit(let value): text("a hop limit", value, Bounds.hopLimit)
            case .timeToLive(let value): text("a time to live", value, Bounds.timeToLive, " s")
            case .sharingTime(let value): text("a sharing time", value, Bounds.sharingTime, " ms")
            case .maximumPropagation(let value): text("a maximum propagation", value, Bounds.maximumPropagation)
            case .tracklistLimit(let value): text("a tracklist limit", value, Bounds.tracklistLimit)
            }
        }
    }

    /// What a profile may be, one's own or a stranger's.
    package enum Bounds {
        /// Hops.
        package static let hopLimit = 1...500
        /// Seconds.
        package static let timeToLive = 10...604_800
        /// Milliseconds.
        package static let sharingTime = 1_000...60_000
        /// Copies.
        package static let maximumPropagation = 1...1_000
        /// Carriers.
        package static let tracklistLimit = 0...50
    }

    /// - Throws: ``OutOfBounds`` for what lies outside ``Bounds``.
    package init(
        hopLimit: Int, timeToLive: Int, sharingTime: Int, maximumPropagation: Int, tracklistLimit: Int
    ) throws(OutOfBounds) {
        guard Bounds.hopLimit.contains(hopLimit) else { throw .hopLimit(hopLimit) }
        guard Bounds.timeToLive.contains(timeToLive) else { throw .timeToLive(timeToLive) }
        guard Bounds.sharingTime.contains(sharingTime) else { throw .sharingTime(sharingTime) }
        guard Bounds.maximumPropagation.contains(maximumPropagation) else { throw .maximumPropagation(maximumPropagation) }
        guard Bounds.tracklistLimit.contains(tracklistLimit) else { throw .tracklistLimit(tracklistLimit) }
        self.init(hopLimit, timeToLive, sharingTime, maximumPropagation, tracklistLimit)
    }

    private init(
        _ hopLimit: Int, _ timeToLive: Int, _ sharingTime: Int, _ maximumPropagation: Int, _ tracklistLimit: Int
    ) {
        self.hopLimit = hopLimit
        self.timeToLive = timeToLive
        self.sharingTime = sharingTime
        self.maximumPropagation = maximumPropagation
        self.tracklistLimit = tracklistLimit
    }

    /// For most places.
    package static let standard = Self(100, 86_400, 15_000, 200, 50)
    /// For crowds, where little is needed to reach everybody.
    package static let highDensity = Self(50, 3_600, 10_000, 50, 50)
    /// For few people far from each other, who meet seldom.
    package static let sparse = Self(100, 302_400, 10_000, 250, 50)
    /// For the greatest distance and the longest time.
    package static let longReach = Self(250, 604_800, 15_000, 1_000, 50)
    /// For those who are close by, now.
    package static let shortReach = Self(50, 1_800, 10_000, 50, 50)

    /// Those that have a name, as people write it.
    package static let named: [(name: String, profile: PropagationProfile)] = [
        ("standard", .standard), ("high-density", .highDensity), ("sparse", .sparse), ("long-reach", .longReach),
        ("short-reach", .shortReach),
    ]

    /// - Returns: nil for a name that none of ``named`` has.
    package init?(name: String) {
        guard let found = Self.named.first(where: { $0.name == name })?.profile else { return nil }
        self = found
    }

    /// Its name; nil for one that somebody has put together.
    package var name: String? { Self.named.first { $0.profile == self }?.name }

    static let encodedByteCount = 11

    func encode(to writer: inout ByteWriter) {
        writer.write(UInt16(hopLimit))
        writer.write(UInt32(timeToLive))
        writer.write(UInt16(sharingTime))
        writer.write(UInt16(maximumPropagation))
        writer.write(UInt8(tracklistLimit))
    }

    init(reading reader: inout ByteReader) throws(MalformedInput) {
        let hopLimit = Int(try reader.readInteger(UInt16.self))
        let timeToLive = Int(try reader.readInteger(UInt32.self))
        let sharingTime = Int(try reader.readInteger(UInt16.self))
        let maximumPropagation = Int(try reader.readInteger(UInt16.self))
        let tracklistLimit = Int(try reader.readInteger(UInt8.self))
        do {
            try self.init(
                hopLimit: hopLimit, timeToLive: timeToLive, sharingTime: sharingTime,
                maximumPropagation: maximumPropagation, tracklistLimit: tracklistLimit)
        } catch {
            // Signed, so it can't be set right; and no honest node has sent it.
            throw MalformedInput("carried message: \(error)")
        }
    }
}
