package import NearshareBase
public import NearshareCrypto
internal import NearshareDirect
package import NearshareInterfaces
internal import Synchronization

/// An encrypted link to one peer whose key is proven, from the side that opened it.
public final class Connection: Sendable {
    private struct State {
        var name: DisplayName?
        var clockDifference: Duration?
        var code: ShortAuthenticationDigits?
        var peerConfirmation: Bool?
        var end: NodeError?
        var isClosedByPeer = false
        var foundNoSlot = false
    }

    /// The destination of the connection, with the expected identity.
    package let destination: PeerDestination
    /// The peer, whose key the link has proven.
    package let proven: AuthenticatedPeer
    /// The version of the protocol that both ends speak.
    package let version: UInt8
    /// The address at which the peer answered.
    package let address: LinkAddress
    private let driver: LinkDriver
    private let settings: NodeSettings
    private let transfers: TransferProgressManager
    private let state = Mutex(State())
    /// Locked from the check that there is room for an offer until it is made: calls at the same time must not exceed the limit.
    private let offers = Mutex(())
    /// Wakes tasks that wait for the peer's name, the short code, the comparison or the end.
    private let news = AsyncCondition()

    private init(
        to proven: AuthenticatedPeer, version: UInt8, driver: LinkDriver, address: LinkAddress,
        destination: PeerDestination, settings: NodeSettings, transfers: TransferProgressManager
    ) {
        self.proven = proven
        self.version = version
        self.driver = driver
        self.address = address
        self.destination = destination
        self.settings = settings
        self.transfers = transfers
        hotspot = HotspotNegotiation(driver)
    }

    /// The trust in the peer's key and in the name under which it was looked up.
    public var trustStatus: TrustStatus { settings.trustStatus(proven, destination.name) }

    /// Waits for the name that the peer claims.
    /// - Throws: ``NodeError`` when the link ended before.
    package var peerName: DisplayName {
        get async throws { try await waitFor { $0.name } }
    }

    /// Waits for the difference between the peer's clock and this node's, including the transit time of the peer's greeting.
    /// - Throws: ``NodeError`` when the link ended before.
    package var clockDifference: Duration {
        get async throws { try await waitFor { $0.clockDifference } }
    }

    /// Waits for the short authentication string that both users see: eight digits, "1234 5678". A peer that withholds its part of
    /// it keeps the caller waiting for as long as the link is open, so bound the wait (Q9).
    /// - Throws: ``NodeError`` when the link ended before.
    public var shortCode: String {
        get async throws { try await authenticationDigits.description }
    }

    /// ``shortCode`` as a value.
    package var authenticationDigits: ShortAuthenticationDigits {
        get async throws { try await waitFor { $0.code } }
    }

    /// Asks the other user to compare the short authentication strings. Both users answer: see ``answerVerification(matches:)``
    /// and ``peerConfirmation``.
    package func requestVerification() async throws {
        _ = try await authenticationDigits
        driver.requestVerification()
    }

    /// Sends the local user's answer about the short authentication string.
    package func answerVerification(matches: Bool) {
        driver.answerVerification(matches: matches)
    }

    /// Waits for the other user's answer about the short authentication string.
    /// - Throws: ``NodeError`` when the link ended before.
    package var peerConfirmation: Bool {
        get async throws { try await waitFor { $0.peerConfirmation } }
    }

    /// The agreement about a Wi-Fi network for a transfer on this link.
    package let hotspot: HotspotNegotiation

    /// Stops a transfer that goes on over another link: the receiver keeps what it has, and the user's answer.
    package func suspend(_ transfer: Transfer) { driver.cancel(transfer.id, because: .goingAway) }

    /// Waits until the link has ended, and returns the reason.
    package var ending: NodeError {
        get async throws { try await waitFor { $0.end } }
    }

    /// The reason why the link has ended; nil while it is open.
    package var end: NodeError? { state.withLock { $0.end } }

    /// Whether the peer has closed the link, and would close another one as well: not because it was shutting down, or had too
    /// many links.
    package var isClosedByPeer: Bool { state.withLock { $0.isClosedByPeer } }

    /// Whether the peer has closed the link because it has too many: another one may get a slot.
    package var foundNoSlot: Bool { state.withLock { $0.foundNoSlot } }

    /// Offers a resource, once the peer has answered the offers before, and sends it when the peer accepts.
    /// - Parameters:
    ///   - resumeKey: 32 bytes, equal for repeated sends of the same content.
    ///   - timeout: time in which the other user can answer; 1 to 600 seconds.
    ///   - rateLimit: shared by several transfers; nil for none.
    package func send(
        _ source: any ResourceSource, resumeKey: [UInt8], context: [UInt8] = [], timeout: Duration,
        rateLimit: TransmissionLimit? = nil
    ) -> Transfer {
        precondition(resumeKey.count == 32 && context.count <= TransferOffer.maximumContextByteCount)
        return driver.send(
            source, resumeKey: resumeKey, context: context, timeout: timeout, rateLimit: rateLimit, settings, transfers)
    }

    /// Offers a resource in the same way, unless too many offers wait for the peer's answers.
    /// - Returns: nil while too many wait; then nothing is offered.
    package func sendIfRoom(
        _ source: any ResourceSource, resumeKey: [UInt8], context: [UInt8] = [], timeout: Duration
    ) -> Transfer? {
        offers.withLock { _ in
            driver.hasRoomForOffer ? send(source, resumeKey: resumeKey, context: context, timeout: timeout) : nil
        }
    }

    // MARK: For the engine

    /// Waits for the handshake, and checks that its key is the expected one (K2, K4, D1).
    static func open(
        _ driver: LinkDriver, at address: LinkAddress, to destination: PeerDestination, settings: NodeSettings,
        transfers: TransferProgressManager
    ) async throws(NodeError) -> Connection {
        for await event in driver.events {
            switch event {
            case .established(let peer, let handshake):
                if let expected = destination.id, peer.id != expected {
                    throw .identityMismatch(
                        "the peer at \(address) is \(peer.id), not \(expected) as announced; "
                            + "it may be impersonating \(destination.name?.shown ?? "the expected peer")")
                }
                if let expected = destination.fingerprint, peer.fingerprint != expected {
                    throw .identityMismatch(
                        "the peer at \(address) has the id \(peer.id), but another key than the expected one; "
                            + "it may be impersonating \(destination.name?.shown ?? "the expected peer")")
                }
                let connection = Connection(
                    to: peer, version: handshake.version, driver: driver, address: address, destination: destination,
                    settings: settings, transfers: transfers)
                if connection.trustStatus.isBlocked { throw .blocked(destination.name?.shown ?? peer.id.hex) }
                return connection
            case .closed(let end): throw NodeError(end)
            default: break
            }
        }
        throw .connectionLost("the connection ended before it was established")
    }

    /// Runs `body` while the link's events are handled.
    func following<Result: Sendable>(_ body: @Sendable @escaping (Connection) async throws -> Result) async throws -> Result {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await self.follow() }
            let result = try await body(self)
            group.cancelAll()
            return result
        }
    }

    private func follow() async {
        for await event in driver.events {
            state.withLock { state in
                switch event {
                case .greeted(let name, let time):
                    state.name = name
                    state.clockDifference = time.difference(from: settings.wallClock())
                case .shortCode(let code): state.code = code
                case .closed(let end):
                    state.end = NodeError(end)
                    state.foundNoSlot = end == .closure(.closed(by: .remote, .tooManyLinks))
                    if case .closure(.closed(by: .remote, let reason)) = end,
                        ![.goingAway, .tooManyLinks].contains(reason)
                    {
                        state.isClosedByPeer = true
                    }
                case .verificationAnswered(let matches): state.peerConfirmation = matches
                case .established, .invitationEnded, .session: break
                case .hotspot(let event): hotspot.receive(event)
                // No user is asked here. A "no" would tell the other one that the codes differ, and a transfer goes on.
                case .verificationRequested: break
                // A sending link takes no offers: a peer that offers something opens a link.
                case .invited(let offer, _): driver.decline(offer.id, because: .notAllowed)
                }
            }
            news.notifyAll()
        }
        // Waiting tasks see the end, also when this task was cancelled.
        state.withLock { state in
            if state.end == nil { state.end = .connectionLost("the connection has ended") }
        }
        hotspot.finish()
        news.notifyAll()
    }

    private func waitFor<Value: Sendable>(_ value: @escaping @Sendable (borrowing State) -> Value?) async throws -> Value {
        let result = await news.waitForValue { [self] () -> Result<Value, NodeError>? in
            state.withLock { state in
                if let value = value(state) { return .success(value) }
                return state.end.map { .failure($0) }
            }
        }
        guard let result else { throw CancellationError() }
        return try result.get()
    }
}
