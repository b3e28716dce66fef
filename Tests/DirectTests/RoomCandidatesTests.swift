import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct RoomCandidatesTests {
    private static func id(_ number: UInt8) -> PeerID { PeerID(bytes: [number] + [UInt8](repeating: 0, count: 7))! }
    private static func time(_ seconds: Double) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: Int64(seconds * 1_000_000_000))
    }

    private func nobody(_: PeerID) -> Bool { false }

    @Test func `peers are invited at once by the lower id and later by the higher one`() {
        var candidates = RoomCandidates(own: Self.id(5))
        for number in [9, 3, 5, 2] as [UInt8] { candidates.recordSighting(of: Self.id(number), now: Self.time(0)) }
        #expect(candidates.next(now: Self.time(0), isMember: nobody) == Self.id(2))
        #expect(candidates.next(now: Self.time(0), isMember: nobody) == Self.id(3))
        #expect(candidates.next(now: Self.time(0), isMember: nobody) == nil)
        #expect(candidates.deadline(isMember: nobody) == Self.time(3))
        #expect(candidates.next(now: Self.time(2.9), isMember: nobody) == nil)
        // By then it has invited this node.
        #expect(candidates.next(now: Self.time(3)) { $0 == Self.id(9) } == nil)
        #expect(candidates.deadline { $0 == Self.id(9) } == nil)
        #expect(candidates.next(now: Self.time(3), isMember: nobody) == Self.id(9))
        #expect(candidates.next(now: Self.time(1000), isMember: nobody) == nil)
    }

    @Test("of two nodes that have invited each other, the one with the higher id goes first", arguments: [1, 9] as [UInt8])
    func crossed(peer: UInt8) {
        var candidates = RoomCandidates(own: Self.id(5))
        candidates.recordSighting(of: Self.id(peer), now: Self.time(0))
        #expect(candidates.next(now: Self.time(3), isMember: nobody) == Self.id(peer))
        candidates.recordOutcome(.crossed, of: Self.id(peer), now: Self.time(3))
        #expect(candidates.deadline(isMember: nobody) == Self.time(peer > 5 ? 7 : 4))
    }

    @Test("S20: peers that do not answer are tried ever more rarely, and after the others") func backsOff() {
        var candidates = RoomCandidates(own: Self.id(5))
        candidates.recordSighting(of: Self.id(1), now: Self.time(0))
        var now = Self.time(0)
        var pauses: [Duration] = []
        for _ in 0..<8 {
            #expect(candidates.next(now: now, isMember: nobody) == Self.id(1))
            candidates.recordOutcome(.failed, of: Self.id(1), now: now)
            let next = candidates.deadline(isMember: nobody)!
            pauses.append(next - now)
            now = next
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 64, 64].map { .seconds($0) })
        candidates.recordSighting(of: Self.id(4), now: now)
        #expect(candidates.next(now: now, isMember: nobody) == Self.id(4))
        #expect(candidates.next(now: now, isMember: nobody) == Self.id(1))
        candidates.recordOutcome(.member, of: Self.id(1), now: now)
        // It has left the session.
        #expect(candidates.next(now: now + .seconds(1), isMember: nobody) == nil)
        #expect(candidates.next(now: now + .seconds(2), isMember: nobody) == Self.id(1))
    }

    @Test("S20: new addresses end a pause once in two seconds, and never that after a user has declined") func changes() {
        var candidates = RoomCandidates(own: Self.id(5))
        candidates.recordSighting(of: Self.id(1), now: Self.time(0))
        for _ in 0..<5 {
            var now = candidates.deadline(isMember: nobody)!
            #expect(candidates.next(now: now, isMember: nobody) == Self.id(1))
            candidates.recordOutcome(.failed, of: Self.id(1), now: now)
            now = now + .milliseconds(100)
            candidates.recordSighting(of: Self.id(1), now: now)
        }
        #expect(candidates.deadline(isMember: nobody) == Self.time(9))
        #expect(candidates.next(now: Self.time(9), isMember: nobody) == Self.id(1))
        candidates.recordOutcome(.declined, of: Self.id(1), now: Self.time(9))
        candidates.recordSighting(of: Self.id(1), now: Self.time(20))
        #expect(candidates.deadline(isMember: nobody) == Self.time(609))
    }

    @Test("S20: a peer whose question was not answered in time is invited again a minute later") func unanswered() {
        var candidates = RoomCandidates(own: Self.id(5))
        candidates.recordSighting(of: Self.id(1), now: Self.time(0))
        #expect(candidates.next(now: Self.time(0), isMember: nobody) == Self.id(1))
        candidates.recordOutcome(.unanswered, of: Self.id(1), now: Self.time(60))
        #expect(candidates.deadline(isMember: nobody) == Self.time(122))
    }

    @Test func `peers that are gone are removed`() {
        var candidates = RoomCandidates(own: Self.id(5))
        for number in [1, 2] as [UInt8] { candidates.recordSighting(of: Self.id(number), now: Self.time(0)) }
        #expect(candidates.next(now: Self.time(0), isMember: nobody) == Self.id(1))
        for number in [1, 2] as [UInt8] { candidates.recordLoss(of: Self.id(number), now: Self.time(0)) }
        candidates.recordOutcome(.failed, of: Self.id(1), now: Self.time(1))
        #expect(candidates.deadline(isMember: nobody) == nil)
        #expect(candidates.next(now: Self.time(100), isMember: nobody) == nil)
    }

    @Test("S20: a peer that goes and comes again ends no pause, nor that after a user's refusal") func goodbyes() {
        var candidates = RoomCandidates(own: Self.id(5))
        var now = Self.time(0)
        candidates.recordSighting(of: Self.id(1), now: now)
        for isDeclined in [false, true] {
            #expect(candidates.next(now: now, isMember: nobody) == Self.id(1))
            // Before the outcome, and after it.
            candidates.recordLoss(of: Self.id(1), now: now)
            candidates.recordOutcome(isDeclined ? .declined : .failed, of: Self.id(1), now: now)
            candidates.recordSighting(of: Self.id(1), now: now)
            candidates.recordLoss(of: Self.id(1), now: now)
            candidates.recordSighting(of: Self.id(1), now: now)
            #expect(candidates.deadline(isMember: nobody) == now + (isDeclined ? .seconds(600) : .seconds(1)))
            now = now + .seconds(1)
        }
        candidates.recordLoss(of: Self.id(1), now: now)
        candidates.recordSighting(of: Self.id(1), now: Self.time(700))
        #expect(candidates.next(now: Self.time(700), isMember: nobody) == Self.id(1))
    }

    @Test("S20: the peers that are gone are bounded, and those of which a user has declined are the last to be forgotten")
    func goneBounded() {
        func id(_ number: Int) -> PeerID {
            PeerID(bytes: [UInt8(number >> 8), UInt8(number & 255)] + [UInt8](repeating: 0, count: 6))!
        }
        var candidates = RoomCandidates(own: PeerID(bytes: [UInt8](repeating: 255, count: 8))!)
        for number in 0...RoomCandidates.maximumGoneCount + 1 {
            candidates.recordSighting(of: id(number), now: Self.time(0))
            #expect(candidates.next(now: Self.time(0), isMember: nobody) == id(number))
            candidates.recordOutcome(number < 2 ? .declined : .failed, of: id(number), now: Self.time(0))
            candidates.recordLoss(of: id(number), now: Self.time(0))
        }
        // Two were forgotten: of those that have only failed.
        for number in 0...RoomCandidates.maximumGoneCount + 1 {
            candidates.recordSighting(of: id(number), now: Self.time(0))
        }
        var dueCount = 0
        while let next = candidates.next(now: Self.time(0), isMember: nobody) {
            #expect(![id(0), id(1)].contains(next))
            dueCount += 1
        }
        #expect(dueCount == 2)
    }

    @Test("the identifier of a room depends on its name, the service type and whether it has a secret, not on the secret")
    func identifiers() {
        func session(_ name: String, _ service: String, _ secret: [UInt8]?) -> SessionID? {
            SessionRoom(name: name, service: service, secret: secret)?.session
        }
        let rooms = [
            session("attic", "my-game", nil), session("attic", "my-game", [1]), session("attic", "my-gam", nil),
            session("attics", "my-game", nil), session("eattic", "my-gam", nil),
        ]
        #expect(Set(rooms).count == rooms.count && !rooms.contains(nil))
        #expect(session("attic", "my-game", [1]) == session("attic", "my-game", [2]))
        #expect(session("", "my-game", nil) == nil && session(String(repeating: "a", count: 64), "my-game", nil) == nil)
        #expect(session(String(repeating: "a", count: 63), "my-game", nil) != nil)
    }

    @Test("S19: the proofs of a secret are equal for equal secrets on one link only, and not for its two ends") func proofs()
        throws
    {
        func exchange(_ secret: String, _ hash: UInt8, _ seed: UInt8) throws -> SessionRoom.SecretExchange {
            let room = try #require(SessionRoom(name: "attic", service: "my-game", secret: Array(secret.utf8)))
            return try #require(
                room.exchange(
                    on: [UInt8](repeating: hash, count: 32), seed: [UInt8](repeating: seed, count: CPace.seedByteCount)))
        }
        let first = try exchange("word", 1, 3)
        func proofs(_ second: SessionRoom.SecretExchange) throws -> [SessionRoom.Proofs] {
            [
                try #require(first.proofs(with: second.share, isInitiator: true)),
                try #require(second.proofs(with: first.share, isInitiator: false)),
            ]
        }
        let same = try proofs(try exchange("word", 1, 4))
        #expect(same[0].initiator == same[1].initiator && same[0].responder == same[1].responder)
        #expect(same[0].initiator != same[0].responder)
        for other in [try exchange("sword", 1, 4), try exchange("word", 2, 4)] {
            let proofs = try proofs(other)
            #expect(proofs[0].initiator != proofs[1].initiator && proofs[0].responder != proofs[1].responder)
        }
        #expect(first.proofs(with: [UInt8](repeating: 0, count: 32), isInitiator: true) == nil)
        #expect(SessionRoom(name: "attic", service: "my-game", secret: nil)?.exchange(on: [], seed: []) == nil)
    }
}
