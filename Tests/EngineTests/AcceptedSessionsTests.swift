import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareCrypto
@testable import NearshareEngine

/// Invitations that a policy judges, without a node.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct AcceptedSessionsTests {
    private let refusals = AsyncQueue<SessionRefusal>()

    private func peer(_ number: Int) throws -> Peer {
        Peer(
            proven: AuthenticatedPeer(key: TestNetwork.identity(number).agreementKey.publicKey),
            name: try DisplayName("peer"), trustStatus: .new, address: nil, version: nil)
    }

    private func invitation(of peer: Peer, prompt: PromptAdmission = .exempt) throws -> SessionInvitation {
        SessionInvitation(
            peer: peer, session: try #require(SessionID(bytes: [UInt8](repeating: 1, count: SessionID.byteCount))),
            context: [], proof: [], handshakeHash: [], prompt: prompt,
            join: { (_, _) throws(SessionError) -> Session in throw .left },
            refuse: { [refusals] in refusals.enqueue($0) })
    }

    @Test("a reader that ends declines the invitations that it was judging, and leaves those that wait to the next one")
    func endedReader() async throws {
        let invitations = AsyncQueue<SessionInvitation>()
        for number in 1...20 { invitations.enqueue(try invitation(of: peer(number))) }
        let asked = AsyncQueue<PeerID>()
        let answer = Promise<Bool>()
        let policy = InvitationPolicy { invitation in
            asked.enqueue(invitation.peer.id)
            return await answer.eventualValue ?? false
        }
        let sessions = AcceptedSessions(invitations: invitations, policy: policy, settings: SessionSettings())
        let reader = Task { await sessions.first { _ in true } }
        for _ in 0..<16 { _ = await asked.dequeue() }
        reader.cancel()
        let session = await reader.value
        #expect(session == nil)
        for _ in 0..<16 {
            let refusal = await refusals.dequeue()
            #expect(refusal == .declined)
        }
        answer.fulfil(true)
        #expect(invitations.count == 4)
    }

    @Test(
        "R11: an invitation that the user declines counts as a question, and one that a rule declines does not",
        arguments: [true, false])
    func declinedQuestions(_ asksUser: Bool) async throws {
        let limiter = SharedPromptLimiter { MonotonicInstant(nanoseconds: 0) }
        let path = PromptRateLimiter.Path.link(LinkAddress(host: "10.0.0.1", port: 1))
        let inviting = try peer(1)
        let invitations = AsyncQueue<SessionInvitation>()
        for _ in 0..<PromptRateLimiter.maximumCountPerSource {
            let prompt = try #require(limiter.admit(inviting, on: path))
            invitations.enqueue(try invitation(of: inviting, prompt: prompt))
        }
        invitations.finish()
        let policy = InvitationPolicy(isProof: true, asksUser: asksUser) { _ in false }
        let sessions = AcceptedSessions(invitations: invitations, policy: policy, settings: SessionSettings())
        for await _ in sessions { Issue.record("a session was joined") }
        #expect(refusals.count == PromptRateLimiter.maximumCountPerSource)
        let further = limiter.admit(inviting, on: path)
        #expect((further == nil) == asksUser)
    }
}
