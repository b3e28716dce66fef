internal import NearshareBase

/// What a carrier has in memory of a message that it keeps; the message itself is in the store.
struct StoredBundleEntry: Sendable {
    enum State: Sendable, Hashable {
        /// For somebody to come.
        case waiting
        /// Handed to a neighbour who is nearer to the receiver.
        case routed(to: EndpointID)
        /// Offered to everybody.
        case spreading
        /// For the receiver alone, who is in range; never carried.
        case direct(to: EndpointID)
        /// An acknowledgement of ours, kept in case that it is needed again.
        case resting
    }

    /// 16 bytes that are compared, or hashed.
    struct Lock: Sendable, Hashable {
        private let halves: (UInt64, UInt64)

        init?(_ bytes: [UInt8]?) {
            guard let bytes else { return nil }
            precondition(bytes.count == Bundle.lockByteCount)
            halves = (
                bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }, bytes[8...].reduce(0) { $0 << 8 | UInt64($1) }
            )
        }

        private init(halves: (UInt64, UInt64)) {
            self.halves = halves
        }

        /// In the place of one that is not there.
        static let none = Lock(halves: (0, 0))

        static func == (left: Lock, right: Lock) -> Bool { left.halves == right.halves }

        func hash(into hasher: inout Hasher) {
            hasher.combine(halves.0)
            hasher.combine(halves.1)
        }
    }

    /// What never changes, apart from what does: entries stand in a table with many free places. Flags rather than optionals, each of
    /// which would take eight bytes more.
    private final class Facts: Sendable {
        let sender: EndpointID
        let destination: EndpointID
        let depositor: EndpointID
        let lock: Lock
        let acknowledged: BundleID
        let created: WallTime
        let timeToLive: UInt32
        let sharingTime: UInt16
        let hopLimit: UInt16
        let maximumPropagation: UInt16
        let byteCount: UInt16
        let hops: UInt16
        let fitsRadio: Bool
        let hasDestination: Bool
        let hasDepositor: Bool
        let hasLock: Bool
        let isAcknowledgement: Bool
        let carriers: [UInt32]

        init(_ kept: StoredBundle, mark: UInt32) {
            let message = kept.copy.message
            let acknowledgement =
                message.kind == .acknowledgement ? try? BundleAcknowledgement(decoding: message.body) : nil
            sender = message.sender
            if case .address(let address) = message.receiver {
                (destination, hasDestination) = (address, true)
            } else {
                (destination, hasDestination) = (sender, false)
            }
            (depositor, hasDepositor) = (kept.depositor ?? sender, kept.depositor != nil)
            let lock = Lock(acknowledgement.map { BundleAcknowledgement.lock(for: $0.secret) } ?? message.lock)
            (self.lock, hasLock) = (lock ?? Lock.none, lock != nil)
            (acknowledged, isAcknowledgement) = (acknowledgement?.id ?? kept.id, acknowledgement != nil)
            created = message.created
            timeToLive = UInt32(message.profile.timeToLive)
            sharingTime = UInt16(message.profile.sharingTime)
            hopLimit = UInt16(message.profile.hopLimit)
            maximumPropagation = UInt16(message.profile.maximumPropagation)
            byteCount = UInt16(message.body.count + 256)
            hops = UInt16(clamping: kept.copy.hops)
            fitsRadio = message.body.count <= Bundle.maximumRadioBodyByteCount
            carriers = Array((kept.copy.carriers + [mark]).suffix(message.profile.tracklistLimit))
        }
    }

    private let facts: Facts
    var forwards: UInt16
    /// Somebody has taken it, if it is ours.
    var isSent = false
    /// It went wrong once already.
    var isSecondTry = false
    var state = State.waiting

    init(_ kept: StoredBundle, mark: UInt32) {
        facts = Facts(kept, mark: mark)
        forwards = UInt16(clamping: kept.forwards)
    }

    var sender: EndpointID { facts.sender }
    /// For an acknowledgement the one that its secret fits.
    var lock: Lock? { facts.hasLock ? facts.lock : nil }
    /// The message that this acknowledges.
    var acknowledged: BundleID? { facts.isAcknowledgement ? facts.acknowledged : nil }
    var created: WallTime { facts.created }
    var timeToLive: UInt32 { facts.timeToLive }
    var sharingTime: UInt16 { facts.sharingTime }
    var hopLimit: UInt16 { facts.hopLimit }
    var maximumPropagation: UInt16 { facts.maximumPropagation }
    /// Of all of it, as it counts towards quotas.
    var byteCount: UInt16 { facts.byteCount }
    var hops: UInt16 { facts.hops }
    var fitsRadio: Bool { facts.fitsRadio }
    /// nil: it is ours.
    var depositor: EndpointID? { facts.hasDepositor ? facts.depositor : nil }
    /// Us included.
    var carriers: [UInt32] { facts.carriers }

    var expiry: WallTime { WallTime(milliseconds: created.milliseconds + Int64(timeToLive) * 1_000) }

    /// The address to go to, where it has one.
    var destination: EndpointID? { facts.hasDestination ? facts.destination : nil }

    var isOwn: Bool { !facts.hasDepositor }

    var isSpreading: Bool { state == .spreading }

    /// Of the facts and the list in them, with what the runtime and the allocator add.
    var heapByteCount: Int { 128 + 32 + carriers.count * 4 }
}
