import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import NearshareMesh
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("rate limit on prompts") struct PromptRateLimiterTests {
    private let window = PromptRateLimiter.interval.components.seconds

    private func moment(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    private func key(_ number: Int) -> Fingerprint {
        Fingerprint(bytes: UInt64(number).bigEndianBytes + [UInt8](repeating: 0, count: 24))!
    }

    private func path(_ host: String) -> PromptRateLimiter.Path { .link(LinkAddress(host: host, port: 1)) }

    /// Admits prompts until one is refused.
    /// - Returns: the number of admitted ones.
    private func fill(
        _ limiter: inout PromptRateLimiter, isKnown: Bool = false, at second: Int64 = 0,
        _ source: (Int) -> (key: Int, host: String)
    ) -> Int {
        for number in 0..<1_000 {
            let (key, host) = source(number)
            if limiter.admit(self.key(key), on: path(host), isKnown: isKnown, now: moment(second)) == nil { return number }
        }
        return 1_000
    }

    @Test("R11: offers whose short code never comes, which no user sees, do not turn newcomers away")
    func unseen() {
        var limiter = PromptRateLimiter()
        var waiting: [PromptRateLimiter.Admission] = []
        for number in 0..<50 {
            let admission = limiter.admit(
                key(number), on: path("10.0.0.\(number / 5)"), isKnown: false, isShown: false, now: moment(0))
            if let admission { waiting.append(admission) }
        }
        #expect(waiting.count == 50)
        let newcomer = limiter.admit(key(99), on: path("10.0.1.1"), isKnown: false, now: moment(0))
        #expect(newcomer != nil)
        // A user reads as many of those that are shown after all as of others.
        let shown = waiting.indices.count { limiter.show(&waiting[$0], now: moment(1)) }
        #expect(shown == PromptRateLimiter.maximumTotalCount - 1)
    }

    @Test(
        "R11: offers whose short codes come later than the window are counted when they are shown", arguments: [1, 59, 61, 600])
    func lateCodes(_ second: Int64) {
        var limiter = PromptRateLimiter()
        var waiting = (0..<60).compactMap { number in
            limiter.admit(key(number), on: path("10.0.0.\(number / 5)"), isKnown: false, isShown: false, now: moment(0))
        }
        #expect(waiting.count == 60)
        let shown = waiting.indices.count { limiter.show(&waiting[$0], now: moment(second)) }
        #expect(shown == PromptRateLimiter.maximumTotalCount)
        let again = waiting.indices.count { limiter.show(&waiting[$0], now: moment(second + window - 1)) }
        #expect(again == shown, "those that are shown already")
        let next = waiting.indices.count { limiter.show(&waiting[$0], now: moment(second + window)) }
        #expect(next == 2 * PromptRateLimiter.maximumTotalCount)
        // A released one makes room for one more, whenever it was shown.
        limiter.release(waiting[PromptRateLimiter.maximumTotalCount])
        let newcomers = (0..<2).filter {
            limiter.admit(key(100 + $0), on: path("10.0.1.\($0)"), isKnown: false, now: moment(second + window)) != nil
        }
        #expect(newcomers.count == 1)
    }

    @Test("R11: a host that lets its short codes wait has no more of them shown at once than otherwise")
    func lateCodesOfOneHost() {
        var limiter = PromptRateLimiter()
        var waiting = (0..<3).flatMap { minute in
            (0..<PromptRateLimiter.maximumCountPerSource).compactMap { number in
                limiter.admit(
                    key(10 * minute + number), on: path("10.0.0.1"), isKnown: false, isShown: false,
                    now: moment(Int64(minute) * window))
            }
        }
        #expect(waiting.count == 3 * PromptRateLimiter.maximumCountPerSource)
        let shown = waiting.indices.reversed().count { limiter.show(&waiting[$0], now: moment(2 * window + 1)) }
        #expect(shown == PromptRateLimiter.maximumCountPerSource)
    }

    @Test("R11: the user is told once a minute that peers are turned away")
    func report() throws {
        let clock = ManualClock()
        let reported = Mutex<[PeerID]>([])
        let limiter = SharedPromptLimiter(clock: clock.read) { peer in reported.withLock { $0.append(peer) } }
        let address = LinkAddress(host: "10.0.0.1", port: 1)
        let peer = Peer(foreign: ForeignPeer(.web, identity: [1]), name: try DisplayName("phone"), address: address)
        for _ in 0..<PromptRateLimiter.maximumCountPerSource {
            #expect(limiter.admit(peer, on: .link(address)) != nil)
        }
        #expect(reported.withLock(\.self).isEmpty)
        for _ in 0..<10 { #expect(limiter.admit(peer, on: .link(address)) == nil) }
        #expect(reported.withLock(\.self) == [peer.id])
        clock.advance(by: PromptRateLimiter.interval)
        for _ in 0..<PromptRateLimiter.maximumCountPerSource + 1 { _ = limiter.admit(peer, on: .link(address)) }
        #expect(reported.withLock(\.self) == [peer.id, peer.id])
    }

    @Test("R11: an offer that was accepted before its short code came does not count as shown afterwards")
    func acceptedBeforeTheCode() throws {
        let limiter = SharedPromptLimiter { MonotonicInstant(nanoseconds: 0) }
        let name = try DisplayName("phone")
        for number in 0..<40 {
            let address = LinkAddress(host: "10.0.0.\(number)", port: 1)
            let peer = Peer(foreign: ForeignPeer(.web, identity: [UInt8(number)]), name: name, address: address)
            let prompt = try #require(limiter.admit(peer, on: .link(address), isShown: false), "\(number)")
            prompt.release()
            #expect(prompt.show())
        }
    }

    @Test("R11: a host is refused after five prompts, whatever its keys, and allowed again a minute after the first")
    func slidingWindow() {
        var limiter = PromptRateLimiter()
        var answers = (0..<5).map {
            limiter.admit(key($0), on: path("10.0.0.1"), isKnown: false, now: moment(Int64($0))) != nil
        }
        #expect(answers.allSatisfy { $0 })
        answers = [5, window - 1].map { limiter.admit(key(9), on: path("10.0.0.1"), isKnown: false, now: moment($0)) != nil }
        #expect(answers == [false, false])
        let other = limiter.admit(key(20), on: path("10.0.0.2"), isKnown: false, now: moment(5))
        #expect(other != nil)
        // The first prompt has left the window, the others count.
        answers = [window, window, 3 * window].map {
            limiter.admit(key(9), on: path("10.0.0.1"), isKnown: false, now: moment($0)) != nil
        }
        #expect(answers == [true, false, true])
    }

    @Test("R11: a key that changes its address, and the hosts of one IPv6 network, share a limit")
    func sharedSources() {
        var limiter = PromptRateLimiter()
        var count = fill(&limiter) { (1, "10.0.0.\($0)") }
        #expect(count == PromptRateLimiter.maximumCountPerSource)
        limiter = PromptRateLimiter()
        count = fill(&limiter) { ($0, "2001:db8:1:2:\($0)::\($0)") }
        #expect(count == PromptRateLimiter.maximumCountPerNetwork)
        let other = limiter.admit(key(7_000), on: path("2001:db8:1:3::1"), isKnown: false, now: moment(0))
        #expect(other != nil)
    }

    @Test("R11: the hosts of a LAN share no limit by their link-local addresses, each of which has its own")
    func linkLocal() {
        for prefix in ["fe80", "febf"] {
            var limiter = PromptRateLimiter()
            var count = fill(&limiter) { ($0, "\(prefix)::1%eth0") }
            #expect(count == PromptRateLimiter.maximumCountPerSource)
            count = fill(&limiter) { ($0 + 100, "\(prefix)::\($0 + 2)%eth0") }
            #expect(count == PromptRateLimiter.maximumTotalCount - PromptRateLimiter.maximumCountPerSource)
        }
        var limiter = PromptRateLimiter()
        let count = fill(&limiter) { ($0, "fec0::\($0)") }
        #expect(count == PromptRateLimiter.maximumCountPerNetwork)
    }

    @Test("R11: new identities behind one neighbour of the mesh take nothing from those behind another one")
    func meshNeighbours() {
        var limiter = PromptRateLimiter()
        func admit(_ number: Int, through neighbour: MeshLinkSource?) -> Bool {
            limiter.admit(key(number), on: .mesh(neighbour), isKnown: false, now: moment(0)) != nil
        }
        let (address, link) = (MeshLinkSource.address("10.0.0.1"), MeshLinkSource.link(MeshLinkID(rawValue: 1)))
        let limit = PromptRateLimiter.maximumCountPerSource
        let counts = [address, nil].map { neighbour in
            (0..<100).filter { admit(neighbour == nil ? $0 + 100 : $0, through: neighbour) }.count
        }
        #expect(counts == [limit, limit])
        let isAllowed = [link, .address("10.0.0.2")].map { admit($0 == link ? 1_000 : 1_001, through: $0) }
        #expect(isAllowed == [true, true])
        // The total holds for all neighbours together.
        let others = (0..<100).filter { admit($0 + 2_000, through: .address("10.0.1.\($0)")) }.count
        #expect(others == PromptRateLimiter.maximumTotalCount - 2 * limit - 2)
    }

    @Test("R11: all new peers together leave the share of known ones untouched, and an accepted prompt is released")
    func total() throws {
        var limiter = PromptRateLimiter()
        let accepted = limiter.admit(key(0), on: path("10.0.0.0"), isKnown: false, now: moment(0))
        let admission = try #require(accepted)
        var count = fill(&limiter) { ($0 + 1, "10.0.1.\($0)") }
        #expect(count == PromptRateLimiter.maximumTotalCount - 1)
        limiter.release(admission)
        count = fill(&limiter) { ($0 + 100, "10.0.2.\($0)") }
        #expect(count == 1)
        count = fill(&limiter, isKnown: true) { ($0 + 200, "10.0.0.0") }
        #expect(count == PromptRateLimiter.maximumCountPerSource)
    }

    @Test("R11: what a rule declines takes nothing from the questions of others, and has a limit for each host")
    func unprompted() throws {
        var limiter = PromptRateLimiter()
        func decline(_ number: Int, _ host: String) -> Bool {
            let admission = limiter.admit(key(number), on: path(host), isKnown: false, now: moment(0))
            guard let admission else { return false }
            limiter.releaseUnprompted(admission)
            return true
        }
        for number in 0..<10 * PromptRateLimiter.maximumTotalCount { #expect(decline(number, "10.0.1.\(number)")) }
        let declined = (1_000..<2_000).prefix { decline($0, "10.0.0.1") }.count
        #expect(declined == PromptRateLimiter.maximumCountPerSource * PromptRateLimiter.unpromptedFactor)
        #expect(decline(5_000, "10.0.0.2"))
        let later = limiter.admit(key(1), on: path("10.0.0.1"), isKnown: false, now: moment(window))
        #expect(later != nil)
    }

    @Test("R11: what a rule declines of some hosts of an IPv6 network turns no other host of it away")
    func unpromptedOfNetwork() {
        var limiter = PromptRateLimiter()
        // More than a network's limit on prompts allows, and less than those of the three hosts.
        for number in 0..<300 {
            let host = "2001:db8:1:2::\(number % 3)"
            guard let admission = limiter.admit(key(number), on: path(host), isKnown: false, now: moment(0)) else { break }
            limiter.releaseUnprompted(admission)
        }
        let other = limiter.admit(key(100_000), on: path("2001:db8:1:2::99"), isKnown: false, now: moment(0))
        #expect(other != nil)
    }

    @Test("R11: the network of an IPv6 address is its first 64 bits, with its zone")
    func networks() {
        let networks = ["2001:db8::5", "2001:db8:0:0:9::", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "10.0.0.1"].map {
            LinkAddress(host: $0, port: 1).ipv6Network
        }
        #expect(networks == ["2001:db8:0:0", "2001:db8:0:0", "0:0:0:0", "fe80:0:0:0%eth0", nil, nil])
    }
}
