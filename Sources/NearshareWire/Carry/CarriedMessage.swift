public import NearshareBase

/// A message that others carry (`docs/PROTOCOL.md`, section 13). All of this is signed by its sender and never changes; what
/// changes from hop to hop is in ``CarriedCopy``.
///
///     version u8 · flags u8 · hop limit u16 · time to live u32 · sharing time u16 · maximum propagation u16 ·
///     tracklist limit u8 · created u64 · sender's key 32 · [receiver 8] · [lock 16] · body length u16 · body
public struct CarriedMessage: Sendable, Hashable {
    /// Whom it is for.
    public enum Receiver: Sendable, Hashable {
        /// All who are reached.
        case everybody
        /// Whoever has the key behind this address.
        case address(CarriedAddress)
        /// Eight random bytes in the place of an address: only who can open the body knows that it is theirs.
        case unnamed(CarriedAddress)
    }

    /// What the body is.
    public enum Kind: Sendable, Hashable {
        /// ``CarriedContent``, for everybody to read.
        case clear
        /// ``CarriedContent``, sealed for the receiver.
        case sealed
        /// ``CarriedAcknowledgement``.
        case acknowledgement
    }

    /// Of the sender's signing key.
    public static let keyByteCount = 32
    /// Of what an acknowledgement opens.
    public static let lockByteCount = 16
    /// Of an Ed25519 signature.
    public static let signatureByteCount = 64
    /// The largest content, sealed and filled up.
    public static let maximumBodyByteCount = 2_400
    /// Bodies up to this size go over radio links too: content of 1,024 bytes, sealed and filled up.
    public static let maximumRadioBodyByteCount = 1_216

    /// What the body is.
    public var kind: Kind
    /// Whom it is for.
    public var receiver: Receiver
    /// How far it may go.
    public var profile: PropagationProfile
    /// By the sender's clock.
    public var created: WallTime
    /// The Ed25519 key that signs it: the sender's own, or one made for this message.
    public var senderKey: [UInt8]
    /// What an acknowledgement has to fit. Nil: none is asked for. ``lockByteCount`` bytes.
    public var lock: [UInt8]?
    /// At most ``maximumBodyByteCount`` bytes.
    public var body: [UInt8]

    /// Traps when a key, a lock or a body has another length than it may have.
    public init(
        kind: Kind, receiver: Receiver, profile: PropagationProfile, created: WallTime, senderKey: [UInt8], lock: [UInt8]?,
        body: [UInt8]
    ) {
        precondition(senderKey.count == Self.keyByteCount && lock?.count ?? Self.lockByteCount == Self.lockByteCount)
        precondition(body.count <= Self.maximumBodyByteCount)
        self.kind = kind
        self.receiver = receiver
        self.profile = profile
        self.created = created
        self.senderKey = senderKey
        self.lock = lock
        self.body = body
    }

    /// - Throws: for anything but one whole message, within its bounds (section 13, A message).
    public init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "carried message")
        self = try Self(reading: &reader)
        try reader.finish()
    }

    init(reading reader: inout ByteReader) throws(MalformedInput) {
        guard try reader.readInteger(UInt8.self) == Self.version else {
            throw MalformedInput("carried message: an unknown version")
        }
        let flags: UInt8 = try reader.readInteger()
        profile = try PropagationProfile(reading: &reader)
        let created: UInt64 = try reader.readInteger()
        // Year 10889: sums with a time to live stay far from the end of the numbers.
        guard created < 1 << 48 else { throw MalformedInput("carried message: a time out of bounds") }
        self.created = WallTime(milliseconds: Int64(created))
        senderKey = Array(try reader.readBytes(Self.keyByteCount))
        switch (flags & Flag.kinds, flags & Flag.receivers) {
        case (0, let who): (kind, receiver) = (.clear, try Self.receiver(who, &reader))
        case (Flag.sealed, let who) where who != 0: (kind, receiver) = (.sealed, try Self.receiver(who, &reader))
        case (Flag.acknowledgement, Flag.directed):
            (kind, receiver) = (.acknowledgement, try Self.receiver(Flag.directed, &reader))
        default: throw MalformedInput("carried message: flags that don't go together")
        }
        lock = flags & Flag.lock == 0 ? nil : Array(try reader.readBytes(Self.lockByteCount))
        guard flags & ~(Flag.kinds | Flag.receivers | Flag.lock) == 0,
            lock == nil || (receiver != .everybody && kind != .acknowledgement)
        else { throw MalformedInput("carried message: flags that don't go together") }
        body = Array(try reader.readCounted(by: UInt16.self, upTo: Self.maximumBodyByteCount, field: "the body"))
    }

    private static func receiver(_ flags: UInt8, _ reader: inout ByteReader) throws(MalformedInput) -> Receiver {
        guard flags != 0 else { return .everybody }
        let address = CarriedAddress(rawValue: try reader.readInteger())
        switch flags {
        case Flag.directed: return .address(address)
        case Flag.directed | Flag.unnamed: return .unnamed(address)
        default: throw MalformedInput("carried message: flags that don't go together")
        }
    }

    /// What the signature covers, behind its label.
    public var encoded: [UInt8] { encodedHead + withUnsafeBytes(of: UInt16(body.count).bigEndian) { Array($0) } + body }

    /// All but the body: what a sealed body is bound to, so that it can't be put under other limits.
    public var encodedHead: [UInt8] {
        var flags: UInt8 =
            switch kind {
            case .clear: 0
            case .sealed: Flag.sealed
            case .acknowledgement: Flag.acknowledgement
            }
        switch receiver {
        case .everybody: break
        case .address: flags |= Flag.directed
        case .unnamed: flags |= Flag.directed | Flag.unnamed
        }
        if lock != nil { flags |= Flag.lock }
        var writer = ByteWriter(reserving: 80 + PropagationProfile.encodedByteCount)
        writer.write(Self.version)
        writer.write(flags)
        profile.encode(to: &writer)
        writer.write(UInt64(clamping: created.milliseconds))
        writer.write(senderKey)
        switch receiver {
        case .everybody: break
        case .address(let address), .unnamed(let address): writer.write(address.rawValue)
        }
        if let lock { writer.write(lock) }
        return writer.bytes
    }

    /// When it is of no use to anybody any more, by the sender's clock.
    public var expiry: WallTime { WallTime(milliseconds: created.milliseconds + Int64(profile.timeToLive) * 1_000) }

    /// Readable, for a neighbour alone: it goes inside a live session with that neighbour, and nowhere else (section 13, Modes).
    public var goesInSession: Bool { kind == .clear && lock != nil && profile.hopLimit == 1 }

    private static let version: UInt8 = 1

    private enum Flag {
        static let directed: UInt8 = 0x01
        static let unnamed: UInt8 = 0x02
        static let lock: UInt8 = 0x04
        static let sealed: UInt8 = 0x08
        static let acknowledgement: UInt8 = 0x10
        static let kinds = sealed | acknowledgement
        static let receivers = directed | unnamed
    }
}

/// A carried message on its way: with its signature, and with what each carrier changes, which nobody can vouch for.
///
///     hops u16 · way u8 · carrier count u8 · carriers u32 each · message · signature 64
public struct CarriedCopy: Sendable, Hashable {
    /// How it is passed on.
    public enum Way: UInt8, Sendable {
        /// To one neighbour after the other, towards its receiver.
        case routed = 0
        /// To everybody.
        case spread = 1
    }

    /// Of a whole copy, hops and carriers included.
    public static let maximumByteCount = 2 + 1 + 1 + 4 * 50 + 128 + CarriedMessage.maximumBodyByteCount + 64

    /// How often it has been forwarded before it came here.
    public var hops: Int
    /// How it goes on from here.
    public var way: Way
    /// Those who carried it last, each as a mark that means something only together with this message.
    public var carriers: [UInt32]
    /// What its sender signed.
    public var message: CarriedMessage
    /// ``CarriedMessage/signatureByteCount`` bytes.
    public var signature: [UInt8]

    /// - Parameter signature: of the message, ``CarriedMessage/signatureByteCount`` bytes.
    public init(hops: Int, way: Way, carriers: [UInt32], message: CarriedMessage, signature: [UInt8]) {
        precondition(signature.count == CarriedMessage.signatureByteCount)
        self.hops = hops
        self.way = way
        self.carriers = carriers
        self.message = message
        self.signature = signature
    }

    /// - Throws: for anything but one whole copy, within its bounds (section 13, A copy).
    public init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        guard bytes.count <= Self.maximumByteCount else { throw MalformedInput("carried message: too long") }
        var reader = ByteReader(bytes, of: "carried message")
        hops = Int(try reader.readInteger(UInt16.self))
        guard let way = Way(rawValue: try reader.readInteger()) else {
            throw MalformedInput("carried message: an unknown way")
        }
        self.way = way
        let count = Int(try reader.readInteger(UInt8.self))
        guard count <= PropagationProfile.Bounds.tracklistLimit.upperBound else {
            throw MalformedInput("carried message: a tracklist of more than 50 carriers")
        }
        carriers = []
        for _ in 0..<count { carriers.append(try reader.readInteger()) }
        message = try CarriedMessage(reading: &reader)
        signature = Array(try reader.readBytes(CarriedMessage.signatureByteCount))
        try reader.finish()
    }

    /// As it goes over a link.
    public var encoded: [UInt8] {
        var writer = ByteWriter(reserving: 200 + 4 * carriers.count + message.body.count)
        writer.write(UInt16(clamping: hops))
        writer.write(way.rawValue)
        writer.write(UInt8(carriers.count))
        for carrier in carriers { writer.write(carrier) }
        writer.write(message.encoded)
        writer.write(signature)
        return writer.bytes
    }
}

/// "It has come": the id of a message, and the secret that fits its lock. Whoever carries the message can check it.
public struct CarriedAcknowledgement: Sendable, Hashable {
    /// Of what only its receiver can know.
    public static let secretByteCount = 16

    /// Which message has arrived.
    public var id: CarriedID
    /// ``secretByteCount`` bytes that fit the message's lock.
    public var secret: [UInt8]

    /// - Parameter secret: ``secretByteCount`` bytes.
    public init(id: CarriedID, secret: [UInt8]) {
        precondition(secret.count == Self.secretByteCount)
        self.id = id
        self.secret = secret
    }

    /// - Throws: for anything but one whole acknowledgement.
    public init(decoding body: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(body, of: "acknowledgement")
        id = CarriedID(bytes: try reader.readBytes(CarriedID.byteCount))!
        secret = Array(try reader.readBytes(Self.secretByteCount))
        try reader.finish()
    }

    /// As it goes over a link.
    public var encoded: [UInt8] { id.bytes + secret }
}
