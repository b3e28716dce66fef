package import NearshareCrypto
package import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// A node's side that peers connect to: received offers and session invitations.
public struct Listener: Sendable {
    /// Invitations and requests that the program has not read; of too many, the oldest are released, and so declined.
    struct Queues: Sendable {
        let invitations = AsyncQueue<Invitation>(limit: .droppingOldest(beyond: Queues.maximumUnreadCount))
        let verificationRequests = AsyncQueue<VerificationRequest>(limit: .droppingOldest(beyond: Queues.maximumUnreadCount))
        let sessions = AsyncQueue<SessionInvitation>(limit: .droppingOldest(beyond: Queues.maximumUnreadCount))
        let hotspotRequests = AsyncQueue<HotspotRequest>(limit: .droppingOldest(beyond: Queues.maximumUnreadCount))

        private static let maximumUnreadCount = 256

        func finish() {
            invitations.finish()
            verificationRequests.finish()
            sessions.finish()
            hotspotRequests.finish()
        }
    }

    /// The TCP port that it listens on; 0 while it has none. The number stays after the node has stopped; another socket can have
    /// the port then.
    public var port: UInt16 { endpoint.port }
    /// Offers of peers, for one reader at a time. An invitation released unanswered is declined. A reader that is cancelled is
    /// followed by another one.
    public var invitations: AsyncStream<Invitation> { queues.invitations.stream }
    /// Requests of peers to compare the short code.
    package var verificationRequests: AsyncStream<VerificationRequest> { queues.verificationRequests.stream }
    /// Invitations into sessions, for one reader at a time. An invitation released unanswered is declined. A reader that is
    /// cancelled is followed by another one.
    public var sessionInvitations: AsyncStream<SessionInvitation> { queues.sessions.stream }
    /// Requests of peers for a Wi-Fi network for a transfer. An unread one ends with its deadline.
    package var hotspotRequests: AsyncStream<HotspotRequest> { queues.hotspotRequests.stream }
    let queues: Queues
    /// The service type to advertise.
    let service: ServiceType
    let endpoint = ListenerEndpoint()
    /// The advertised record.
    let record: SharedRecord
    let radioEvent = Promise<Node.RadioState>()

    /// Waits until the radio is ready or has failed; never returns a state for a node without a radio. nil when the task is
    /// cancelled first.
    package var radio: Node.RadioState? {
        get async { await radioEvent.value }
    }

    /// Joins the sessions that a policy allows, and declines all others. The inviting peer is a member of each,
    /// unless the settings' trust policy asks the user first: see ``SessionInvitation/accept(_:asksTrust:)``.
    ///
    /// Up to 16 invitations are judged at the same time, so that one whose question is not answered holds up no other; further
    /// ones wait. An invitation is accepted when the reader asks for the next session. One that cannot be accepted any more is
    /// skipped: it was withdrawn or has expired, the session is full or over on this node, or another process takes part in
    /// sessions with the identity of the user. When the reader ends, those that it has judged or was judging are declined, and the
    /// others wait for the next reader.
    /// - Throws: ``SessionError/invalidParameter(_:)`` for settings out of their bounds.
    public func sessions(
        _ policy: InvitationPolicy, settings: SessionSettings = SessionSettings()
    ) throws(SessionError) -> some AsyncSequence<Session, Never> & Sendable {
        try settings.check()
        return AcceptedSessions(invitations: queues.sessions, policy: policy, settings: settings)
    }

    /// Withdraws the advertisement, except that over Bluetooth. Peers that know the address, and existing links, are served as
    /// before. ``Node/listen(as:info:port:usesRadio:joinsMesh:)`` with the same type advertises the listener again.
    public func stopAdvertising() { endpoint.stopAdvertising() }

    /// Replaces the advertised key-value pairs. No peer sees those that are set after ``stopAdvertising()``: the next call of
    /// `listen` has its own.
    /// - Throws: ``NodeError/invalidParameter(_:)`` for pairs that break the rules of ``Node/listen(as:info:port:usesRadio:joinsMesh:)``,
    ///   ``NodeError/unavailable(_:)`` when discovery does not work any more.
    public func update(info: [String: String]) throws(NodeError) {
        let info = try DiscoveryInfo(checking: info)
        try update { $0.info = info }
    }

    /// Withdraws the announcement that this node accepts links of the mesh.
    func stopAcceptingMeshLinks() throws(NodeError) {
        try update { $0.acceptsMeshLinks = false }
    }

    private func update(_ change: (inout PeerTXTRecord) -> Void) throws(NodeError) {
        let record = record.change(change)
        do {
            try endpoint.advertisement?.update(txt: record.strings)
        } catch {
            throw .unavailable(error.description)
        }
    }
}

/// A peer's request to compare short authentication strings.
package struct VerificationRequest: Sendable {
    /// The requesting peer.
    package let peer: Peer
    /// The short authentication string; the same on both ends unless the link is intercepted.
    package let shortCode: ShortAuthenticationDigits
    let link: LinkDriver
    let end: Promise<TransferOutcome>
    let peerConfirmed: Promise<Bool>
    let prompt: PromptAdmission

    /// Waits until the link, and with it the request, has ended; nil when the task is cancelled first.
    package var ended: TransferOutcome? {
        get async { await end.value }
    }

    /// Waits for the other user's answer; nil when the link ends first, or the task is cancelled. A key is verified once both
    /// users have said yes.
    package var peerConfirmation: Bool? {
        get async {
            await firstResult(of: { _ = await peerConfirmed.value }, { _ = await end.value })
            return peerConfirmed.current
        }
    }

    init(
        peer: Peer, shortCode: ShortAuthenticationDigits, link: LinkDriver, end: Promise<TransferOutcome>,
        peerConfirmed: Promise<Bool>, prompt: PromptAdmission
    ) {
        self.peer = peer
        self.shortCode = shortCode
        self.link = link
        self.end = end
        self.peerConfirmed = peerConfirmed
        self.prompt = prompt
    }

    /// Ends the link without an answer about the codes, because the local user cannot be asked.
    package func declineUnattended() {
        prompt.releaseUnprompted()
        link.close(.unattended)
    }

    /// Sends the local user's answer.
    package func answer(matches: Bool) {
        if matches { prompt.release() }
        link.answerVerification(matches: matches)
    }
}

/// The TCP port of a listener, which may be closed and opened again, and its advertisement.
final class ListenerEndpoint: Sendable {
    typealias Parts = (listener: any StreamListener, advertisement: (any RunningAdvertisement)?)

    private struct State {
        var parts: Parts?
        /// Whether the program has withdrawn the advertisement.
        var isWithdrawn = false
        /// The number of the latest attempt to advertise: one that ends after a later one has begun has no effect.
        var attempt = 0
    }

    private let state = Mutex(State())

    var port: UInt16 { state.withLock { $0.parts?.listener.port ?? 0 } }
    /// nil without discovery, and while the advertisement is withdrawn.
    var advertisement: (any RunningAdvertisement)? { state.withLock { $0.isWithdrawn ? nil : $0.parts?.advertisement } }

    func open(_ listener: any StreamListener, _ advertisement: (any RunningAdvertisement)?) {
        state.withLock { state in
            state.parts = (listener, advertisement)
            state.isWithdrawn = false
            // Bounded: counts calls of the program, as in `beginAdvertising`.
            state.attempt += 1
        }
    }

    /// - Returns: what is to be closed.
    func close() -> Parts? { state.withLock { $0.parts.take() } }

    /// Withdraws the advertisement. No effect without a port.
    func stopAdvertising() {
        let advertisement = state.withLock { state -> (any RunningAdvertisement)? in
            state.isWithdrawn = state.parts != nil
            return state.parts?.advertisement
        }
        advertisement?.stop()
    }

    /// Begins to advertise again, after ``stopAdvertising()``.
    /// - Parameter port: 0 for the one that it has.
    /// - Returns: the number of the attempt, and the former advertisement; nil unless the advertisement was withdrawn, and the port
    ///   is that one.
    func beginAdvertising(onPort port: UInt16) -> (attempt: Int, former: (any RunningAdvertisement)?)? {
        state.withLock { state in
            guard state.isWithdrawn, let parts = state.parts, port == 0 || port == parts.listener.port else { return nil }
            state.parts = (parts.listener, nil)
            state.isWithdrawn = false
            state.attempt += 1
            return (state.attempt, parts.advertisement)
        }
    }

    /// Ends what ``beginAdvertising(onPort:)`` has begun.
    /// - Returns: false when the advertisement is not wanted any more: it was withdrawn again, another one has been begun since, or
    ///   the port is closed.
    func finishAdvertising(_ advertisement: (any RunningAdvertisement)?, attempt: Int) -> Bool {
        state.withLock { state in
            guard !state.isWithdrawn, state.attempt == attempt, let parts = state.parts else { return false }
            state.parts = (parts.listener, advertisement)
            return true
        }
    }
}

/// The advertised record, which several tasks may change.
final class SharedRecord: Sendable {
    private let record: Mutex<PeerTXTRecord>

    init(_ record: PeerTXTRecord) {
        self.record = Mutex(record)
    }

    var current: PeerTXTRecord { record.withLock(\.self) }

    func change(_ body: (inout PeerTXTRecord) -> Void) -> PeerTXTRecord {
        record.withLock { record in
            body(&record)
            return record
        }
    }
}
