package import Nearshare

/// A step of a Wi-Fi network that this machine makes or joins, for phones or for a transfer.
package struct HotspotStep: Sendable {
    /// The state that the step leads to. The raw values are those of the JSON event.
    package enum State: String, Sendable {
        /// A user is asked: that of this machine, or the receiver of a transfer.
        case asking
        /// This machine starts the network.
        case starting
        /// The peer starts the network.
        case awaiting
        /// This machine joins the network of the peer.
        case joining
        /// Both ends of the transfer are in the network.
        case active
        /// There is no network, for the reason that is stated. A transfer goes on over Bluetooth.
        case abandoned
        /// The network is gone, and the device has the connection that it had before.
        case ended
    }

    /// The reason why there is no network, or none any more. The raw values are those of the JSON event.
    package enum Reason: String, Sendable {
        /// The peers have a common network.
        case notNeeded = "not_needed"
        /// A user declined it.
        case declined
        /// A machine cannot take part, or its user cannot be asked.
        case unavailable
        /// The peer's machine takes part in another network, or asks no more questions now.
        case busy
        /// The network could not be started or joined, or has ended by itself.
        case failed
        /// The addresses of the network are in use on this machine.
        case overlapping
        /// The peer did not answer, or was not ready in time.
        case timedOut = "timed_out"
        /// The link to the peer was lost.
        case linkLost = "link_lost"
        /// The peer has a version without hotspots.
        case unsupported
        /// The transfer has ended meanwhile.
        case transferEnded = "transfer_ended"
    }

    package var state: State
    /// The other end of the transfer; nil for a network for phones, and before the peer is known.
    package var peer: PeerID?
    /// The SSID; nil before it is known.
    package var network: String?
    /// The device of this machine; nil where it takes no part.
    package var interface: String?
    /// The name of the connection that the device returns to; nil for none.
    package var replaced: String?
    package var reason: Reason?
    /// The step for the user, escaped; nil where the user is told by other means.
    package var sentence: String?

    package init(
        _ state: State, with peer: PeerID? = nil, network: String? = nil, interface: String? = nil, replaced: String? = nil,
        because reason: Reason? = nil, _ sentence: String? = nil
    ) {
        (self.state, self.peer, self.network, self.interface) = (state, peer, network, interface)
        (self.replaced, self.reason, self.sentence) = (replaced, reason, sentence)
    }

    /// The end of a network, which may have ended by itself.
    /// - Parameter sentence: the beginning of the sentence for the user; nil where the user is told by other means.
    static func ended(
        _ plan: WiFiPlan, with peer: PeerID? = nil, because reason: Reason? = nil, _ sentence: String?
    ) -> HotspotStep {
        let returning = plan.replacedConnection.map { "; \(plan.interface) returns to \(TerminalText.quoted($0))" } ?? ""
        return HotspotStep(
            .ended, with: peer, interface: plan.interface, replaced: plan.replacedConnection, because: reason,
            sentence.map { $0 + returning })
    }
}
