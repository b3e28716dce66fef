import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

/// Numbers of a peer at the edges of what they can be: whatever the phase, they are refused or bounded, and nothing traps.
@Suite struct WireNumberTests {
    static let extremes: [UInt64] = [0, 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, .max]
    static let edges = Set(extremes.flatMap { [$0 &- 1, $0, $0 &+ 1] }).sorted()

    private let id = Lone.id

    private enum Phase: CaseIterable {
        case greeting, open, invited, accepted, receiving, finishing, rejected, offered, locating, sending, sent, cancelling
    }

    private func lone(in phase: Phase) throws -> Lone {
        var lone = Lone(greeted: phase != .greeting)
        switch phase {
        case .greeting, .open: break
        case .invited, .accepted, .receiving, .finishing, .rejected:
            _ = lone.receive(.offer(Lone.offer()))
            if phase == .invited { break }
            if phase == .rejected {
                _ = lone.machine.decline(id, reason: .declined)
                break
            }
            _ = lone.machine.accept(id, now: lone.now)
            if phase == .accepted { break }
            _ = lone.machine.resume(id, at: .start, now: lone.now)
            if phase == .finishing { _ = lone.machine.beginFinishing(id, now: lone.now) }
        case .offered, .locating, .sending, .sent, .cancelling:
            _ = lone.machine.offer(Lone.offer(), now: lone.now)
            if phase == .offered { break }
            _ = lone.receive(.accept(id, window: 100))
            if phase == .locating { break }
            _ = lone.receive(.resume(id, .start))
            if phase == .sent { lone.machine.willSendLastBlock(id) }
            if phase == .cancelling { _ = lone.machine.cancel(id, reason: .cancelled, now: lone.now) }
        }
        return lone
    }

    /// All frames with numbers in them, as bytes: what a decoder refuses never gets further.
    private func frames(with number: UInt64) -> [[UInt8]] {
        let digest = [UInt8](repeating: 3, count: 32)
        let offer = Offer(
            items: [
                OfferedItem(
                    kind: .folder, name: Samples.name("d"), size: number, entryCount: max(1, number), mediaType: .folder)
            ],
            itemCount: 1, entryCount: max(1, number), totalSize: number)
        let point = ResumePoint(
            completeEntries: number, entriesDigest: number == 0 ? [] : digest, partialSize: number,
            partialDigest: number == 0 ? [] : digest)
        let other = TransferID(rawValue: number)
        let frames: [ControlFrame] = [
            .hello(
                name: DisplayName(truncating: "B")!, commitment: digest, time: WallTime(milliseconds: Int64(bitPattern: number))
            ),
            .ping(number), .pong(number), .accept(id, window: number), .credit(id, upTo: number), .resume(id, point),
            .offer(TransferOffer(id: other, timeout: .seconds(65_535), resumeKey: digest, context: [], offer: offer)),
            .accept(other, window: number), .cancel(other, .cancelled), .stored(other),
        ]
        return frames.map(\.encoded)
    }

    @Test("R7, Q1: every number of a control frame at its edges, in every phase, traps nothing and lets no bytes through")
    func controlFrames() throws {
        for phase in Phase.allCases {
            for number in Self.edges {
                for bytes in frames(with: number) {
                    guard let frame = try? ControlFrame.decode(bytes) else { continue }
                    var lone = try lone(in: phase)
                    _ = lone.receive(frame)
                    // The next calls meet the consequences.
                    _ = lone.machine.accept(TransferID(rawValue: number), now: lone.now)
                    _ = lone.machine.resume(TransferID(rawValue: number), at: .start, now: lone.now)
                    let verdict = lone.machine.receiveContent(id, byteCount: Int.max, now: lone.now).verdict
                    #expect(verdict == .drop, "\(phase) \(number) \(frame)")
                    _ = lone.machine.recordStored(id, upTo: number, now: lone.now)
                    lone.now = lone.machine.deadline ?? lone.now
                    _ = lone.machine.advance(to: lone.now)
                    _ = lone.machine.advance(to: MonotonicInstant(nanoseconds: .max))
                    #expect(lone.machine.isClosed)
                }
            }
        }
    }

    // MARK: Content

    private func start(_ complete: UInt64, _ bytes: UInt64, _ offset: UInt64) -> [UInt8] {
        [ContentStreamFormat.start] + complete.bigEndianBytes + bytes.bigEndianBytes + offset.bigEndianBytes
    }

    private func entry(size: UInt64?, _ name: String = "a", item: UInt32 = 0) -> [UInt8] {
        let header = EntryHeader(
            item: item, kind: .file, path: [Samples.name(name)], size: size, modified: nil, permissions: nil
        ).encoded
        return [ContentStreamFormat.entry] + UInt16(header.count).bigEndianBytes + header
    }

    /// - Returns: nil when it was refused.
    private func consume(_ bytes: [UInt8], _ offer: Offer, _ point: ResumePoint) -> IncomingContent? {
        struct Nowhere: ContentReceiver {
            mutating func start(completeEntries: UInt64, offset: UInt64) throws(Never) {}
            mutating func begin(_ header: EntryHeader, at offset: UInt64, digest: [UInt8]) throws(Never) {}
            mutating func keepPresent(_ header: EntryHeader, number: UInt64, digest: [UInt8]) throws(Never) {}
            mutating func content(_ bytes: UnsafeRawBufferPointer) throws(Never) {}
            mutating func withdraw(_ header: EntryHeader) throws(Never) {}
            mutating func endEntry() throws(Never) {}
        }
        var incoming = IncomingContent(offer: offer, resumePoint: point)
        var receiver = Nowhere()
        do {
            try bytes.withUnsafeBytes { try incoming.consume($0, into: &receiver) }
            return incoming
        } catch {
            return nil
        }
    }

    private var kept: ResumePoint {
        var point = ResumePoint(
            completeEntries: 1, entriesDigest: [UInt8](repeating: 1, count: 32), partialSize: 0, partialDigest: [])
        (point.completeByteCount, point.lastItem) = (3, 0)
        return point
    }

    /// Two files; the size of the second is known or not.
    private func offer(knowsSize: Bool) -> Offer {
        let items = [Samples.item(.file, "a", 3), Samples.item(.file, "b", knowsSize ? 5 : nil)]
        return Offer(items: items, itemCount: 2, entryCount: 2, totalSize: knowsSize ? 8 : nil)
    }

    @Test("Q1: a resumed stream counts from what was kept, not from what the sender says was kept", arguments: [true, false])
    func completeBytes(knowsSize: Bool) {
        let offer = offer(knowsSize: knowsSize)
        for number in Self.edges where number != 3 {
            let bytes = start(1, number, 0) + entry(size: knowsSize ? 5 : nil, "b", item: 1)
            let content: [UInt8] = knowsSize ? [1, 2, 3, 4, 5] : [0, 0, 0, 1, 9]
            #expect(consume(bytes + content, offer, kept) == nil, "\(number)")
            // Without anything kept, too.
            #expect(consume(start(0, number, 0), offer, .start) == nil || number == 0, "\(number)")
        }
        let honest = consume(start(1, 3, 0), offer, kept)
        #expect(honest?.contentByteCount == 3 && honest?.resumedByteCount == 3)
    }

    @Test("R7, Q1: no start, size, chunk or count at its edges makes the counts wrap")
    func contentNumbers() {
        for knowsSize in [true, false] {
            let offer = offer(knowsSize: knowsSize)
            for point in [.start, kept] {
                for number in Self.edges {
                    for begun in [
                        start(number, 3, 0), start(1, 3, number), start(number, number, number), start(0, 0, 0), start(1, 3, 0),
                    ] {
                        guard consume(begun, offer, point) != nil else { continue }
                        let chunk = UInt32(truncatingIfNeeded: number).bigEndianBytes
                        let next = point == .start ? ("a", UInt32(0)) : ("b", 1)
                        for more in [
                            entry(size: number, next.0, item: next.1) + [1, 2, 3, 4],
                            entry(size: nil, next.0, item: next.1) + chunk + [1, 2],
                            [ContentStreamFormat.end] + number.bigEndianBytes + [UInt8](repeating: 0, count: 32),
                        ] {
                            let content = consume(begun + more, offer, point)
                            #expect(content?.isComplete != true)
                            #expect(content?.contentByteCount ?? 0 <= (offer.totalSize ?? 7), "\(number)")
                        }
                    }
                }
            }
        }
    }

    @Test("Q1: after the journal's last item no earlier one follows")
    func itemsBeforeTheKeptOnes() {
        let count = UInt32(Offer.maximumDescribedItems) + 10
        let items = (0..<Offer.maximumDescribedItems).map { Samples.item(.file, "f\($0)", 1) }
        let offer = Offer(items: items, itemCount: count, entryCount: UInt64(count), totalSize: UInt64(count))
        var point = kept
        (point.completeEntries, point.completeByteCount, point.lastItem) = (135, 135, 134)
        #expect(consume(start(135, 135, 0) + entry(size: 1, "x", item: 130), offer, point) == nil)
        #expect(consume(start(135, 135, 0) + entry(size: 1, "x", item: 135), offer, point) != nil)
    }

    // MARK: Streams and messages

    @Test("R7, Q1: stream frames with numbers at their edges trap nothing", arguments: [HandshakeRole.initiator, .responder])
    func streams(role: HandshakeRole) throws {
        for number in Self.edges {
            for stream in [number, 1, 2].map({ UInt32(truncatingIfNeeded: $0) }) {
                var streams = ByteStreams(role: role)
                let own = try streams.open(.bytes, StreamName("x")!)
                _ = try streams.write([1, 2, 3], on: own)
                for type in FrameType.streamOpen...FrameType.streamReset {
                    for fields in [number.bigEndianBytes, [0, 0], [0], []] {
                        guard let frame = try? StreamFrame(decoding: ([type] + stream.bigEndianBytes + fields)[...]) else {
                            continue
                        }
                        try? streams.receive(frame)
                        while streams.nextFrame() != nil {}
                        for id in [own, StreamID(rawValue: stream)] {
                            _ = try? streams.read(id, upTo: 10)
                            _ = try? streams.write([1], on: id)
                        }
                    }
                }
            }
        }
    }

    @Test("R7, Q1: message frames with numbers at their edges trap nothing, before and after a restart of the peer")
    func messages() {
        for first in Self.edges {
            for second in Self.edges {
                var channel = MessageChannel(epoch: 5, stale: [SessionMessage(bytes: [1])])
                for _ in 0..<3 { channel.append(SessionMessage(bytes: [1])) }
                let links = [channel.attach(), channel.attach()]
                for id in links {
                    _ = channel.nextFrame(for: id)
                    for (epoch, known) in [(first, second), (7, 5), (first, 5)] {
                        _ = try? channel.receive(
                            [0] + epoch.bigEndianBytes + known.bigEndianBytes + second.bigEndianBytes, on: id)
                        _ = try? channel.receive([1] + first.bigEndianBytes + second.bigEndianBytes + [0, 1], on: id)
                        if let event = try? channel.receive([1] + [UInt8](repeating: 0, count: 16) + [0, 1], on: id),
                            case .message(let message) = event
                        {
                            channel.recordDelivery(of: message)
                        }
                        _ = try? channel.receive([2] + second.bigEndianBytes, on: id)
                        let ranges: [[UInt64]] = [[0, 1, first], [second, first, .max], [0, 1, 2, first, .max]]
                        for fields in ranges { _ = try? channel.receive([4] + fields.flatMap(\.bigEndianBytes), on: id) }
                        channel.acknowledgeNow()
                        while channel.nextFrame(for: id) != nil {}
                        _ = (channel.hasRoom, channel.isQuiet, channel.owesAcknowledgement)
                    }
                }
                channel.detach(links[0])
                while channel.nextFrame(for: links[1]) != nil {}
                let number = channel.append(SessionMessage(bytes: [2]))
                #expect(channel.isAcknowledged(number, of: 0) == false && !channel.isEmpty)
            }
        }
    }

    @Test("R7, S6: roster entries with numbers at their edges trap nothing, and remove nobody")
    func rosters() {
        let own = SessionMember(
            fingerprint: Fingerprint(bytes: [UInt8](repeating: 1, count: 32))!, name: DisplayName(truncating: "own")!)
        let other = Fingerprint(bytes: [UInt8](repeating: 2, count: 32))!
        for incarnation in Self.edges.map({ UInt32(truncatingIfNeeded: $0) }) {
            for revision in Self.edges.map({ UInt32(truncatingIfNeeded: $0) }) {
                var roster = SessionRoster(id: SessionID(bytes: [UInt8](repeating: 3, count: 16))!, own: own)
                let now = Lone.start
                for fingerprint in [own.fingerprint, other] {
                    for presence in [SessionMember.Presence.present, .gone] {
                        let claim = SessionMember(
                            fingerprint: fingerprint, name: DisplayName(truncating: "x")!, incarnation: incarnation,
                            presence: presence, revision: revision)
                        roster.receive([claim], from: claim.id, now: now)
                        roster.admit(SessionMember(fingerprint: other, name: DisplayName(truncating: "y")!), now: now)
                        roster.recordConnection(to: other.peerID, via: nil, now: now)
                        roster.receive([claim], from: claim.id, now: now)
                        roster.advance(to: now + .seconds(1))
                        roster.setAddresses([.init(host: "10.0.0.1", port: 1)])
                        roster.recordDisconnection(of: other.peerID, now: now)
                        _ = (roster.drainUpdates(for: roster.memberIDs, now: .init(nanoseconds: .max)), roster.drainChanges())
                    }
                }
                guard case .roster(_, let members) = roster.rosterFrame else { continue }
                #expect(members.contains { $0.id == own.id && $0.presence == .present }, "\(incarnation) \(revision)")
            }
        }
    }
}
