import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareCrypto
@testable import NearshareMesh

/// The room for offered and accepted files, which the hosts behind the links share.
@Suite struct IncomingFileRoomTests {
    /// The files of a receiver that accepts every offer. Each offer is that of another peer.
    private struct Receiver {
        private(set) var files = IncomingFiles()
        private var assembler = FragmentAssembler()
        private var now = MonotonicInstant(nanoseconds: 1_000_000_000)
        private var offerCount = 0
        private var fragmentCount = 0
        /// The files that gave way to others, as their senders and as the program were told.
        private(set) var declined: [MeshFileKey] = []
        private(set) var displaced: [MeshFileKey] = []

        /// - Returns: nil for an offer that was declined at once.
        mutating func receiveOffer(
            size: UInt32 = 3, over link: MeshLinkShare, isFromFriend: Bool = false
        ) -> MeshFileKey? {
            offerCount += 1
            var random = SeededRandom(seed: UInt64(offerCount))
            let identity = LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount))
            let peer = AuthenticatedPeer(key: identity.agreementKey.publicKey)
            let offer = MeshFileOffer(
                id: MeshFileControl.FileID(digest: random.bytes(32)), size: size, fragmentCount: 1_000,
                fragmentID: MeshFragment.ID(rawValue: UInt64(offerCount)), name: ClaimedFileName("a")!, mediaType: "a/b")
            let key = MeshFileKey(offer.id, with: peer.id)
            var isOffered = false
            for reaction in files.receive(offer, from: peer, over: link, assembler, now: now) {
                switch reaction {
                case .send(.decline(let id, .busy), let sender, _): declined.append(MeshFileKey(id, with: sender))
                case .emit(.fileReceiveEnded(let key, .declined(.busy))): displaced.append(key)
                case .emit(.fileOffered): isOffered = true
                default: break
                }
            }
            guard isOffered else {
                let last = declined.popLast()
                #expect(last == key)
                return nil
            }
            _ = files.accept(key, isFromFriend: isFromFriend, timeout: .seconds(900), now: now)
            return key
        }

        /// Receives one more fragment of each of these files.
        mutating func receiveFragments(of keys: [MeshFileKey]) {
            fragmentCount += 1
            for key in keys {
                guard let file = files[key], file.reassembly != nil else { continue }
                let fragment = MeshFragment(
                    id: file.offer.fragmentID, index: fragmentCount, total: 1_000, originalType: .noiseEncrypted,
                    slice: [1, 2, 3])
                _ = assembler.add(fragment, from: file.sender, isExpected: true, now: now)
                _ = files.recordFragment(fragment, from: file.sender, receivedCount: fragmentCount)
            }
        }

        mutating func wait(seconds: Int) {
            for _ in 0..<4 * seconds {
                now = now + .milliseconds(250)
                _ = files.advance(to: now, assembler)
            }
        }

        mutating func close(_ link: MeshLinkID) { files.removeLink(link) }
    }

    private func link(_ number: Int = 0, of host: String) -> MeshLinkShare {
        MeshLinkShare(source: .address(host), number: number)
    }

    @Test("M19: accepted files that never arrive give way to those of another host, up to half of the room, the oldest first")
    func neverSent() throws {
        var receiver = Receiver()
        let hostile = (0..<32).compactMap { receiver.receiveOffer(over: link($0 % 4, of: "mallory")) }
        #expect(hostile.count == 32 && receiver.displaced.isEmpty)
        // The same host, and a link that holds as much as its others.
        #expect(receiver.receiveOffer(over: link(0, of: "mallory")) == nil)
        let honest = (0..<20).compactMap { _ in receiver.receiveOffer(over: link(of: "anna")) }
        #expect(honest.count == 16)
        #expect(receiver.displaced == Array(hostile.prefix(16)) && receiver.declined == receiver.displaced)
        // Others wait until some of them are idle.
        #expect(receiver.receiveOffer(over: link(of: "anna")) == nil)
        receiver.wait(seconds: 10)
        receiver.receiveFragments(of: honest)
        receiver.wait(seconds: 6)
        #expect(receiver.receiveOffer(over: link(of: "ben")) != nil)
        #expect(receiver.displaced.last == hostile[16])
        // Within the same host, that of another link is first, then the idle one of the same link.
        for expected in [hostile[17], hostile[20]] {
            #expect(receiver.receiveOffer(over: link(0, of: "mallory")) != nil)
            #expect(receiver.displaced.last == expected)
        }
    }

    @Test("M19: a file under way stays, however many files others offer and begin to send over other hosts")
    func underWay() throws {
        var receiver = Receiver()
        let first = receiver.receiveOffer(size: 5 << 20, over: link(of: "anna"))
        var honest = [try #require(first)]
        var hostile: [MeshFileKey] = []
        for second in 0..<60 {
            receiver.receiveFragments(of: honest + (second.isMultiple(of: 10) ? hostile : []))
            if second < 30 {
                hostile += (0..<4).compactMap { receiver.receiveOffer(over: link($0, of: "mallory")) }
            } else if second == 30 {
                // A large one of a host that has none yet.
                let other = receiver.receiveOffer(size: 5 << 20, over: link(of: "ben"))
                honest.append(try #require(other))
            } else {
                hostile += (0..<4).compactMap { receiver.receiveOffer(over: link(of: "host \(4 * second + $0)")) }
            }
            receiver.wait(seconds: 1)
        }
        #expect(honest.allSatisfy { receiver.files[$0]?.reassembly != nil })
        #expect(receiver.displaced.count > 20)
    }

    @Test("M19: files under way of a friend stay, also where its host holds most", arguments: [true, false])
    func friend(isFriend: Bool) {
        var receiver = Receiver()
        let files = (0..<4).compactMap { _ in receiver.receiveOffer(over: link(of: "anna"), isFromFriend: isFriend) }
        for number in 0..<40 { _ = receiver.receiveOffer(over: link(of: "host \(number)")) }
        #expect(files.count == 4)
        #expect(files.count { receiver.files[$0]?.reassembly != nil } == (isFriend ? 4 : 1))
    }

    @Test("M19: a newcomer at the same address takes the place of a file of the link with most")
    func links() {
        var receiver = Receiver()
        let hostile = (0..<32).compactMap { receiver.receiveOffer(over: link($0 / 8, of: "nat")) }
        #expect(receiver.receiveOffer(over: link(4, of: "nat")) != nil)
        #expect(receiver.displaced == Array(hostile.prefix(1)))
    }

    @Test("M19: a host without an address that comes and goes is one host") func churn() {
        var receiver = Receiver()
        let honest = (0..<8).compactMap { _ in receiver.receiveOffer(over: link(of: "anna")) }
        for number in 0..<60 as Range<UInt64> {
            let source = MeshLinkID(rawValue: number)
            _ = receiver.receiveOffer(over: MeshLinkShare(source: .link(source), number: 0))
            receiver.close(source)
        }
        #expect(honest.count == 8 && honest.allSatisfy { receiver.files[$0]?.reassembly != nil })
        #expect(receiver.displaced.count == 60 + 8 - 32)
    }
}
