package import NearshareBase

/// A message that other nodes store and forward (`docs/PROTOCOL.md`, section 13). Its source signs all of it; what changes from
/// hop to hop is in ``BundleCopy``.
///
///     version u8 · flags u8 · hop limit u16 · time to live u32 · sharing time u16 · maximum propagation u16 ·
///     tracklist limit u8 · creation time u64 · sender's key 32 · [destination 8] · [hash lock 16] · body length u16 · body
package struct Bundle: Sendable, Hashable {
    package enum Destination: Sendable, Hashable {
        /// Every node that is reached.
        case everyone
        /// The node that owns the key behind this ID.
        case endpoint(EndpointID)
        /// Eight random bytes in the place of an ID: only the node that can open the body knows that it is the destination.
        case unnamed(EndpointID)
    }

    /// The kind of the body.
    package enum Kind: Sendable, Hashable {
        /// ``BundleContent`` that everyone can read.
        case clear
        /// ``BundleContent``, sealed for the destination.
        case sealed
        /// A ``BundleAcknowledgement``.
        case acknowledgement
    }

    /// Size of the sender's signing key, in bytes.
    package static let keyByteCount = 32
    /// Size of a hash lock, in bytes.
    package static let hashLockByteCount = 16
    /// Size of an Ed25519 signature, in bytes.
    package static let signatureByteCount = 64
    /// Limit of all fields before the body, its length included.
    static let maximumHeaderByteCount: Int =
        1 + 1 + PropagationProfile.encodedByteCount + 8 + keyByteCount + 8 + hashLockByteCount + 2
    /// Limit of a body: the largest content, sealed and padded.
    package static let maximumBodyByteCount = 2_400
    /// Limit of a body that is sent over radio links: content of 1,024 bytes, sealed and padded.
    package static let maximumRadioBodyByteCount = 1_216

    package var kind: Kind
    package var destination: Destination
    /// Limits on the distance and duration of forwarding.
    package var profile: PropagationProfile
    /// By the sender's clock.
    package var creationTime: WallTime
    /// The Ed25519 key that signs it: the sender's own, or one generated for this bundle.
    package var senderKey: [UInt8]
    /// Hash that the secret of an acknowledgement has to match, ``hashLockByteCount`` bytes; nil when none is requested.
    package var hashLock: [UInt8]?
    /// At most ``maximumBodyByteCount`` bytes.
    package var body: [UInt8]

    /// Traps when a key, a hash lock or a body does not have its size.
    package init(
        kind: Kind, destination: Destination, profile: PropagationProfile, creationTime: WallTime, senderKey: [UInt8],
        hashLock: [UInt8]?, body: [UInt8]
    ) {
        // Safe: this node makes bundles of its own sizes; received ones are decoded by the initializer below.
        precondition(senderKey.count == Self.keyByteCount)
        // Safe: this node makes bundles of its own sizes; received ones are decoded by the initializer below.
        precondition(hashLock?.count ?? Self.hashLockByteCount == Self.hashLockByteCount)
        // Safe: this node makes bundles of its own sizes; received ones are decoded by the initializer below.
        precondition(body.count <= Self.maximumBodyByteCount)
        self.kind = kind
        self.destination = destination
        self.profile = profile
        self.creationTime = creationTime
        self.senderKey = senderKey
        self.hashLock = hashLock
        self.body = body
    }

    /// - Throws: for anything but one whole bundle within its bounds (section 13, Bundle).
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "bundle")
        self = try Self(reading: &reader)
        try reader.finish()
    }

    init(reading reader: inout ByteReader) throws(MalformedInput) {
        guard try reader.readInteger(UInt8.self) == Self.version else {
            throw MalformedInput("bundle: an unknown version")
        }
        let flags: UInt8 = try reader.readInteger()
        profile = try PropagationProfile(reading: &reader)
        let created: UInt64 = try reader.readInteger()
        // Year 10889: sums with a time to live do not overflow.
        guard created < 1 << 48 else { throw MalformedInput("bundle: a creation time out of bounds") }
        creationTime = WallTime(milliseconds: Int64(created))
        senderKey = Array(try reader.readBytes(Self.keyByteCount))
        switch (flags & Flag.kinds, flags & Flag.destinations) {
        case (0, let flags): (kind, destination) = (.clear, try Self.readDestination(flags, &reader))
        case (Flag.sealed, let flags) where flags != 0:
            (kind, destination) = (.sealed, try Self.readDestination(flags, &reader))
        case (Flag.acknowledgement, Flag.directed):
            (kind, destination) = (.acknowledgement, try Self.readDestination(Flag.directed, &reader))
        default: throw MalformedInput("bundle: contradictory flags")
        }
        hashLock = flags & Flag.hashLock == 0 ? nil : Array(try reader.readBytes(Self.hashLockByteCount))
        guard flags & ~(Flag.kinds | Flag.destinations | Flag.hashLock) == 0,
            hashLock == nil || (destination != .everyone && kind != .acknowledgement)
        else { throw MalformedInput("bundle: contradictory flags") }
        body = Array(try reader.readCounted(by: UInt16.self, upTo: Self.maximumBodyByteCount, field: "the body"))
    }

    private static func readDestination(
        _ flags: UInt8, _ reader: inout ByteReader
    ) throws(MalformedInput) -> Destination {
        guard flags != 0 else { return .everyone }
        let id = EndpointID(rawValue: try reader.readInteger())
        switch flags {
        case Flag.directed: return .endpoint(id)
        case Flag.directed | Flag.unnamed: return .unnamed(id)
        default: throw MalformedInput("bundle: contradictory flags")
        }
    }

    /// The bytes that the signature covers, after its label.
    package var encoded: [UInt8] {
        encodedHeader + withUnsafeBytes(of: UInt16(clamping: body.count).bigEndian) { Array($0) } + body
    }

    /// Everything but the body. A sealed body is bound to it, and so cannot be moved under other limits.
    package var encodedHeader: [UInt8] {
        var flags: UInt8 =
            switch kind {
            case .clear: 0
            case .sealed: Flag.sealed
            case .acknowledgement: Flag.acknowledgement
            }
        switch destination {
        case .everyone: break
        case .endpoint: flags |= Flag.directed
        case .unnamed: flags |= Flag.directed | Flag.unnamed
        }
        if hashLock != nil { flags |= Flag.hashLock }
        var writer = ByteWriter(reserving: Self.maximumHeaderByteCount)
        writer.write(Self.version)
        writer.write(flags)
        profile.encode(to: &writer)
        writer.write(UInt64(clamping: creationTime.milliseconds))
        writer.write(senderKey)
        switch destination {
        case .everyone: break
        case .endpoint(let id), .unnamed(let id): writer.write(id.rawValue)
        }
        if let hashLock { writer.write(hashLock) }
        return writer.bytes
    }

    /// When its time to live ends, by the sender's clock.
    package var expiry: WallTime {
        WallTime(milliseconds: creationTime.milliseconds + Int64(profile.timeToLiveSeconds) * 1_000)
    }

    /// Whether the bundle is readable and for a neighbour alone, so that it travels only inside a session with that neighbour
    /// (section 13, Modes).
    package var requiresSession: Bool { kind == .clear && hashLock != nil && profile.hopLimit == 1 }

    /// Size that counts towards quotas: the body, and an estimate of the rest.
    var quotaByteCount: Int { body.count + Self.quotaOverhead }

    static let quotaOverhead = 256
    static let maximumQuotaByteCount = maximumBodyByteCount + quotaOverhead
    private static let version: UInt8 = 1

    private enum Flag {
        static let directed: UInt8 = 0x01
        static let unnamed: UInt8 = 0x02
        static let hashLock: UInt8 = 0x04
        static let sealed: UInt8 = 0x08
        static let acknowledgement: UInt8 = 0x10
        static let kinds = sealed | acknowledgement
        static let destinations = directed | unnamed
    }
}
