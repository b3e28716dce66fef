import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

@Suite struct PeerTableTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let link = MeshLinkID(rawValue: 1)

    private func budget() -> TokenBucket { TokenBucket(capacity: 2, perSecond: 1, now: now) }

    private func identity(_ seed: UInt64) -> LocalIdentity {
        var random = SeededRandom(seed: seed)
        return LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount))
    }

    /// A table with announced peers, in the order of their last message.
    private func table(_ identities: [LocalIdentity], names: [String] = []) throws -> PeerTable {
        var table = PeerTable()
        for (number, identity) in identities.enumerated() {
            let moment = now + .seconds(number)
            table.insert(identity.peerID, publicMessageLimiter: budget(), now: moment)
            table.pin(identity.signingKey.publicKey, for: identity.peerID, now: moment)
            #expect(try announce(identity, "peer \(number)", timestamp: 10, in: &table))
        }
        return table
    }

    private func announce(
        _ identity: LocalIdentity, _ name: String, timestamp: UInt64, in table: inout PeerTable
    ) throws -> Bool {
        let announcement = MeshAnnouncement(
            nickname: name, noiseKey: identity.agreementKey.publicKey.bytes,
            signingKey: identity.signingKey.publicKey.bytes, capabilities: [.privateMedia])
        return table.apply(
            announcement, name: try DisplayName(name), agreementKey: identity.agreementKey.publicKey, timestamp: timestamp,
            from: identity.peerID, now: now)
    }

    @Test("M3: an announcement that is not newer changes nothing") func olderAnnouncement() throws {
        let anna = identity(1)
        var table = try table([anna])
        #expect(try !announce(anna, "old", timestamp: 10, in: &table))
        #expect(table.peer(anna.peerID)?.name.claimed == "peer 0")
        #expect(try announce(anna, "new", timestamp: 11, in: &table))
        #expect(table.peer(anna.peerID)?.name.claimed == "new")
    }

    @Test("M16: an announcement repeated within a second is not checked again; a changed one, or one on a new link, is")
    func repetition() throws {
        let anna = identity(1)
        var table = try table([anna])
        _ = table.recordClaim(of: anna.peerID, on: link)
        func isRepetition(
            _ name: String = "peer 0", on link: UInt64 = 1, isUnrelayed: Bool = true, signingKey: [UInt8]? = nil,
            after time: Duration = .milliseconds(900)
        ) throws -> Bool {
            let announcement = MeshAnnouncement(
                nickname: name, noiseKey: anna.agreementKey.publicKey.bytes,
                signingKey: signingKey ?? anna.signingKey.publicKey.bytes, capabilities: [.privateMedia])
            return table.isRepetition(
                announcement, name: try DisplayName(name), of: anna.peerID, on: MeshLinkID(rawValue: link),
                isUnrelayed: isUnrelayed, now: now + time)
        }
        #expect(try isRepetition())
        #expect(try isRepetition(on: 2, isUnrelayed: false))
        #expect(try !isRepetition(on: 2))
        #expect(try !isRepetition("anna"))
        #expect(try !isRepetition(signingKey: identity(2).signingKey.publicKey.bytes))
        #expect(try !isRepetition(after: .milliseconds(1_100)))
    }

    @Test("K2: a pinned key outlives its peer, until the peer states another in a session") func pins() throws {
        let (anna, mallory) = (identity(1), identity(2))
        var table = try table([anna])
        let wasAnnounced = table.remove(anna.peerID)
        #expect(wasAnnounced)
        let forged = mallory.signingKey.publicKey
        #expect(table.pinVerdict(on: forged, of: anna.peerID) == .contested)
        table.insert(anna.peerID, publicMessageLimiter: budget(), now: now)
        let state = MeshPeerState(capabilities: [], signingKey: forged.bytes)
        #expect(!table.hasStated(state, signingKey: forged, anna.peerID))
        _ = table.apply(state, signingKey: forged, of: anna.peerID)
        #expect(table.hasStated(state, signingKey: forged, anna.peerID))
        #expect(table.pinVerdict(on: forged, of: anna.peerID) == .accepted)
        #expect(table.pinVerdict(on: anna.signingKey.publicKey, of: anna.peerID) == .forged)
    }

    @Test func `a claim on a link makes a new neighbour only once`() throws {
        let anna = identity(1)
        var table = try table([anna])
        guard case .newClaimant(let peer) = table.recordClaim(of: anna.peerID, on: link) else {
            Issue.record("not a new neighbour")
            return
        }
        #expect(peer.isDirect && table.degree == 1 && table.claimants(on: link) == [anna.peerID])
        guard case .unchanged = table.recordClaim(of: anna.peerID, on: link) else {
            Issue.record("the same link twice")
            return
        }
        guard case .newLink = table.recordClaim(of: anna.peerID, on: MeshLinkID(rawValue: 2)) else {
            Issue.record("not a further link")
            return
        }
        #expect(table.removeLink(link).map(\.id) == [anna.peerID])
        #expect(table.removeLink(MeshLinkID(rawValue: 2)).first?.isDirect == false)
    }

    @Test func `a link is one to the peer that has proven its key there, and to others only before that`() throws {
        let (anna, ben) = (identity(1), identity(2))
        let other = MeshLinkID(rawValue: 2)
        var table = try table([anna, ben])
        _ = table.recordClaim(of: anna.peerID, on: link)
        _ = table.recordClaim(of: anna.peerID, on: other)
        _ = table.recordClaim(of: ben.peerID, on: link)
        #expect(table.neighbourLinks(of: anna.peerID) == [link, other])
        #expect(table.neighbourLinks(of: ben.peerID) == [link])
        let isProven = table.prove(anna.peerID, on: link)
        #expect(isProven)
        #expect(table.neighbourLinks(of: anna.peerID) == [link, other])
        #expect(table.neighbourLinks(of: ben.peerID).isEmpty, "a link has one other end")
        _ = table.removeLink(link)
        #expect(table.neighbourLinks(of: anna.peerID) == [other])
        #expect(table.neighbourLinks(of: identity(3).peerID).isEmpty)
    }

    @Test func `a peer is reachable while a link is open over which it has announced itself`() throws {
        let (anna, ben) = (identity(1), identity(2))
        var table = try table([anna, ben])
        _ = table.recordClaim(of: anna.peerID, on: link)
        table.setDiscoveryLink(link, of: ben.peerID)
        let before = table.announced.map(\.isReachable)
        #expect(before == [true, true])
        let changed = table.removeLink(link)
        #expect(Set(changed.map(\.id)) == [anna.peerID, ben.peerID])
        #expect(changed.allSatisfy { !$0.isReachable })
        table.setDiscoveryLink(MeshLinkID(rawValue: 2), of: ben.peerID)
        #expect(table.peer(ben.peerID)?.isReachable == true)
    }

    @Test("M8: a peer is challenged where it claims to be, until it has proven that or has left")
    func challenges() throws {
        let nonce: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        func claimed() throws -> (PeerTable, PeerID) {
            let anna = identity(1)
            var table = try self.table([anna])
            #expect(!table.mayBeChallenged(anna.peerID, on: link))
            _ = table.recordClaim(of: anna.peerID, on: link)
            #expect(!table.mayBeChallenged(anna.peerID, on: link), "a phone, which signs no answers")
            let announcement = MeshAnnouncement(
                nickname: "anna", noiseKey: anna.agreementKey.publicKey.bytes,
                signingKey: anna.signingKey.publicKey.bytes, capabilities: [.bundles])
            _ = table.apply(
                announcement, name: try DisplayName("anna"), agreementKey: anna.agreementKey.publicKey, timestamp: 11,
                from: anna.peerID, now: now)
            #expect(table.mayBeChallenged(anna.peerID, on: link))
            let challenge = table.challenge(anna.peerID, on: link, nonce: nonce, now: now)
            #expect(challenge != nil)
            #expect(table.isChallenged(anna.peerID, on: link, nonce: nonce))
            #expect(!table.isChallenged(anna.peerID, on: MeshLinkID(rawValue: 2), nonce: nonce))
            return (table, anna.peerID)
        }
        var (table, anna) = try claimed()
        let repeated = table.retransmittedChallenges(now: now + .seconds(1))
        #expect(repeated.map(\.peer) == [anna])
        let isProven = table.prove(anna, on: link)
        #expect(isProven)
        #expect(!table.isChallenged(anna, on: link, nonce: nonce) && !table.mayBeChallenged(anna, on: link))
        (table, anna) = try claimed()
        _ = table.removeLink(link)
        #expect(!table.isChallenged(anna, on: link, nonce: nonce))
        (table, anna) = try claimed()
        _ = table.remove(anna)
        let left = table.retransmittedChallenges(now: now + .seconds(1))
        #expect(left.isEmpty)
    }

    @Test("M8: challenges that get no answer block a link for some seconds only") func unansweredChallenges() throws {
        let nonce = [UInt8](repeating: 1, count: 8)
        let peers = (1...9).map { identity($0).peerID }
        var table = try table([])
        func startedCount(_ peers: some Sequence<PeerID>, at now: MonotonicInstant) -> Int {
            peers.count(where: { table.challenge($0, on: link, nonce: nonce, now: now) != nil })
        }
        let first = startedCount(peers, at: now)
        #expect(first == 8)
        for second in 1...3 {
            let repeated = table.retransmittedChallenges(now: now + .seconds(second))
            #expect(repeated.count == 8)
        }
        let early = startedCount(peers, at: now + .milliseconds(7_999))
        #expect(early == 0)
        let late = startedCount(peers.suffix(1), at: now + .seconds(8))
        #expect(late == 1)
    }

    @Test("M8: an announcement makes no neighbour; the first that proves its key on a link is its only one") func proof() throws
    {
        let (anna, mallory) = (identity(1), identity(2))
        var table = try table([anna, mallory])
        for peer in [anna, mallory] { _ = table.recordClaim(of: peer.peerID, on: link) }
        #expect(!table.isNeighbour(anna.peerID) && table.provenNeighbour(on: link) == nil && table.degree == 1)
        let proofs = [table.prove(anna.peerID, on: link), table.prove(mallory.peerID, on: link)]
        #expect(proofs == [true, false] && table.provenNeighbour(on: link) == anna.peerID)
        _ = table.removeLink(link)
        #expect(!table.isNeighbour(anna.peerID) && table.provenNeighbour(on: link) == nil)
        let isProven = table.prove(mallory.peerID, on: MeshLinkID(rawValue: 2))
        #expect(isProven)
    }

    @Test("M11: no number of other announcements evicts the key of a peer that is present, proven or a contact")
    func evictedPins() throws {
        let (anna, ben, cleo) = (identity(1), identity(2), identity(3))
        var pins = KeyPins()
        let links = (1...2 as ClosedRange<UInt64>).map { MeshLinkID(rawValue: $0) }
        pins.insert(anna.signingKey.publicKey, for: anna.peerID, from: links[0])
        pins.insert(ben.signingKey.publicKey, for: ben.peerID, isProven: true, from: links[1])
        pins.contacts = [cleo.peerID: cleo.signingKey.publicKey]
        let forged = identity(9).signingKey.publicKey
        for number in 0..<KeyPins.capacity + 100 {
            let peer = PeerID(fitting: [9, UInt8(number >> 8), UInt8(number & 255)])
            pins.insert(forged, for: peer, from: links[1])
        }
        #expect(pins.count <= KeyPins.capacity && pins.count > KeyPins.capacity * 3 / 4)
        #expect(pins[anna.peerID] == anna.signingKey.publicKey && pins[ben.peerID] == ben.signingKey.publicKey)
        #expect(pins.verdict(on: forged, of: anna.peerID) == .contested)
        #expect([ben, cleo].allSatisfy { pins.verdict(on: forged, of: $0.peerID) == .forged })
    }

    @Test("R6, M16: contacts stay, but keys that have become contacts by the hundred leave room for newcomers")
    func evictedContacts() throws {
        var table = PeerTable()
        let key = identity(1).signingKey.publicKey
        func id(_ number: Int) -> PeerID { PeerID(fitting: [UInt8(number >> 8), UInt8(number & 255)]) }
        for count in [PeerTable.capacity / 2, PeerTable.capacity] {
            table.setContacts(Dictionary((0..<count).map { (id($0), key) }) { first, _ in first })
            for number in 0..<count { table.insert(id(number), publicMessageLimiter: budget(), now: now) }
            #expect((table.evictionCandidate(excluding: { _ in false }) == nil) == (count < PeerTable.capacity))
        }
    }

    @Test("R6: unannounced peers are evicted first, then the one silent for longest; neighbours never") func eviction() throws {
        let identities = [identity(1), identity(2), identity(3)]
        var table = try table(identities)
        _ = table.prove(identities[0].peerID, on: link)
        #expect(table.evictionCandidate(excluding: { _ in false }) == identities[1].peerID)
        #expect(table.evictionCandidate(excluding: { $0 == identities[1].peerID }) == identities[2].peerID)
        let unannounced = PeerID(fitting: [9])
        table.insert(unannounced, publicMessageLimiter: budget(), now: now + .seconds(100))
        #expect(table.evictionCandidate(excluding: { _ in false }) == unannounced)
        #expect(table.evictionCandidate(excluding: { _ in true }) == nil)
    }

    @Test func `the signing key stated in a session outranks that of an announcement`() throws {
        let anna = identity(1)
        var table = try table([anna])
        table.beginSession(with: anna.peerID, key: anna.agreementKey.publicKey, over: link, now: now)
        #expect(table.peer(anna.peerID)?.capabilities == [.privateMedia])
        let state = MeshPeerState(capabilities: [.fileOffers], signingKey: anna.signingKey.publicKey.bytes)
        _ = table.apply(state, signingKey: anna.signingKey.publicKey, of: anna.peerID)
        #expect(table.peer(anna.peerID)?.capabilities == [.fileOffers])
        #expect(table[anna.peerID]?.supports(.fileOffers) == true)
        table.beginSession(with: anna.peerID, key: anna.agreementKey.publicKey, over: link, now: now)
        #expect(table[anna.peerID]?.supports(.fileOffers) == false)
    }

    @Test func `silent peers expire, and the messages of a peer have a budget`() throws {
        let anna = identity(1)
        var table = try table([anna])
        #expect(table.expired(now: now + .seconds(180)).isEmpty)
        #expect(table.expired(now: now + .seconds(181)) == [anna.peerID])
        #expect((0..<3).map { _ in table.admitPublicMessage(from: anna.peerID, now: now) } == [true, true, false])
    }

    @Test("what is sent to several peers goes in the order of their ids, the same in each process") func order() throws {
        let peers = (1...16).map { identity($0) }
        let ids = peers.map(\.peerID).sorted()
        var table = try table(peers)
        for id in ids { table.setDiscoveryLink(link, of: id) }
        #expect(table.expired(now: now + .seconds(1000)) == ids)
        #expect(table.removeLink(link).map(\.id) == ids)

        var sessions = SessionTable(identity: identity(0), settings: MeshRouter.Settings())
        for peer in peers { _ = sessions.start(with: peer.peerID, now: now, ephemeral: [UInt8](repeating: 1, count: 32)) }
        #expect(sessions.retransmissions(now: now + .seconds(5)).map(\.peer) == ids)
        for (number, peer) in peers.enumerated() {
            var random = SeededRandom(seed: UInt64(number))
            var other = SessionTable(identity: peer, settings: MeshRouter.Settings())
            sessions.remove(peer.peerID)
            var message = sessions.start(with: peer.peerID, now: now, ephemeral: random.bytes(32))
            // The answer of the peer, and the third message.
            for isAnswer in [true, false] {
                let first = try #require(message)
                let sender = isAnswer ? identity(0).peerID : peer.peerID
                let reaction =
                    isAnswer
                    ? other.receive(
                        handshake: first[...], from: sender, isSigned: true, on: link, now: now, ephemeral: random.bytes(32))
                    : sessions.receive(
                        handshake: first[...], from: sender, isSigned: true, on: link, now: now, ephemeral: random.bytes(32))
                switch reaction {
                case .reply(let reply): message = reply
                case .established, .ignore: break
                }
            }
            #expect(sessions.isEstablished(peer.peerID))
            sessions.queue([1], for: peer.peerID, now: now)
        }
        #expect(sessions.peersToServe == ids)
        for _ in 0..<100 { sessions.queue([2], for: ids[0], now: now) }
        #expect(sessions.drainQueue(of: ids[0]).count == SessionTable.maximumQueueCount)
    }
}
