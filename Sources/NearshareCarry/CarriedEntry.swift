internal import NearshareBase
internal import NearshareWire

/// What a carrier has in memory of a message that it keeps; the message itself is in the store.
struct CarriedEntry: Sendable {
    enum State: Sendable, Hashable {
        /// For somebody to come.
        case waiting
        /// Handed to a neighbour who is nearer to the receiver.
        case routed(to: CarriedAddress)
        /// Offered to everybody.
        case spreading
        /// For the receiver alone, who is in range; never carried.
        case direct(to: CarriedAddress)
        /// An acknowledgement of ours, kept in case that it is needed again.
        case resting
    }

    /// 16 bytes that are compared, or hashed.
    struct Lock: Sendable, Hashable {
        private let halves: (UInt64, UInt64)

        init?(_ bytes: [UInt8]?) {
            guard let bytes else { return nil }
            precondition(bytes.count == CarriedMessage.lockByteCount)
            halves = (
                bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }, bytes[8...].reduce(0) { $0 << 8 | UInt64($1) }
            )
        }

        static func == (left: Lock, right: Lock) -> Bool { left.halves == right.halves }

        func hash(into hasher: inout Hasher) {
            hasher.combine(halves.0)
            hasher.combine(halves.1)
        }
    }

    let sender: CarriedAddress
    let receiver: CarriedMessage.Receiver
    /// For an acknowledgement the one that its secret fits.
    let lock: Lock?
    /// The message that this acknowledges.
    let acknowledged: CarriedID?
    let created: WallTime
    let timeToLive: UInt32
    let sharingTime: UInt16
    let hopLimit: UInt16
    let maximumPropagation: UInt16
    let tracklistLimit: UInt8
    /// Of all of it, as it counts towards quotas.
    let byteCount: UInt16
    let fitsRadio: Bool
    /// nil: it is ours.
    let depositor: CarriedAddress?
    let hops: UInt16
    /// Us included.
    let carriers: [UInt32]
    var forwards: UInt16 = 0
    var state = State.waiting
    /// Somebody has taken it, if it is ours.
    var isSent = false

    init(_ kept: KeptMessage, mark: UInt32) {
        let message = kept.copy.message
        sender = message.sender
        receiver = message.receiver
        let acknowledgement =
            message.kind == .acknowledgement ? try? CarriedAcknowledgement(decoding: message.body) : nil
        lock = Lock(acknowledgement.map { CarriedAcknowledgement.lock(for: $0.secret) } ?? message.lock)
        acknowledged = acknowledgement?.id
        created = message.created
        timeToLive = UInt32(message.profile.timeToLive)
        sharingTime = UInt16(message.profile.sharingTime)
        hopLimit = UInt16(message.profile.hopLimit)
        maximumPropagation = UInt16(message.profile.maximumPropagation)
        tracklistLimit = UInt8(message.profile.tracklistLimit)
        byteCount = UInt16(message.body.count + 256)
        fitsRadio = message.body.count <= CarriedMessage.maximumRadioBodyByteCount
        depositor = kept.depositor
        hops = UInt16(clamping: kept.copy.hops)
        carriers = Array((kept.copy.carriers + [mark]).suffix(Int(tracklistLimit)))
        forwards = UInt16(clamping: kept.forwards)
    }

    var expiry: WallTime { WallTime(milliseconds: created.milliseconds + Int64(timeToLive) * 1_000) }

    /// The address to go to, where it has one.
    var destination: CarriedAddress? {
        if case .address(let address) = receiver { address } else { nil }
    }

    var isOwn: Bool { depositor == nil }

    var isSpreading: Bool { state == .spreading }

    var heapByteCount: Int { 32 + carriers.capacity * 4 }
}
