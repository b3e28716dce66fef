internal import Nearshare

/// The sender's end of a hotspot for a transfer: asks the user before the offer, and the receiver once it has accepted.
/// ``HotspotResponder`` is the other end.
package struct HotspotRequester: Sendable {
    private let preparer: HotspotPreparer
    private let consent: HotspotOperation.Consent

    /// - Parameter consent: to what the hotspot interrupts on this machine.
    package init(_ preparer: HotspotPreparer, consent: HotspotOperation.Consent) {
        (self.preparer, self.consent) = (preparer, consent)
    }

    /// The requester for another connection of the same transfer: the user has agreed.
    var withConsent: Self { Self(preparer, consent: .given) }

    /// Finds the device and asks the user. Where the peer is in a common network, no hotspot is needed.
    /// - Returns: nil where the transfer goes on without a hotspot, for a reason that is reported.
    /// - Throws: where the user has to be asked and cannot be.
    func prepare(
        for destination: PeerDestination, _ reporter: any Reporter
    ) async throws(CommandFailure) -> PreparedHotspot? {
        let name = destination.name?.shown ?? "the receiver"
        func report(_ state: HotspotStep.State, because reason: HotspotStep.Reason? = nil, _ sentence: String? = nil) {
            reporter.report(.hotspot(HotspotStep(state, with: destination.id, because: reason, sentence)))
        }
        guard !destination.addresses.isEmpty, destination.addresses.allSatisfy({ $0.medium == .bluetooth }) else {
            report(.abandoned, because: .notNeeded, "\(name) is in a common network: no hotspot is needed")
            return nil
        }
        let prepared: PreparedHotspot
        do throws(WiFiError) {
            prepared = try await preparer.prepare()
        } catch {
            report(.abandoned, because: .unavailable, "\(error.reason); sending over Bluetooth")
            return nil
        }
        guard let consequences = prepared.consequences else { return prepared }
        switch consent {
        case .given: return prepared
        case .unavailable:
            await prepared.stop()
            throw CommandFailure(
                .usage, "\(consequences); there is no terminal to ask on, and --leave-wifi goes on without a question")
        case .ask(let ask):
            report(.asking)
            if await ask("\(consequences)\nmake the hotspot? [y]es, [n]o: ") { return prepared }
            await prepared.stop()
            report(.abandoned, because: .declined, "no hotspot is made; sending over Bluetooth")
            return nil
        }
    }
}

extension PreparedHotspot {
    /// Agrees with the receiver of a transfer on a network, once the transfer is accepted.
    /// - Parameter name: of the receiver, escaped.
    /// - Returns: nil where the transfer goes on over its own link, for a reason that is reported unless the transfer has ended.
    func agree(
        over connection: Connection, for transfer: Transfer, with name: String, _ reporter: any Reporter
    ) async -> Path? {
        for await progress in transfer.progress {
            if progress.phase == .comparing || progress.phase == .moving { break }
        }
        guard !transfer.hasEnded, !Task.isCancelled else { return nil }
        let peer = connection.proven.id
        @Sendable func report(_ state: HotspotStep.State, network: String? = nil, _ sentence: String) {
            reporter.report(.hotspot(HotspotStep(state, with: peer, network: network, interface: plan.interface, sentence)))
        }
        connection.hotspot.request(for: transfer, roles)
        do throws(Failure) {
            return try await establish(connection.hotspot) { event in
                switch event {
                case .asking: report(.asking, "asking \(name) to use a hotspot…")
                case .agreed(isAccessPoint: true, _):
                    report(.starting, "\(name) agrees; starting a hotspot on \(plan.interface)…")
                case .agreed(isAccessPoint: false, _): report(.awaiting, "\(name) agrees, and starts a hotspot…")
                case .network(let network): report(.joining, network: network.ssid, "joining the hotspot \(network.ssid)…")
                case .requested, .joined, .ended: break
                }
            }
        } catch {
            if error != .cancelled, !transfer.hasEnded {
                reporter.report(.hotspot(error.step(with: peer, named: name)))
            }
            return nil
        }
    }
}
