import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("agreeing on a hotspot for a transfer") struct HotspotNegotiationMachineTests {
    private static let id = TransferID(rawValue: 7)
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000)
    private static let network = HotspotNetwork(
        ssid: "nearshare-0a1b", passphrase: "abcd-efgh-jkmn", band: .ghz2Point4, accessPointAddress: .v4(0x0a01_0201),
        stationAddress: .v4(0x0a01_0202))!

    /// Both ends of a link.
    private struct Pair {
        var sender = HotspotNegotiationMachine()
        var receiver = HotspotNegotiationMachine()
        var now = HotspotNegotiationMachineTests.start

        /// Passes frames to the other end, and what that answers back, until none is left.
        /// - Returns: the events of both ends in their order.
        mutating func pass(
            _ reactions: [DirectReaction], fromSender: Bool
        ) throws -> (sender: [HotspotEvent], receiver: [HotspotEvent]) {
            var events: (sender: [HotspotEvent], receiver: [HotspotEvent]) = ([], [])
            for reaction in reactions {
                switch reaction {
                case .hotspot(let event): if fromSender { events.sender.append(event) } else { events.receiver.append(event) }
                case .send(let frame):
                    guard case .hotspot(let sent)? = try ControlFrame.decode(frame.encoded) else {
                        throw MalformedInput("another frame")
                    }
                    let answers =
                        fromSender
                        ? try receiver.receive(sent, isReceiving: { $0 == HotspotNegotiationMachineTests.id }, now: now)
                        : try sender.receive(sent, isReceiving: { _ in false }, now: now)
                    let later = try pass(answers, fromSender: !fromSender)
                    events.sender += later.sender
                    events.receiver += later.receiver
                default: throw MalformedInput("another reaction")
                }
            }
            return events
        }
    }

    private static func agreed(accessPoint: HotspotEnd) throws -> Pair {
        var pair = Pair()
        _ = try pair.pass(pair.sender.request(id, [.accessPoint, .station], now: start), fromSender: true)
        _ = try pair.pass(
            pair.receiver.agree(accessPoint: accessPoint, port: 4000, now: start), fromSender: false)
        return pair
    }

    @Test(arguments: [HotspotEnd.requester, .responder])
    func `either end is the access point and the other one joins the network`(accessPoint: HotspotEnd) throws {
        var pair = Pair()
        let asked = try pair.pass(pair.sender.request(Self.id, [.accessPoint, .station], now: Self.start), fromSender: true)
        #expect(asked.receiver == [.requested([.accessPoint, .station])] && asked.sender.isEmpty)
        #expect(try pair.pass(pair.receiver.reportAsking(), fromSender: false).sender == [.asking])
        #expect(!pair.sender.isHeld && !pair.receiver.isHeld)
        let agreed = try pair.pass(
            pair.receiver.agree(accessPoint: accessPoint, port: 4000, now: Self.start), fromSender: false)
        #expect(agreed.sender == [.agreed(isAccessPoint: accessPoint == .requester, port: 4000)])
        #expect(agreed.receiver == [.agreed(isAccessPoint: accessPoint == .responder, port: 4000)])
        #expect(pair.sender.isHeld && pair.receiver.isHeld)
        if accessPoint == .requester {
            let made = try pair.pass(pair.sender.announce(Self.network, now: Self.start), fromSender: true)
            #expect(made.receiver == [.network(Self.network)])
            #expect(try pair.pass(pair.receiver.confirmJoined(), fromSender: false).sender == [.joined])
        } else {
            let made = try pair.pass(pair.receiver.announce(Self.network, now: Self.start), fromSender: false)
            #expect(made.sender == [.network(Self.network)])
            #expect(try pair.pass(pair.sender.confirmJoined(), fromSender: true).receiver == [.joined])
        }
        #expect(pair.sender.deadline == nil && pair.receiver.deadline == nil && pair.sender.isHeld)
        let ended = try pair.pass(pair.sender.end(.done), fromSender: true)
        #expect(ended.sender == [.ended(.done)] && ended.receiver == [.ended(.done)])
        #expect(!pair.sender.isHeld && !pair.receiver.isHeld)
    }

    @Test("A15: a user is asked for a running transfer only, and once for each link") func once() throws {
        var pair = Pair()
        let other = try pair.pass(
            pair.sender.request(TransferID(rawValue: 8), .accessPoint, now: Self.start), fromSender: true)
        #expect(other.receiver.isEmpty && other.sender == [.ended(.busy)])
        #expect(throws: MalformedInput.self) {
            try pair.receiver.receive(.request(Self.id, .accessPoint), isReceiving: { _ in true }, now: Self.start)
        }
        #expect(pair.sender.request(Self.id, .accessPoint, now: Self.start).isEmpty)
    }

    @Test("A15: no network before an agreement, none twice, and no step out of order") func order() throws {
        let frames: [HotspotFrame] = [
            .asking, .agree(accessPoint: .requester, port: 1), .agree(accessPoint: .responder, port: 1), .network(Self.network),
            .joined,
            .request(Self.id, .accessPoint),
        ]
        func refuses(_ agreement: HotspotNegotiationMachine, _ frame: HotspotFrame) -> Bool {
            var agreement = agreement
            return (try? agreement.receive(frame, isReceiving: { $0 == Self.id }, now: Self.start)) == nil
        }
        let fresh = HotspotNegotiationMachine()
        #expect(frames.filter { !refuses(fresh, $0) } == [.request(Self.id, .accessPoint)])
        #expect(refuses(fresh, .end(.done)))
        var asking = Pair()
        _ = try asking.pass(asking.sender.request(Self.id, .accessPoint, now: Self.start), fromSender: true)
        // The user has not answered: nothing makes this end join.
        #expect(frames.allSatisfy { refuses(asking.receiver, $0) })
        #expect(
            frames.filter { refuses(asking.sender, $0) } == [.network(Self.network), .joined, .request(Self.id, .accessPoint)])
        for end in [HotspotEnd.requester, .responder] {
            let pair = try Self.agreed(accessPoint: end)
            let (accessPoint, station) = end == .requester ? (pair.sender, pair.receiver) : (pair.receiver, pair.sender)
            #expect(frames.allSatisfy { refuses(accessPoint, $0) })
            #expect(frames.filter { !refuses(station, $0) } == [.network(Self.network)])
            var joining = station
            _ = try joining.receive(.network(Self.network), isReceiving: { _ in false }, now: Self.start)
            #expect(frames.allSatisfy { refuses(joining, $0) })
        }
        // Race: whatever was sent before the end is known.
        var ended = try Self.agreed(accessPoint: .requester).sender
        _ = ended.end(.failed)
        for frame in frames.dropLast() {
            let reactions = try ended.receive(frame, isReceiving: { _ in true }, now: Self.start)
            #expect(reactions.isEmpty)
        }
    }

    @Test func `a peer that does not reply knows no hotspots, and each step has a deadline`() throws {
        var sender = HotspotNegotiationMachine()
        _ = sender.request(Self.id, .accessPoint, now: Self.start)
        let early = sender.advance(to: Self.start + .seconds(9))
        #expect(early.isEmpty)
        let late = sender.advance(to: Self.start + HotspotNegotiationMachine.replyTimeout)
        #expect(late == [.send(.hotspot(.end(.timedOut))), .hotspot(.ended(.unsupported))])
        var pair = Pair()
        _ = try pair.pass(pair.sender.request(Self.id, .accessPoint, now: Self.start), fromSender: true)
        _ = try pair.pass(pair.receiver.reportAsking(), fromSender: false)
        // The end that asks its user is the one that says so.
        let (asking, waiting) = (try #require(pair.receiver.deadline), try #require(pair.sender.deadline))
        #expect(asking < waiting)
        let unanswered = try pair.pass(pair.receiver.advance(to: asking), fromSender: false)
        #expect(unanswered.sender == [.ended(.timedOut)] && unanswered.receiver == [.ended(.timedOut)])
        for end in [HotspotEnd.requester, .responder] {
            let pair = try Self.agreed(accessPoint: end)
            for var end in [pair.sender, pair.receiver] {
                let deadline = try #require(end.deadline)
                let reactions = end.advance(to: deadline)
                #expect(reactions.last == .hotspot(.ended(.timedOut)) && end.deadline == nil)
            }
        }
    }

    @Test func `the end of the link ends it once`() throws {
        var pair = try Self.agreed(accessPoint: .requester)
        let ends = pair.sender.endWithLink() + pair.sender.endWithLink() + pair.sender.end(.done)
        #expect(ends == [.hotspot(.ended(.linkLost))])
    }

    @Test("N18: names, passphrases and addresses of a network that break the rules are rejected") func values() {
        func network(
            _ name: String = "nearshare-a", _ passphrase: String = "12345678", _ accessPoint: UInt32 = 0x0a01_0201,
            _ station: UInt32 = 0x0a01_0202
        ) -> HotspotNetwork? {
            HotspotNetwork(
                ssid: name, passphrase: passphrase, band: nil, accessPointAddress: .v4(accessPoint),
                stationAddress: .v4(station))
        }
        #expect(network() != nil)
        #expect(network("nearshare-" + String(repeating: "a", count: 22), String(repeating: "~", count: 63)) != nil)
        for name in ["", "Office", "nearshare-", "nearshare-\n", "nearshare-A", "nearshare-é", "xnearshare-a"]
            + ["nearshare-" + String(repeating: "a", count: 23)]
        {
            #expect(network(name) == nil, "\(name)")
        }
        for passphrase in ["", "1234567", String(repeating: "a", count: 64), "1234567\n", "1234567é", "\u{1b}2345678"] {
            #expect(network("nearshare-a", passphrase) == nil)
        }
        // In one network of 24 bits, two hosts of a private range.
        for (accessPoint, station) in [
            (0x0a01_0201, 0x0a01_0201), (0x0a01_0201, 0x0a01_0302), (0x0a01_0200, 0x0a01_0202), (0x0a01_0201, 0x0a01_02ff),
            (0x0808_0801, 0x0808_0802), (0x7f00_0001, 0x7f00_0002), (0xa9fe_0101, 0xa9fe_0102), (0xac20_0001, 0xac20_0002),
            (0xe000_0001, 0xe000_0002), (0x0000_0001, 0x0000_0002),
        ] as [(UInt32, UInt32)] {
            #expect(network("nearshare-a", "12345678", accessPoint, station) == nil)
        }
        #expect(network("nearshare-a", "12345678", 0xac1f_0001, 0xac1f_00fe) != nil)
        #expect(network("nearshare-a", "12345678", 0xc0a8_0101, 0xc0a8_0102) != nil)
    }

    @Test("N18: frames with other sizes and values are malformed") func frames() throws {
        let good = ControlFrame.hotspot(.network(Self.network)).encoded
        #expect(try ControlFrame.decode(good) == .hotspot(.network(Self.network)))
        for end in 0..<good.count { #expect(throws: MalformedInput.self) { try ControlFrame.decode(Array(good[..<end])) } }
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(good + [0]) }
        for bytes: [UInt8] in [[0x52, 2, 1, 1], [0x52, 1, 0, 0], [0x50, 0], [0x51, 0], [0x54, 0], [0x55]] {
            #expect(throws: MalformedInput.self) { try ControlFrame.decode(bytes) }
        }
        // Reasons of later versions, and the one that is never sent.
        for reason: UInt8 in [6, 77, 254, 255] {
            #expect(try ControlFrame.decode([0x55, reason]) == .hotspot(.end(.unavailable)))
        }
    }

    @Test("N18: the chosen addresses overlap with no local network") func addresses() throws {
        var random = SeededRandom(seed: 1)
        for _ in 0..<100 {
            let bytes = (0..<HotspotNetwork.randomByteCount).map { _ in UInt8.random(in: 0...255, using: &random) }
            let office = [IPSubnet(.v4(0x0a00_0005), prefixLength: 8), IPSubnet(.v4(0xac10_0101), prefixLength: 16)]
            let (accessPoint, station) = try #require(HotspotNetwork.addresses(random: bytes, avoiding: office))
            #expect(!HotspotNetwork.overlaps(accessPoint, anyOf: office))
            #expect(
                HotspotNetwork(
                    ssid: "nearshare-a", passphrase: "12345678", band: nil, accessPointAddress: accessPoint,
                    stationAddress: station)
                    != nil)
        }
        #expect(HotspotNetwork.overlaps(.v4(0x0a01_0201), anyOf: [IPSubnet(.v4(0x0a01_02f0), prefixLength: 28)]))
        #expect(HotspotNetwork.overlaps(.v4(0x0a01_0201), anyOf: [IPSubnet(.v4(0x0a01_0005), prefixLength: 16)]))
        #expect(!HotspotNetwork.overlaps(.v4(0x0a01_0201), anyOf: [IPSubnet(.v4(0x0a01_0305), prefixLength: 24)]))
        let all = [IPSubnet(.v4(0x0a00_0001), prefixLength: 0)]
        #expect(HotspotNetwork.addresses(random: [UInt8](repeating: 1, count: 32), avoiding: all) == nil)
    }
}
