internal import NearshareBase
package import NearshareDirect
internal import NearshareInterfaces

/// The handle by which a program negotiates a Wi-Fi network over one link, at either end (`docs/PROTOCOL.md`, section 17). The
/// `HotspotNegotiationMachine` of the link decides; the program's steps are passed to it, and its events to the program.
package final class HotspotNegotiation: Sendable {
    /// The events of the agreement, for one reader; ends after ``HotspotEvent/ended(_:)`` or with the link.
    package let events: AsyncStream<HotspotEvent>
    private let continuation: AsyncStream<HotspotEvent>.Continuation
    private let end = Promise<HotspotEndReason>()
    private let driver: LinkDriver

    init(_ driver: LinkDriver) {
        self.driver = driver
        // Bounded: the agreement of a link has fewer steps.
        (events, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
    }

    /// Waits for the end of the agreement, which may be that of the link; nil when the task is cancelled first.
    package var ended: HotspotEndReason? {
        get async { await end.value }
    }

    /// The end of the agreement; nil before.
    package var endReason: HotspotEndReason? { end.current }

    /// Asks the receiver of a running transfer for a network.
    package func request(for transfer: Transfer, _ roles: HotspotRoles) {
        driver.decideHotspot { connection, now in connection.requestHotspot(for: transfer.id, roles, now: now) }
    }

    /// Reports to the sender that the user is asked.
    package func reportQuestion() {
        driver.decideHotspot { connection, _ in connection.reportHotspotQuestion() }
    }

    /// Agrees to a network.
    /// - Parameter port: the TCP port at which this end accepts connections.
    package func agree(accessPoint: HotspotEnd, port: UInt16) {
        driver.decideHotspot { connection, now in
            connection.agreeHotspot(accessPoint: accessPoint, port: port, now: now)
        }
    }

    /// Sends the peer the network whose access point this end has started.
    package func announce(_ network: HotspotNetwork) {
        driver.decideHotspot { connection, now in connection.announceHotspot(network, now: now) }
    }

    /// Reports to the peer that this end has joined its network.
    package func confirmJoined() {
        driver.decideHotspot { connection, _ in connection.confirmHotspotJoined() }
    }

    /// Ends the agreement in any state. No effect a second time.
    package func end(_ reason: HotspotEndReason) {
        driver.decideHotspot { connection, _ in connection.endHotspot(reason) }
    }

    // MARK: For the engine

    func receive(_ event: HotspotEvent) {
        continuation.yield(event)
        if case .ended(let reason) = event { finish(reason) }
    }

    /// The link has ended.
    func finish(_ reason: HotspotEndReason = .linkLost) {
        end.fulfil(reason)
        continuation.finish()
    }
}

/// The request of a peer, whose transfer runs, for a Wi-Fi network.
package struct HotspotRequest: Sendable {
    /// The sender of the transfer.
    package let peer: Peer
    /// The roles that the peer can have.
    package let roles: HotspotRoles
    package let negotiation: HotspotNegotiation
    let prompt: PromptAdmission

    /// Declines without having asked the user.
    package func declineUnprompted(_ reason: HotspotEndReason) {
        prompt.releaseUnprompted()
        negotiation.end(reason)
    }

    /// Agrees, after the user has agreed.
    /// - Parameter port: the TCP port at which this end accepts connections.
    package func agree(accessPoint: HotspotEnd, port: UInt16) {
        prompt.release()
        negotiation.agree(accessPoint: accessPoint, port: port)
    }
}
