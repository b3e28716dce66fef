internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// A device that BlueZ has told of, and how far we are with it.
struct Neighbour {
    enum Phase {
        case idle
        case connecting(until: MonotonicInstant)
        case resolving(until: MonotonicInstant)
        case reading(until: MonotonicInstant)
        /// Connected, and known; without frames.
        case attached
        case acquiring(until: MonotonicInstant)
        case linked(CentralLink, since: MonotonicInstant)

        /// What it waits for should have come by then.
        var deadline: MonotonicInstant? {
            switch self {
            case .connecting(let until), .resolving(let until), .reading(let until), .acquiring(let until): until
            case .idle, .attached, .linked: nil
            }
        }

        var isConnecting: Bool { deadline != nil }

        var isIdle: Bool { if case .idle = self { true } else { false } }

        var isAttached: Bool { if case .attached = self { true } else { false } }
    }

    let path: String
    let address: BluetoothAddress
    /// When it was first heard, or connected to us.
    var since: MonotonicInstant
    var phase = Phase.idle
    var isHeard = false
    /// BlueZ did not know it before, and has not heard it either: if it connects now, it does so by itself.
    var isNew = false
    /// Has connected to us. Of others that are connected, and not by us, another program here may have the use.
    private(set) var isCaller = false
    /// In dBm, as it was heard last.
    var strength = Self.weakest
    var speaksMesh = false
    /// BlueChat's service.
    var chats = false
    var name: String?
    /// BlueZ has asked it for its services at some time, and believes that answer rather than what is advertised since.
    var isKnownByHeart = false
    /// Paired, or trusted by the person here: not ours to forget.
    var isBonded = false
    var isConnected = false
    var isResolved = false
    /// Connected by us, so that we may also end it.
    var isOurs = false
    var meshPath: String?
    var recordPath: String?
    var record: ServiceRecord?
    var acquired: AcquiredDescriptor?
    var failures = 0
    /// When to try next.
    var dueAt: MonotonicInstant

    /// The other one, whose turn it is to connect, has this long.
    static let courtesyTime = Duration.seconds(4)
    static let longestPause = Duration.seconds(60)
    /// Of what a radio hears at all; also where it is not known.
    static let weakest = -127
    /// Then it counts as out of range, though BlueZ may remember it for longer.
    static let givesUpAfter = 3

    init(path: String, address: BluetoothAddress, since: MonotonicInstant) {
        self.path = path
        self.address = address
        self.since = since
        dueAt = since
    }

    /// It may have taken up our service since BlueZ asked, as somebody does who has sent something and now receives.
    var isStale: Bool { isHeard && isKnownByHeart && !speaksMesh && !chats && !isConnected && !isBonded }

    var link: CentralLink? { if case .linked(let link, _) = phase { link } else { nil } }

    /// By somebody else than us.
    mutating func wasConnectedTo(at now: MonotonicInstant) {
        isCaller = isCaller || (isNew && now - since < Self.courtesyTime)
        isNew = false
        since = now
    }

    mutating func rest(at now: MonotonicInstant) {
        phase = .idle
        acquired = nil
        failures += 1
        let pause = min(.seconds(1 << min(failures - 1, 6)), Self.longestPause)
        // Neighbours that have lost each other at one time do not come back at one time.
        dueAt = now + pause + .milliseconds(Int(address.bytes[5] % 16) * 50)
    }

    /// What those who browse are told; nil as long as it is not known to take channels.
    var sighting: ServiceSighting? {
        guard let record, record.psm != 0 else { return nil }
        return ServiceSighting(
            key: ServiceSighting.Key(instance: "bluetooth \(address)", interfaceIndex: Self.interfaceIndex, isIPv6: false),
            address: address.linkAddress(port: record.psm), txt: record.txt, isOwn: false)
    }

    /// No network interface has it.
    private static let interfaceIndex: Int32 = -2
}

/// A descriptor that came over the bus and has not found its owner yet.
final class AcquiredDescriptor {
    private var descriptor: Int32?

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    func take() -> Int32? {
        defer { descriptor = nil }
        return descriptor
    }

    deinit {
        if let descriptor { Glibc.close(descriptor) }
    }
}
