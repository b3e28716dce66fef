import Nearshare
import NearshareService
import Testing

@Suite("offers that are accepted without asking")
struct AcceptancePolicyTests {
    private let peer = Fingerprint(bytes: [UInt8](repeating: 1, count: 32))!
    private let other = Fingerprint(bytes: [UInt8](repeating: 2, count: 32))!

    private func offer(_ sizes: UInt64?..., kind: OfferedItem.Kind = .file, entries: UInt64 = 1) -> Offer {
        let items = sizes.map { size in
            OfferedItem(
                kind: kind, name: ClaimedFileName("photo.jpg")!, size: size, entryCount: entries, mediaType: .unknown)
        }
        return Offer(
            items: items, itemCount: UInt32(items.count), entryCount: entries * UInt64(items.count),
            totalSize: sizes.reduce(0) { total, size in
                guard let total, let size else { return nil }
                return total + size
            })
    }

    private func policy(
        _ accept: Configuration.Accept, limits: InboxLimits? = InboxLimits(), canAsk: Bool = false, quota: UInt64? = nil
    ) -> AcceptancePolicy {
        AcceptancePolicy(accept: accept, limits: limits, canAsk: canAsk, quota: PeerQuota(limit: quota))
    }

    private func verdict(
        _ policy: AcceptancePolicy, _ offer: Offer, _ status: TrustStatus = .new, from peer: Fingerprint? = nil,
        freeSpace: UInt64? = nil, _ change: (inout AcceptancePolicy.Facts) -> Void = { _ in }
    ) -> AcceptancePolicy.Verdict {
        var facts = AcceptancePolicy.Facts(of: peer ?? self.peer, status)
        facts.freeSpace = freeSpace
        change(&facts)
        return policy.verdict(on: offer, facts)
    }

    private var friend: TrustStatus { .known(.seen, isFriend: true) }
    private var clash: TrustStatus { .nameClash(knownAs: other) }

    @Test("each policy accepts the peers that it names")
    func policies() throws {
        let offer = offer(10)
        #expect(verdict(policy(.none), offer, friend) == .decline(.acceptsNothing))
        #expect(verdict(policy(.all), offer) == .accept)
        #expect(verdict(policy(.friends), offer, friend) == .accept)
        #expect(verdict(policy(.friends), offer, .known(.verified, isFriend: false)) == .decline(.notAllowed))
        #expect(verdict(policy(.friends), offer, .known(.blocked, isFriend: true)) == .decline(.notAllowed))
        #expect(verdict(policy(.ask, canAsk: true), offer) == .ask)
        #expect(verdict(policy(.ask), offer, friend) == .decline(.notAllowed))
    }

    @Test("K2: a peer that claims another one's name is never accepted without asking")
    func nameClash() throws {
        let offer = offer(10)
        #expect(verdict(policy(.all), offer, clash) == .decline(.identityChanged))
        #expect(verdict(policy(.friends), offer, clash) == .decline(.notAllowed))
        #expect(verdict(policy(.ask, canAsk: true), offer, clash) == .ask)
        // The key of a friend decides, and not the name.
        for (accept, expected) in [(.all, .accept), (.friends, .accept), (.none, .decline(.acceptsNothing))]
            as [(Configuration.Accept, AcceptancePolicy.Verdict)]
        {
            #expect(verdict(policy(accept), offer, clash) { $0.hasFriendKey = true } == expected)
        }
    }

    @Test("limits on size, entries and free space come before the user is asked")
    func limits() throws {
        var limits = InboxLimits()
        limits.maximumSize = 100
        func reason(_ offer: Offer, freeSpace: UInt64? = nil) -> DeclineReason? {
            let verdict = verdict(policy(.ask, limits: limits, canAsk: true), offer, freeSpace: freeSpace)
            if case .decline(let reason, .some) = verdict { return reason }
            return nil
        }
        #expect(reason(offer(100)) == nil)
        #expect(reason(offer(101)) == .tooLarge)
        #expect(reason(offer(60, 60)) == .tooLarge)
        #expect(reason(offer(nil)) == nil)
        #expect(reason(offer(50), freeSpace: 49) == .noSpace)
        #expect(reason(offer(50), freeSpace: 50) == nil)
        // The bytes that an interrupted transfer has stored take no more space.
        let rest = policy(.all, limits: limits, canAsk: true)
        for (received, isAccepted) in [(20, true), (19, false)] as [(UInt64, Bool)] {
            let verdict = verdict(rest, offer(50), freeSpace: 30) { $0.receivedByteCount = { received } }
            #expect((verdict == .accept) == isAccepted)
        }
        #expect(reason(offer(50, kind: .folder, entries: UInt64(limits.maximumEntries) + 1)) == .tooLarge)
    }

    @Test("standard output takes one file, and no folder")
    func standardOutput() throws {
        let policy = policy(.all, limits: nil)
        #expect(verdict(policy, offer(nil)) == .accept)
        guard case .decline(.singleFileOnly, let detail?) = verdict(policy, offer(1, 1)) else {
            Issue.record("two files were accepted")
            return
        }
        #expect(detail.contains("without --stdout"))
        guard case .decline(.singleFileOnly, .some) = verdict(policy, offer(1, kind: .folder)) else {
            Issue.record("a folder was accepted")
            return
        }
        let asking = self.policy(.ask, limits: nil, canAsk: true)
        for refused in [offer(1, 1), offer(1, kind: .folder)] {
            let verdict = verdict(asking, refused) { $0.sendsParts = true }
            guard case .decline(.singleFileOnly, .some) = verdict else {
                Issue.record("the user was asked about what cannot be accepted")
                continue
            }
        }
    }

    @Test("R8: one peer leaves no more than its quota, and another one has its own")
    func quota() throws {
        // Two entries, and 100 bytes.
        let policy = policy(.all, quota: 2 * Offer.diskByteCountPerEntry + 100)
        #expect(verdict(policy, offer(60)) == .accept)
        guard case .decline(.tooLarge, let detail?) = verdict(policy, offer(41)) else {
            Issue.record("more than the quota was accepted")
            return
        }
        #expect(detail.contains("4.2 KB") && detail.contains("4.1 KB"))
        #expect(verdict(policy, offer(40)) == .accept)
        #expect(verdict(policy, offer(100), from: other) == .accept)
        // Discarded bytes do not count.
        policy.release(offer(40).storedByteCount, from: peer)
        #expect(verdict(policy, offer(40)) == .accept)
        guard case .decline(.tooLarge, .some) = verdict(policy, offer(nil)) else {
            Issue.record("an unknown size was accepted")
            return
        }
    }

    @Test("Q7: what is kept of unfinished transfers counts, and so do folders and empty files")
    func keptBytes() {
        let policy = policy(.all, quota: 100_000)
        func verdict(_ offer: Offer, partial: UInt64) -> AcceptancePolicy.Verdict {
            self.verdict(policy, offer) { $0.partialByteCount = { partial } }
        }
        guard case .decline(.tooLarge, .some) = verdict(offer(10_000), partial: 90_000) else {
            Issue.record("kept bytes did not count")
            return
        }
        guard case .decline(.tooLarge, .some) = verdict(offer(0, kind: .folder, entries: 30), partial: 0) else {
            Issue.record("entries did not count")
            return
        }
        guard case .decline(.tooLarge, .some) = verdict(offer(10), partial: .max) else {
            Issue.record("the sum overflowed")
            return
        }
        // Each of 24 empty files takes a place, and the next one has none.
        for _ in 0..<24 { #expect(verdict(offer(0), partial: 0) == .accept) }
        guard case .decline(.tooLarge, .some) = verdict(offer(0), partial: 0) else {
            Issue.record("empty files did not count")
            return
        }
        var limits = InboxLimits()
        limits.maximumSize = 1000
        let single = AcceptancePolicy(accept: .all, limits: limits, canAsk: false, quota: PeerQuota(limit: nil))
        #expect(self.verdict(single, offer(1000)) == .accept)
        let many = self.verdict(single, offer(0, kind: .folder, entries: 2))
        guard case .decline(.tooLarge, .some) = many else {
            Issue.record("a folder with empty files is under the limit")
            return
        }
    }

    @Test("a user who is asked decides about any amount")
    func askedQuota() throws {
        let policy = policy(.ask, canAsk: true, quota: 1)
        for _ in 0..<3 { #expect(verdict(policy, offer(1_000)) == .ask) }
        policy.release(offer(1_000).storedByteCount, from: peer)
        #expect(verdict(policy, offer(1_000)) == .ask)
    }

    @Test("R8: where files are present, what is missing counts")
    func missing() {
        var limits = InboxLimits()
        limits.maximumSize = 100
        func verdict(_ accept: Configuration.Accept, _ offer: Offer, isPresent: Bool, quota: UInt64? = nil)
            -> AcceptancePolicy.Verdict
        {
            self.verdict(policy(accept, limits: limits, canAsk: accept == .ask, quota: quota), offer) {
                $0.isPartlyPresent = { isPresent }
            }
        }
        #expect(verdict(.all, offer(101), isPresent: true) == .acceptMissing)
        #expect(verdict(.ask, offer(101), isPresent: true) == .ask)
        #expect(verdict(.friends, offer(101), isPresent: true) == .decline(.notAllowed))
        #expect(verdict(.all, offer(100), isPresent: true) == .accept)
        #expect(verdict(.all, offer(100), isPresent: true, quota: 99) == .acceptMissing)
        for refused in [
            verdict(.all, offer(101), isPresent: false), verdict(.all, offer(100), isPresent: false, quota: 99),
            verdict(.all, offer(nil), isPresent: true, quota: 99),
            verdict(.all, offer(1, kind: .folder, entries: 1_000_001), isPresent: true),
        ] {
            guard case .decline(.tooLarge, .some) = refused else {
                Issue.record("\(refused)")
                continue
            }
        }
    }

    @Test("a user who can select a part is asked about what is too large")
    func parts() {
        let policy = policy(.ask, canAsk: true)
        func verdict(sendsParts: Bool) -> AcceptancePolicy.Verdict {
            self.verdict(policy, offer(101), freeSpace: 100) { $0.sendsParts = sendsParts }
        }
        guard case .askForPart(.noSpace, _) = verdict(sendsParts: true), case .decline(.noSpace, _) = verdict(sendsParts: false)
        else {
            Issue.record("\(verdict(sendsParts: true))")
            return
        }
    }

    @Test("R8: peers of one address share a limit, and each one has it for itself") func sharedLimit() {
        let quota = PeerQuota(limit: 100)
        #expect(quota.reserve(60, for: peer, at: "10.0.0.1") == .reserved)
        #expect(quota.reserve(60, for: other, at: "10.0.0.1") == .exceeds(limit: 100, used: 60))
        #expect(quota.reserve(60, for: other, at: "10.0.0.2") == .reserved)
        #expect(quota.reserve(60, for: peer, at: "10.0.0.3") == .exceeds(limit: 100, used: 60), "the key is the same")
        quota.release(60, for: peer, at: "10.0.0.1")
        #expect(quota.reserve(100, for: peer, at: "10.0.0.1") == .reserved)
        #expect(quota.reserve(1, for: Fingerprint(bytes: [UInt8](repeating: 3, count: 32))!) == .reserved, "a friend")
    }

    @Test("Q7: what is kept of a peer's unfinished transfers counts for the other peers of its address")
    func keptOfOthers() {
        let quota = PeerQuota(limit: 100)
        #expect(quota.reserve(80, for: peer, at: "10.0.0.1") == .reserved)
        quota.recordPartial({ 70 }, of: peer, at: "10.0.0.1")
        quota.release(80, for: peer, at: "10.0.0.1")
        #expect(quota.reserve(80, for: other, at: "10.0.0.1") == .exceeds(limit: 100, used: 70))
        #expect(quota.reserve(30, for: other, at: "10.0.0.1") == .reserved)
        #expect(quota.reserve(80, for: other, at: "10.0.0.2") == .exceeds(limit: 100, used: 30), "the key is the same")
        quota.release(30, for: other, at: "10.0.0.1")
        // Its own content is not counted twice when it is resumed, and nothing is left of it at its end.
        #expect(quota.reserve(80, for: peer, at: "10.0.0.1") == .reserved)
        quota.release(80, for: peer, at: "10.0.0.1")
        #expect(quota.reserve(100, for: other, at: "10.0.0.1") == .reserved)
    }

    @Test("the quota neither overflows nor falls below zero")
    func quotaBounds() {
        let quota = PeerQuota(limit: .max)
        #expect(quota.reserve(.max, for: peer) == .reserved)
        #expect(quota.reserve(1, for: peer) == .exceeds(limit: .max, used: .max))
        quota.release(5, for: other)
        quota.release(.max, for: peer)
        quota.release(.max, for: peer)
        #expect(quota.reserve(.max, for: peer) == .reserved)
        let unlimited = PeerQuota(limit: nil)
        #expect(unlimited.reserve(nil, for: peer) == .reserved)
    }

    @Test("X4: the policy of a process: given, configured, or by whether the user can be asked")
    func choice() throws {
        var configuration = Configuration()
        #expect(configuration.acceptance(given: nil, hasTerminal: true) == Acceptance(.ask))
        #expect(configuration.acceptance(given: nil, hasTerminal: false) == Acceptance(.ask, exemptsFriends: true))
        #expect(configuration.acceptance(given: .all, hasTerminal: false) == Acceptance(.all))
        #expect(configuration.acceptance(given: .ask, hasTerminal: false) == Acceptance(.ask))
        configuration.accept = .ask
        #expect(configuration.acceptance(given: nil, hasTerminal: false) == Acceptance(.ask), "friends are asked about as well")
        configuration.accept = Configuration.Accept.none
        #expect(configuration.acceptance(given: nil, hasTerminal: true) == Acceptance(.none))
    }
}
