import CMalloc
import Glibc
import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting

// The forwarding rate of one mesh node on one core, and its memory: the median of the rounds each.

let rounds = 5
let wallClock = ContinuousClock()

/// The bytes that malloc has allocated.
func heapInUse() -> Int {
    let info = mallinfo2()
    return info.uordblks + info.hblkhd
}

extension String {
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

/// The peer at the other end of a link.
struct Neighbour {
    let identity: LocalIdentity

    init(_ random: inout SeededRandom) {
        identity = LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount))
    }

    func signed(_ packet: MeshPacket) throws -> [UInt8] {
        var packet = packet
        packet.signature = identity.signingKey.signature(for: try packet.signingPreimage())
        return try packet.encoded()
    }

    func announcement(at timestamp: UInt64, ttl: UInt8) throws -> [UInt8] {
        let payload = try MeshAnnouncement(
            nickname: "a sender", noiseKey: identity.agreementKey.publicKey.bytes,
            signingKey: identity.signingKey.publicKey.bytes
        ).encoded()
        return try signed(
            MeshPacket(type: .announce, ttl: ttl, timestamp: timestamp, sender: identity.peerID, payload: payload[...]))
    }
}

/// One router, its links, and a clock that the benchmark sets.
struct Subject {
    static let start: Int64 = 1_800_000_000_000
    var router: MeshRouter
    var nanoseconds: Int64 = 1_000_000_000
    let linkCount: Int
    var framesOut = 0

    /// - Parameters:
    ///   - links: with a neighbour behind each.
    ///   - far: peers that have been heard of besides.
    init(links: Int, far: Int, _ random: inout SeededRandom) throws {
        var settings = MeshRouter.Settings()
        // The benchmark measures the work, not the limits for each neighbour.
        (settings.framesPerSecond, settings.frameBurst) = (1e9, 1e9)
        (settings.bytesPerSecond, settings.byteBurst) = (1e12, 1e12)
        (settings.signaturesPerSecond, settings.signatureBurst) = (1e9, 1e9)
        (settings.newPeersPerSecond, settings.newPeerBurst) = (1e9, 1e9)
        (settings.messagesPerSecond, settings.messageBurst) = (1e9, 1e9)
        (settings.relayedFramesPerSecond, settings.relayedFrameBurst) = (1e9, 1e9)
        (settings.relayedBytesPerSecond, settings.relayedByteBurst) = (1e12, 1e12)
        (settings.publicTextBytesPerSecond, settings.publicTextBurst) = (1e12, 1e12)
        linkCount = links
        router = MeshRouter(
            identity: LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount)), name: try DisplayName("relay"),
            settings: settings, random: SeededRandom(seed: random.next()))
        for number in 0..<links {
            router.linkUp(Self.link(number), .stream, now: moment)
            receive(try Neighbour(&random).announcement(at: timestamp, ttl: 7)[...], from: number)
        }
        for _ in 0..<far { receive(try Neighbour(&random).announcement(at: timestamp, ttl: 5)[...], from: 0) }
        pass(.seconds(1))
    }

    static func link(_ number: Int) -> MeshLinkID { MeshLinkID(rawValue: UInt64(number)) }

    var moment: Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: nanoseconds),
            wall: WallTime(milliseconds: Self.start + nanoseconds / 1_000_000))
    }
    var timestamp: UInt64 { UInt64(moment.wall.milliseconds) }

    mutating func receive(_ frame: ArraySlice<UInt8>, from number: Int) {
        router.receive(frame, from: Self.link(number), now: moment)
    }

    /// Advances the clock, and takes the pending frames, as a node's threads do.
    mutating func pass(_ duration: Duration) {
        nanoseconds += duration.nanoseconds
        while let deadline = router.deadline, deadline.nanoseconds <= nanoseconds { router.advance(to: moment) }
        for number in 0..<linkCount {
            while router.dequeueFrame(for: Self.link(number)) != nil { framesOut += 1 }
        }
        _ = router.drainEvents()
    }
}

/// - Parameter frames: at a moment, so many packets to be passed on.
func relay(
    _ name: String, links: Int, far: Int, count: Int, _ frames: (inout SeededRandom, UInt64, Int) throws -> [[UInt8]]
) throws {
    var random = SeededRandom(seed: 1)
    var subject = try Subject(links: links, far: far, &random)
    var speeds: [Double] = []
    for _ in 0..<rounds {
        let packets = try frames(&random, subject.timestamp, count)
        subject.framesOut = 0
        let start = wallClock.now
        for (number, packet) in packets.enumerated() {
            subject.receive(packet[...], from: 0)
            // 2,000 in a second: those of one link that wait to be relayed are limited.
            if number % 50 == 49 { subject.pass(.milliseconds(25)) }
        }
        subject.pass(.milliseconds(300))
        speeds.append(Double(count) / ((wallClock.now - start) / .seconds(1)))
        guard subject.framesOut >= count * (links - 1) else {
            fatalError("only \(subject.framesOut) of \(count * (links - 1)) were passed on")
        }
    }
    show(name, "\(Int(median(speeds) / 1000))k packets/s")
}

/// A fragment of a file sent between two other peers: 500 bytes with its header.
func fragments(_ random: inout SeededRandom, _ timestamp: UInt64, _ count: Int) throws -> [[UInt8]] {
    let (sender, recipient) = (PeerID(bytes: random.bytes(8))!, PeerID(bytes: random.bytes(8))!)
    let id = random.next()
    return try (0..<count).map { index in
        var payload = ByteWriter()
        payload.write(id &+ UInt64(index / 1000))
        payload.write(UInt16(index % 1000))
        payload.write(UInt16(1000))
        payload.write(MeshPacketType.noiseEncrypted.rawValue)
        payload.write(random.bytes(457))
        return try MeshPacket(
            type: .fragment, timestamp: timestamp, sender: sender, recipient: recipient, payload: payload.bytes[...]
        ).encoded(compression: .none)
    }
}

/// Signed by a peer the node knows, so that it verifies each signature.
func texts(_ random: inout SeededRandom, _ timestamp: UInt64, _ count: Int) throws -> [[UInt8]] {
    let speaker = Neighbour(&random)
    let announcement = try speaker.announcement(at: timestamp, ttl: 5)
    return try [announcement]
        + (1..<count).map { number in
            let text = random.bytes(390).map { 32 + $0 % 95 }
            return try speaker.signed(
                MeshPacket(
                    type: .message, timestamp: timestamp + UInt64(number), sender: speaker.identity.peerID,
                    payload: text[...]))
        }
}

/// A file of 5 MiB from one node to another over one link: what the receiver holds at most, in bytes, between two frames and
/// at any moment.
func receiveLargest() throws -> (held: Int, peak: Int, size: Int) {
    var random = SeededRandom(seed: 2)
    var now = Moment(
        monotonic: MonotonicInstant(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: Subject.start))
    let link = Subject.link(0)
    var routers = try ["sender", "receiver"].map { name in
        MeshRouter(
            identity: LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount)), name: try DisplayName(name),
            random: SeededRandom(seed: random.next()))
    }
    let recipient = routers[1].id
    for index in routers.indices { routers[index].linkUp(link, .stream, now: now) }
    var (held, baseline, fragments) = (0, 0, 0)
    func step() -> Bool {
        var isWhole = false
        for (from, to) in [(0, 1), (1, 0)] {
            while let frame = routers[from].dequeueFrame(for: link) {
                if frame[1] == MeshPacketType.fragment.rawValue {
                    // The sender has cut the file by now, and holds all that it will.
                    if fragments == 0 {
                        baseline = heapInUse()
                        resetPeak()
                    }
                    fragments += 1
                }
                routers[to].receive(frame[...], from: link, now: now)
                if fragments > 0 { held = max(held, heapInUse() - baseline) }
                for event in routers[to].drainEvents() {
                    switch event {
                    case .fileOffered(let offer, let peer): routers[to].accept(MeshFileKey(offer.id, with: peer.id), now: now)
                    case .fileReceived: isWhole = true
                    default: continue
                    }
                }
            }
        }
        return isWhole
    }
    func pass() {
        now.monotonic = max(now.monotonic, routers.compactMap(\.deadline).min()!)
        now.wall = WallTime(milliseconds: Subject.start + now.monotonic.nanoseconds / 1_000_000)
        for index in routers.indices { routers[index].advance(to: now) }
    }
    while routers[0].peer(recipient) == nil {
        _ = step()
        pass()
    }
    let size = MeshFile.maximumContentByteCount
    _ = try routers[0].sendFile(
        MeshFile(name: "large", mediaType: "a/b", content: random.bytes(size)[...]), to: recipient, now: now)
    let resident = residentByteCount("VmRSS")
    while !step() { pass() }
    return (held, residentByteCount("VmHWM") - resident, size)
}

/// The CPU time of this process, as the kernel counts it.
func residentByteCount(_ field: String) -> Int {
    guard let file = fopen("/proc/self/status", "r") else { return 0 }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while fgets(&line, 256, file) != nil {
        let words = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).split {
            " \t".contains($0)
        }
        if words.first == "\(field):" { return (Int(words[1]) ?? 0) << 10 }
    }
    return 0
}

func resetPeak() {
    guard let file = fopen("/proc/self/clear_refs", "w") else { return }
    fputs("5", file)
    fclose(file)
}

func show(_ name: String, _ value: String) { print("\(name.padded(to: 60))\(value)") }

func inKiB(_ byteCount: Int) -> String { "\((byteCount + 512) >> 10) KiB" }

/// - Returns: memory of each of the subjects that `make` makes, in bytes.
func memory(of count: Int, _ make: (inout SeededRandom) throws -> Subject) rethrows -> Int {
    var random = SeededRandom(seed: 3)
    let before = heapInUse()
    let subjects = try (0..<count).map { _ in try make(&random) }
    return withExtendedLifetime(subjects) { (heapInUse() - before) / count }
}

// First, while nothing has been freed that could be used again unseen.
// Each block by itself, so that the kernel gets back what is freed, and its peak is that of what was in use.
mallopt(M_MMAP_THRESHOLD, 4096)
let largest = try receiveLargest()
mallopt(M_MMAP_THRESHOLD, 128 << 10)
print("What one node of the mesh holds")
show("with 2 neighbours", inKiB(try memory(of: 100) { try Subject(links: 2, far: 0, &$0) }))
show("with 2 neighbours, 1000 known", inKiB(try memory(of: 2) { try Subject(links: 2, far: 1000, &$0) }))
show(
    "the same after 200,000 fragments were passed on",
    inKiB(
        try memory(of: 1) { random in
            var subject = try Subject(links: 2, far: 1000, &random)
            for _ in 0..<200 {
                for frame in try fragments(&random, subject.timestamp, 1000) { subject.receive(frame[...], from: 0) }
                subject.pass(.milliseconds(50))
            }
            subject.pass(.milliseconds(300))
            return subject
        }))
show(
    "a file of 5 MiB that comes, between two frames",
    "\(inKiB(largest.held)), \(Double(largest.held * 100 / largest.size) / 100) of its size")
show(
    "the same, at any moment, sender included",
    "\(inKiB(largest.peak)), \(Double(largest.peak * 100 / largest.size) / 100) of its size")

print("What one node of the mesh passes on, one core")
try relay("fragments of 500 bytes, 2 neighbours", links: 2, far: 0, count: 50_000, fragments)
try relay("fragments of 500 bytes, 2 neighbours, 1000 known", links: 2, far: 1000, count: 50_000, fragments)
try relay("fragments of 500 bytes, 8 neighbours", links: 8, far: 0, count: 20_000, fragments)
try relay("signed texts of 500 bytes, checked, 2 neighbours", links: 2, far: 0, count: 5_000, texts)
