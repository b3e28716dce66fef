package import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh

/// Asks single peers what their nodes answer without their users.
final class MeshQueries: Sendable {
    private let settings: NodeSettings
    private let router: RouterDriver
    private let tasks: OwnedTasks
    private let answers = Broadcast<MeshEvent>()

    init(_ settings: NodeSettings, _ router: RouterDriver, _ tasks: OwnedTasks) {
        (self.settings, self.router, self.tasks) = (settings, router, tasks)
    }

    /// Passes an answer to the query that waits for it.
    func receive(_ answer: MeshEvent) { answers.publish(answer) }

    // MARK: Queries

    private static let verificationTimeout = Duration.seconds(15)
    /// A challenge or its answer may be lost, as over a radio.
    private static let verificationInterval = Duration.seconds(4)

    /// Asks a peer, inside a session, to prove that it holds both keys of its verification code.
    /// - Returns: nil when the peer does not answer, or does not prove it.
    func verify(_ code: MeshVerificationCode) async -> AuthenticatedPeer? {
        guard let key = code.agreementKey else { return nil }
        let peer = Fingerprint(of: key).peerID
        let challenge = MeshVerification.Challenge(
            noiseKeyHex: code.noiseKeyHex, nonce: settings.random(MeshVerification.nonceByteCount))
        return await answer(
            timeout: Self.verificationTimeout, interval: Self.verificationInterval,
            asking: { router, now in router.verify(challenge, with: peer, now: now) },
            matching: { event in
                guard case .verificationResponse(let response, let peer) = event,
                    code.isProven(by: response, to: challenge, of: peer)
                else { return nil }
                return peer
            })
    }

    private static let pingTimeout = Duration.seconds(6)
    private static let pingInterval = Duration.seconds(2)

    /// Checks whether a peer answers.
    /// - Returns: nil when it does not answer.
    func ping(_ peer: PeerID) async -> MeshPingResult? {
        let start = settings.clock()
        let nonce = settings.random(8)
        let hops = await answer(
            timeout: Self.pingTimeout, interval: Self.pingInterval,
            asking: { router, now in router.ping(peer, nonce: nonce, now: now) },
            matching: { event -> Int? in
                guard case .pong(peer, nonce, let hops) = event else { return nil }
                return hops
            })
        guard let hops else { return nil }
        return MeshPingResult(time: settings.clock() - start, hops: hops, nextHop: router.read { $0.nextHop(to: peer) })
    }

    /// Asks until there is an answer.
    /// - Parameter match: returns nil for answers to other questions.
    /// - Returns: nil at the timeout, and when the node stops.
    private func answer<Answer: Sendable>(
        timeout: Duration, interval: Duration, asking ask: @escaping @Sendable (inout MeshRouter, Moment) -> Void,
        matching match: @escaping @Sendable (MeshEvent) -> Answer?
    ) async -> Answer? {
        let answers = answers.subscribe()
        return await firstResult(
            of: {
                for await event in answers { if let answer = match(event) { return answer } }
                return nil
            },
            {
                let end = self.settings.clock() + timeout
                while !Task.isCancelled, self.settings.clock() < end {
                    self.router.update { router, now in ask(&router, now) }
                    try? await Task.sleep(for: min(interval, max(.zero, end - self.settings.clock())))
                }
                return nil
            },
            {
                _ = await self.tasks.stopping.value
                return nil
            })
    }
}

/// The answer of a peer to a ping.
package struct MeshPingResult: Sendable, Hashable {
    /// The time from the first question to the answer.
    package var time: Duration
    /// Hop count of the answer, from its ttl.
    package var hops: Int
    /// The neighbour through which the peer was heard last; nil for a neighbour.
    package var nextHop: PeerID?
}
