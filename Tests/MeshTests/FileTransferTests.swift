import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareCrypto
@testable import NearshareMesh

/// The two state machines of a file transfer: their outputs, and the phase afterwards.
@Suite struct FileTransferTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let file = MeshFile(name: "a", mediaType: "a/b", content: [UInt8](repeating: 7, count: 60)[...])
    private let peer: AuthenticatedPeer

    init() throws {
        var random = SeededRandom(seed: 6)
        peer = AuthenticatedPeer(key: LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount)).agreementKey.publicKey)
    }

    private func encoded() throws -> [UInt8] { try file.encoded() }
    private func key() throws -> MeshFileKey { MeshFileKey(.init(ofEncoded: try encoded()[...]), with: peer.id) }

    private func offer(set: UInt64 = 1) throws -> MeshFileOffer {
        MeshFileOffer(of: file, id: try key().file, fragmentCount: 3, fragmentID: MeshFragment.ID(rawValue: set))
    }

    private func fragmentation() throws -> MeshFragmentation {
        try MeshFragmentation(
            MeshPacket(type: .fileTransfer, timestamp: 1, sender: PeerID(fitting: [1]), payload: []),
            frame: [UInt8](repeating: 1, count: 30), id: MeshFragment.ID(rawValue: 1), chunkByteCount: 10)
    }

    /// The outputs as text, which the tests compare.
    private func names(_ reactions: [FileTransferReaction]) -> [String] {
        reactions.map { reaction in
            switch reaction {
            case .send(let control, _, let onAllLinks):
                switch control {
                case .offer: onAllLinks ? "offer on all links" : "offer"
                case .accept: "accept"
                case .decline(_, let reason): "decline \(reason)"
                case .missing(_, let indices): "missing \(indices)"
                case .stored: "stored"
                case .cancel: "cancel"
                }
            case .startTransmission: "start transmission"
            case .schedule(let job): "schedule \(job.isRetransmitting ? "again" : "all")"
            case .unschedule: "unschedule"
            case .discardFragments: "discard"
            case .emit(.fileSendEnded(_, let outcome)), .emit(.fileReceiveEnded(_, let outcome)): "ended \(outcome)"
            case .emit(.fileOfferSent): "offered"
            case .emit(.fileOffered): "ask"
            case .emit: "event"
            }
        }
    }

    private func outgoing() throws -> OutgoingFiles {
        var files = OutgoingFiles()
        files.insert(
            OutgoingFile(
                key: try key(), offer: try offer(), chunkByteCount: 10, content: try encoded(),
                phase: .waitingForSession(deadline: now + OutgoingFile.sessionTimeout)))
        return files
    }

    // MARK: Outgoing

    @Test func `a file is offered, accepted, sent and confirmed`() throws {
        var (files, fragments) = (try outgoing(), FragmentScheduler())
        let key = try key()
        let ready = files.start(key, capabilities: [.privateMedia, .fileOffers], now: now)
        #expect(names(ready) == ["offered", "offer"])
        #expect(names(files.receive(.stored(key.file), from: peer.id, &fragments)) == [])
        #expect(names(files.advance(to: now + .seconds(2))) == ["offer on all links"])
        #expect(names(files.receive(.accept(key.file), from: peer.id, &fragments)) == ["start transmission"])
        #expect(names(files.start(key, try fragmentation())) == ["schedule all"])
        #expect(!files.isSendingToPhone(peer.id))
        #expect(names(files.finishSending(key, now: now)) == [])
        #expect(names(files.advance(to: now + .seconds(1))) == [])
        #expect(names(files.advance(to: now + .seconds(2))) == ["offer"])
        #expect(names(files.receive(.missing(key.file, [2, 2, 9]), from: peer.id, &fragments)) == ["schedule again"])
        #expect(names(files.finishSending(key, now: now)) == [])
        #expect(names(files.receive(.stored(key.file), from: peer.id, &fragments)) == ["unschedule", "ended stored"])
        #expect(files.isEmpty)
    }

    @Test("a receiver that was restarted accepts again, and gets all of it for its new session")
    func restartedReceiver() throws {
        var (files, fragments) = (try outgoing(), FragmentScheduler())
        let key = try key()
        _ = files.start(key, capabilities: [.privateMedia, .fileOffers], now: now)
        _ = files.start(key, try fragmentation())
        _ = files.finishSending(key, now: now)
        #expect(names(files.receive(.accept(key.file), from: peer.id, &fragments)) == ["start transmission"])
        #expect(files[key]?.content == (try encoded()))
        _ = files.start(key, try fragmentation())
        _ = files.finishSending(key, now: now)
        let declined = files.receive(.decline(key.file, .notAllowed), from: peer.id, &fragments)
        #expect(names(declined) == ["unschedule", "ended receiverLost"])
    }

    @Test func `a phone gets files without an offer, one after the other`() throws {
        var files = try outgoing()
        let key = try key()
        #expect(names(files.start(key, capabilities: [.privateMedia], now: now)) == ["start transmission"])
        _ = files.start(key, try fragmentation())
        #expect(files.isSendingToPhone(peer.id))
        var second = try #require(files[key])
        let other = MeshFileKey(.init(digest: [UInt8](repeating: 1, count: 32)), with: peer.id)
        second = OutgoingFile(
            key: other, offer: second.offer, chunkByteCount: 10, content: [1], phase: .waitingForSession(deadline: now))
        files.insert(second)
        #expect(names(files.start(other, capabilities: [.privateMedia], now: now)) == [])
        #expect(names(files.finishSending(key, now: now)) == ["unschedule", "ended sent"])
        #expect(names(files.start(other, capabilities: [], now: now)) == ["unschedule", "ended unsupported"])
    }

    @Test("A8, A9: a cancelled file ends on both sides, and stays ended") func cancelled() throws {
        var (files, fragments) = (try outgoing(), FragmentScheduler())
        let key = try key()
        #expect(names(files.cancel(key)) == ["unschedule", "ended cancelledLocally"])
        #expect(names(files.receive(.accept(key.file), from: peer.id, &fragments)) == ["cancel"])
        files = try outgoing()
        _ = files.start(key, capabilities: [.privateMedia, .fileOffers], now: now)
        #expect(names(files.cancel(key)) == ["cancel", "unschedule", "ended cancelledLocally"])
    }

    @Test func `files for silent peers end`() throws {
        var files = try outgoing()
        #expect(names(files.advance(to: now + .seconds(30))) == ["unschedule", "ended noResponse"])
        files = try outgoing()
        let key = try key()
        _ = files.start(key, capabilities: [.privateMedia, .fileOffers], now: now)
        let expired = names(files.advance(to: now + .seconds(60)))
        #expect(expired.first == "unschedule" && expired.last?.hasPrefix("ended declined") == true)
        files = try outgoing()
        _ = files.start(key, capabilities: [.privateMedia, .fileOffers], now: now)
        _ = files.start(key, try fragmentation())
        _ = files.finishSending(key, now: now)
        var last: [String] = []
        for number in 1...11 { last = names(files.advance(to: now + .seconds(2 * number))) }
        #expect(last == ["unschedule", "ended lost"])
    }

    @Test("R11: a receiver that requests too many retransmissions is given up") func retransmissions() throws {
        var (files, fragments) = (try outgoing(), FragmentScheduler())
        let key = try key()
        _ = files.start(key, capabilities: [.privateMedia, .fileOffers], now: now)
        _ = files.start(key, try fragmentation())
        var answers: [String] = []
        for _ in 0..<18 {
            _ = files.finishSending(key, now: now)
            answers += names(files.receive(.missing(key.file, [0, 1, 2]), from: peer.id, &fragments))
        }
        #expect(answers.prefix(17).allSatisfy { $0 == "schedule again" })
        #expect(answers.suffix(3) == ["cancel", "unschedule", "ended lost"])
    }

    // MARK: Incoming

    private func accepted() throws -> (IncomingFiles, MeshFileKey) {
        var files = IncomingFiles()
        let key = try key()
        #expect(names(files.receive(try offer(), from: peer, FragmentAssembler(), now: now)) == ["ask"])
        #expect(names(files.accept(key, timeout: .seconds(900), now: now)) == ["accept"])
        return (files, key)
    }

    @Test func `an accepted file is delivered and confirmed`() throws {
        var (files, key) = try accepted()
        #expect(files.isReceiving(key) && files.acceptedFile(MeshFragment.ID(rawValue: 1), from: peer.id) == key)
        guard case .accepted(let offer) = files.recordCompletion(of: key) else {
            Issue.record("not accepted")
            return
        }
        #expect(offer.describes(file) && files.isReceiving(key))
        guard case .unexpected = files.recordCompletion(of: key) else {
            Issue.record("accepted twice")
            return
        }
        #expect(names(files.confirmStored(key, now: now)) == ["stored"])
        #expect(!files.isReceiving(key))
        // The sender missed the answer and asks again.
        #expect(names(files.receive(try self.offer(), from: peer, FragmentAssembler(), now: now)) == ["stored"])
        #expect(names(files.advance(to: now + .seconds(300), FragmentAssembler())) == [])
        #expect(files.isEmpty)
    }

    @Test("A2: neither a declined file nor one that expired can be accepted") func tooLate() throws {
        var files = IncomingFiles()
        let key = try key()
        _ = files.receive(try offer(), from: peer, FragmentAssembler(), now: now)
        #expect(names(files.decline(key, reason: .declined, now: now)) == ["decline declined"])
        #expect(names(files.accept(key, timeout: .seconds(900), now: now)) == [])
        #expect(names(files.receive(try offer(), from: peer, FragmentAssembler(), now: now)) == ["decline declined"])
        // When its sender restarts the transfer, it is offered again.
        #expect(names(files.receive(try offer(set: 2), from: peer, FragmentAssembler(), now: now)) == ["ask"])
        let expired = names(files.advance(to: now + .seconds(60), FragmentAssembler()))
        #expect(expired.first == "decline expired" && expired.contains("discard"))
        #expect(names(files.accept(key, timeout: .seconds(900), now: now)) == [])
    }

    @Test("A10: an offer with the same id and other content is ignored") func changedOffer() throws {
        var (files, key) = try accepted()
        var other = try offer()
        other.name = try #require(ClaimedFileName("b"))
        #expect(names(files.receive(other, from: peer, FragmentAssembler(), now: now)) == [])
        #expect(files[key]?.offer == (try offer()))
        #expect(names(files.rejectContent(of: key, now: now)).first == "decline declined")
    }

    @Test func `missing fragments are requested until the attempts are used up`() throws {
        var (files, key) = try accepted()
        var assembler = FragmentAssembler()
        // No fragment has arrived: the acceptance may have been lost.
        #expect(names(files.advance(to: now + .seconds(1), assembler)) == ["accept"])
        let fragment = try MeshFragment(decoding: try fragmentation()[1].payload)
        _ = assembler.add(fragment, from: peer.id, isExpected: true, now: now + .seconds(1))
        let progress = files.recordFragment(fragment, from: peer.id, receivedCount: 1)
        #expect(progress?.received == 1 && progress?.file == key.file)
        #expect(names(files.advance(to: now + .seconds(1), assembler)) == [])
        #expect(names(files.advance(to: now + .seconds(2), assembler)) == ["missing [0, 2]"])
        var last: [String] = []
        for second in 3...40 where !last.contains("ended lost") {
            last = names(files.advance(to: now + .seconds(second), assembler))
        }
        #expect(last == ["discard", "ended lost"])
    }

    @Test("a reason of a later version counts as declined") func reasonsOfLaterVersions() throws {
        let id = try key().file
        for reason in [.declined, .busy, .tooLarge, .expired, .notAllowed, .acceptsNothing] as [MeshFileControl.DeclineReason] {
            #expect(try MeshFileControl(decoding: MeshFileControl.decline(id, reason).encoded[...]) == .decline(id, reason))
        }
        var later = MeshFileControl.decline(id, .notAllowed).encoded
        later[later.count - 1] = 200
        #expect(try MeshFileControl(decoding: later[...]) == .decline(id, .declined))
    }

    @Test("R4, R11: pending offers are bounded for each peer") func flood() throws {
        var files = IncomingFiles()
        var asked = 0
        for number in 0..<20 as Range<UInt8> {
            var offer = try offer()
            offer.id = MeshFileControl.FileID(digest: [UInt8](repeating: number, count: 32))
            asked += names(files.receive(offer, from: peer, FragmentAssembler(), now: now)) == ["ask"] ? 1 : 0
        }
        #expect(asked == 8)
    }
}
