package import NearshareBase

/// A message that others carry (`docs/PROTOCOL.md`, section 13). All of this is signed by its sender and never changes; what
/// changes from hop to hop is in ``BundleCopy``.
///
///     version u8 · flags u8 · hop limit u16 · time to live u32 · sharing time u16 · maximum propagation u16 ·
///     tracklist limit u8 · created u64 · sender's key 32 · [receiver 8] · [lock 16] · body length u16 · body
package struct Bundle: Sendable, Hashable {
    /// Whom it is for.
    package enum Receiver: Sendable, Hashable {
        /// All who are reached.
        case everybody
        /// Whoever has the key behind this address.
        case address(EndpointID)
        /// Eight random bytes in the place of an address: only who can open the body knows that it is theirs.
        case unnamed(EndpointID)
    }

    /// What the body is.
    package enum Kind: Sendable, Hashable {
        /// ``BundleContent``, for everybody to read.
        case clear
        /// ``BundleContent``, sealed for the receiver.
        case sealed
        /// ``BundleAcknowledgement``.
        case acknowledgement
    }

    /// Of the sender's signing key.
    package static let keyByteCount = 32
    /// Of what an acknowledgement opens.
    package static let lockByteCount = 16
    /// Of an Ed25519 signature.
    package static let signatureByteCount = 64
    /// The largest content, sealed and filled up.
    package static let maximumBodyByteCount = 2_400
    /// Bodies up to this size go over radio links too: content of 1,024 bytes, sealed and filled up.
    package static let maximumRadioBodyByteCount = 1_216

    /// What the body is.
    package var kind: Kind
    /// Whom it is for.
    package var receiver: Receiver
    /// How far it may go.
    package var profile: PropagationProfile
    /// By the sender's clock.
    package var created: WallTime
    /// The Ed25519 key that signs it: the sender's own, or one made for this message.
    package var senderKey: [UInt8]
    /// What an acknowledgement has to fit. Nil: none is asked for. ``lockByteCount`` bytes.
    package var lock: [UInt8]?
    /// At most ``maximumBodyByteCount`` bytes.
    package var body: [UInt8]

    /// Traps when a key, a lock or a body has another length than it may have.
    package init(
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
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
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
        let address = EndpointID(rawValue: try reader.readInteger())
        switch flags {
        case Flag.directed: return .address(address)
        case Flag.directed | Flag.unnamed: return .unnamed(address)
        default: throw MalformedInput("carried message: flags that don't go together")
        }
    }

    /// What the signature covers, behind its label.
    package var encoded: [UInt8] { encodedHead + withUnsafeBytes(of: UInt16(body.count).bigEndian) { Array($0) } + body }

    /// All but the body: what a sealed body is bound to, so that it can't be put under other limits.
    package var encodedHead: [UInt8] {
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
    package var expiry: WallTime { WallTime(milliseconds: created.milliseconds + Int64(profile.timeToLive) * 1_000) }

    /// Readable, for a neighbour alone: it goes inside a live session with that neighbour, and nowhere else (section 13, Modes).
    package var goesInSession: Bool { kind == .clear && lock != nil && profile.hopLimit == 1 }

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
package struct BundleCopy: Sendable, Hashable {
    /// How it is passed on.
    package enum Way: UInt8, Sendable {
        /// To one neighbour after the other, towards its receiver.
        case routed = 0
        /// To everybody.
        case spread = 1
    }

    /// Of a whole copy, hops and carriers included.
    package static let maximumByteCount = 2 + 1 + 1 + 4 * 50 + 128 + Bundle.maximumBodyByteCount + 64

    /// How often it has been forwarded before it came here.
    package var hops: Int
    /// How it goes on from here.
    package var way: Way
    /// Those who carried it last, each as a mark that means something only together with this message.
    package var carriers: [UInt32]
    /// What its sender signed.
    package var message: Bundle
    /// ``Bundle/signatureByteCount`` bytes.
    package var signature: [UInt8]

    /// - Parameter signature: of the message, ``Bundle/signatureByteCount`` bytes.
    package init(hops: Int, way: Way, carriers: [UInt32], message: Bundle, signature: [UInt8]) {
        precondition(signature.count == Bundle.signatureByteCount)
        self.hops = hops
        self.way = way
        self.carriers = carriers
        self.message = message
        self.signature = signature
    }

    /// - Throws: for anything but one whole copy, within its bounds (section 13, A copy).
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
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
        message = try Bundle(reading: &reader)
        signature = Array(try reader.readBytes(Bundle.signatureByteCount))
        try reader.finish()
    }

    /// As it goes over a link.
    package var encoded: [UInt8] {
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
package struct BundleAcknowledgement: Sendable, Hashable {
    /// Of what only its receiver can know.
    package static let secretByteCount = 16

    /// Which message has arrived.
    package var id: BundleID
    /// ``secretByteCount`` bytes that fit the message's lock.
    package var secret: [UInt8]

    /// - Parameter secret: ``secretByteCount`` bytes.
    package init(id: BundleID, secret: [UInt8]) {
        precondition(secret.count == Self.secretByteCount)
        self.id = id
        self.secret = secret
    }

    /// - Throws: for anything but one whole acknowledgement.
    package init(decoding body: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(body, of: "acknowledgement")
        id = BundleID(bytes: try reader.readBytes(BundleID.byteCount))!
        secret = Array(try reader.readBytes(Self.secretByteCount))
        try reader.finish()
    }

    /// As it goes over a link.
    package var encoded: [UInt8] { id.bytes + secret }
}
