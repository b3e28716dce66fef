import NearshareBase
import Testing

@testable import NearshareMesh

@Suite struct PublicSyncTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let link = MeshLinkID(rawValue: 1)
    private let peer = PeerID(fitting: [3])

    private func moment(_ seconds: Int) -> Moment {
        Moment(monotonic: now + .seconds(seconds), wall: WallTime(milliseconds: 100_000_000 + Int64(seconds) * 1000))
    }

    private func message(ageSeconds: Int64, ttl: UInt8 = 0, type: MeshPacketType = .message, sender: UInt8 = 8) -> MeshPacket {
        MeshPacket(
            type: type, ttl: ttl, timestamp: UInt64(100_000_000 - ageSeconds * 1000), sender: PeerID(fitting: [sender]),
            payload: [1])
    }

    @Test func `sync requests are sent at intervals, and soon to a new neighbour`() {
        var sync = PublicSync()
        sync.addLink(link, now: now)
        #expect(sync.popDueLinks(now: now + .seconds(4)).isEmpty)
        #expect(sync.popDueLinks(now: now + .seconds(5)) == [link])
        #expect(sync.popDueLinks(now: now + .seconds(34)).isEmpty)
        #expect(sync.popDueLinks(now: now + .seconds(35)) == [link])
        sync.requestSoon(on: link, now: now + .seconds(40))
        #expect(sync.popDueLinks(now: now + .milliseconds(40_100)) == [link])
        sync.removeLink(link)
        #expect(sync.popDueLinks(now: now + .seconds(99)).isEmpty)
    }

    @Test("M3: an old packet is accepted only from a neighbour that was asked for it") func responses() {
        var sync = PublicSync()
        #expect(!sync.isResponse(message(ageSeconds: 3600), from: [peer], now: moment(0)))
        sync.recordRequest(to: [peer], now: now)
        #expect(sync.isResponse(message(ageSeconds: 3600), from: [peer], now: moment(0)))
        #expect(!sync.isResponse(message(ageSeconds: 3600), from: [], now: moment(0)))
        #expect(!sync.isResponse(message(ageSeconds: 3600, ttl: 1), from: [peer], now: moment(0)))
        #expect(!sync.isResponse(message(ageSeconds: 30_000), from: [peer], now: moment(0)))
        #expect(!sync.isResponse(message(ageSeconds: 3600, type: .announce), from: [peer], now: moment(0)))
        #expect(!sync.isResponse(message(ageSeconds: 3600, type: .leave), from: [peer], now: moment(0)))
        #expect(!sync.isResponse(message(ageSeconds: 3600), from: [peer], now: moment(31)))
        sync.removePeer(peer)
        #expect(!sync.isResponse(message(ageSeconds: 3600), from: [peer], now: moment(0)))
    }

    @Test("a request for what is missing hides hardly any of it, and stays small") func falsePositives() throws {
        for count in [1, 10, 140, 300] as [Int64] {
            var (asking, asked) = (SyncStore(), SyncStore())
            for age in 1...count { asking.insert(try MeshFrame(message(ageSeconds: age))) }
            for age in 5_001...5_400 as ClosedRange<Int64> {
                asked.insert(try MeshFrame(message(ageSeconds: age, sender: UInt8(age % 8))))
            }
            let request = asking.request
            let missing = asked.missing(for: request, limit: 1_000, byteLimit: 1 << 20)
            #expect(missing.count >= (count <= 140 ? 400 : 390), "\(count)")
            #expect(request.encoded.count <= 430, "\(count)")
        }
    }

    @Test("M2: a neighbour's requests are answered at a limited rate") func answers() throws {
        var sync = PublicSync()
        sync.insert(try MeshFrame(message(ageSeconds: 1)))
        let request = MeshSyncRequest(filter: GolombFilter(hashes: []))
        let answered = (0..<10).count { _ in !sync.answer(request, on: link, now: now).isEmpty }
        #expect(answered == 8)
        let others = sync.answer(request, on: MeshLinkID(rawValue: 2), now: now)
        let later = sync.answer(request, on: link, now: now + .seconds(30))
        #expect(others.count == 1 && later.count == 1)
    }
}
