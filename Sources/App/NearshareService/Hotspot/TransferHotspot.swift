internal import Nearshare
internal import NearshareDiscovery

/// This machine's part in a Wi-Fi network that two peers make for one transfer.
package struct TransferHotspot: Sendable {
    typealias LocalNetworks = [(address: IPAddress, prefixLength: Int)]

    private let interface: String?
    private let makeAccessPoint: @Sendable () -> any AccessPoint
    private let localNetworks: @Sendable () -> LocalNetworks

    /// - Parameter interface: the Wi-Fi device to use; nil for any.
    package init(interface: String?) {
        self.init(interface: interface, accessPoint: LocalMachine.accessPoint) {
            NetworkInterface.all().flatMap(\.addresses).filter { !$0.address.isIPv6 }
                .map { ($0.address, $0.prefixLength) }
        }
    }

    init(
        interface: String?, accessPoint: @escaping @Sendable () -> any AccessPoint,
        localNetworks: @escaping @Sendable () -> LocalNetworks
    ) {
        (self.interface, self.localNetworks) = (interface, localNetworks)
        makeAccessPoint = accessPoint
    }

    /// Finds the device, and the parts that it can take; changes nothing.
    /// - Throws: the reason for which it can take none.
    func prepare() async throws(AccessPointError) -> PreparedHotspot {
        let maker = makeAccessPoint()
        do throws(AccessPointError) {
            let plan = try await maker.prepare(on: interface, for: .making)
            return PreparedHotspot(maker, plan, [.makes, .joins], localNetworks)
        } catch {
            await maker.stop()
            // The peer may be asked to make the network.
            switch error {
            case .noAccessPointMode, .notPermitted: break
            default: throw error
            }
        }
        let joiner = makeAccessPoint()
        do throws(AccessPointError) {
            return PreparedHotspot(joiner, try await joiner.prepare(on: interface, for: .joining), .joins, localNetworks)
        } catch {
            await joiner.stop()
            throw error
        }
    }
}

/// A Wi-Fi device that is ready to take part in a network for a transfer, once the users have agreed.
final class PreparedHotspot: Sendable {
    /// The address of the peer in the network.
    struct Path: Sendable, Hashable {
        var host: String
        /// At which the receiver of the transfer accepts connections.
        var port: UInt16
        /// The name of the network.
        var network: String
    }

    /// The reason for which there is no network.
    enum Failure: Error, Sendable, Hashable {
        case local(AccessPointError)
        /// The peer says so, or a deadline has passed.
        case refused(HotspotRefusal)
        /// The network of the peer overlaps with one of this machine, or all addresses are in use.
        case overlapping
        /// The transfer has ended meanwhile.
        case cancelled
    }

    let plan: AccessPointPlan
    let roles: HotspotRoles
    private let accessPoint: any AccessPoint
    private let localNetworks: @Sendable () -> TransferHotspot.LocalNetworks

    init(
        _ accessPoint: any AccessPoint, _ plan: AccessPointPlan, _ roles: HotspotRoles,
        _ localNetworks: @escaping @Sendable () -> TransferHotspot.LocalNetworks
    ) {
        (self.accessPoint, self.plan, self.roles, self.localNetworks) = (accessPoint, plan, roles, localNetworks)
    }

    /// The interruption that a network brings; nil for none. Nothing of this machine is shared in it.
    var consequences: String? {
        guard let replaced = plan.replacedConnection.map({ TerminalText.quoted($0) }) else { return nil }
        return "the hotspot takes \(plan.interface) away from the Wi-Fi network \(replaced) until the transfer ends"
            + (plan.keepsInternet ? "" : "; this machine has no internet meanwhile")
    }

    /// Waits until the network has ended by itself; nil when the task is cancelled, and after ``stop()``.
    var failure: AccessPointError? {
        get async { await accessPoint.failure }
    }

    /// Follows the agreement until both machines are in the network.
    /// - Parameter onEvent: called for what may take a while.
    func establish(
        _ negotiation: HotspotNegotiation, onEvent: @Sendable (HotspotEvent) -> Void = { _ in }
    ) async throws(Failure) -> Path {
        do {
            let path = try await follow(negotiation, onEvent)
            return path
        } catch {
            // No effect where the peer has said so.
            negotiation.end(Self.reason(error))
            throw error
        }
    }

    private func follow(
        _ negotiation: HotspotNegotiation, _ onEvent: @Sendable (HotspotEvent) -> Void
    ) async throws(Failure) -> Path {
        var made: HotspotNetwork?
        var receiverPort: UInt16 = 0
        for await event in negotiation.events {
            onEvent(event)
            switch event {
            case .requested, .asking: break
            case .agreed(let makesNetwork, let port):
                receiverPort = port
                guard makesNetwork else { continue }
                let network = try freshNetwork()
                let role = WiFiRole.making(network.makerAddress, prefixLength: HotspotNetwork.prefixLength)
                try await start(network, as: role, negotiation)
                made = network
                negotiation.announce(network)
            case .network(let network):
                guard !HotspotNetwork.overlaps(network.makerAddress, localNetworks()) else { throw .overlapping }
                let role = WiFiRole.joining(
                    network.joinerAddress, prefixLength: HotspotNetwork.prefixLength, WiFiBand(network.band))
                try await start(network, as: role, negotiation)
                negotiation.confirmJoined()
                return Path(host: network.makerAddress.description, port: receiverPort, network: network.name)
            case .joined:
                guard let made else { throw .cancelled }
                return Path(host: made.joinerAddress.description, port: receiverPort, network: made.name)
            case .ended(let reason): throw .refused(reason)
            }
        }
        throw Task.isCancelled ? .cancelled : .refused(negotiation.refusal ?? .linkLost)
    }

    private func freshNetwork() throws(Failure) -> HotspotNetwork {
        let fresh = LocalMachine.makeWiFiNetwork()
        let random = LocalMachine.randomBytes(HotspotNetwork.randomByteCount)
        guard let (maker, joiner) = HotspotNetwork.addresses(random: random, avoiding: localNetworks()),
            let network = HotspotNetwork(
                name: fresh.name, passphrase: fresh.passphrase, band: plan.band == .ghz5 ? .ghz5 : .ghz2,
                makerAddress: maker, joinerAddress: joiner)
        else { throw .overlapping }
        return network
    }

    /// Makes or joins the network, unless the agreement ends meanwhile.
    private func start(
        _ network: HotspotNetwork, as role: WiFiRole, _ negotiation: HotspotNegotiation
    ) async throws(Failure) {
        let known = WiFiNetwork(name: network.name, passphrase: network.passphrase)
        let result: Result<IPAddress, AccessPointError> = await withTaskGroup(of: Void.self) { [accessPoint] group in
            group.addTask { if await negotiation.ended != nil { accessPoint.beginStop() } }
            defer { group.cancelAll() }
            do throws(AccessPointError) {
                return .success(try await accessPoint.start(known, as: role))
            } catch {
                return .failure(error)
            }
        }
        guard case .failure(let error) = result else { return }
        if let refusal = negotiation.refusal { throw .refused(refusal) }
        throw Task.isCancelled ? .cancelled : .local(error)
    }

    /// Ends the network, and restores what this machine had before; also in a task that is cancelled.
    /// - Returns: whether there was a network that this call has ended.
    @discardableResult
    func stop() async -> Bool {
        await Task { [accessPoint] in await accessPoint.stop() }.value
    }

    private static func reason(_ failure: Failure) -> HotspotRefusal {
        switch failure {
        case .local, .overlapping: .failed
        case .refused(let reason): reason
        case .cancelled: .done
        }
    }
}

extension PreparedHotspot.Failure {
    /// The reason, as a clause.
    /// - Parameter peer: its name, escaped.
    func sentence(_ peer: String) -> String {
        switch self {
        case .local(let error): error.reason
        case .overlapping: "no hotspot: its addresses overlap with those of a network of this machine"
        case .cancelled, .refused(.done): "the hotspot is not needed any more"
        case .refused(.declined): "\(peer) declined the hotspot"
        case .refused(.unavailable): "no hotspot: the machine of \(peer) cannot take part, or nobody can be asked there"
        case .refused(.busy): "no hotspot: the machine of \(peer) takes part in another one, or asks no more questions now"
        case .refused(.failed): "no hotspot: the machine of \(peer) could not make or join it"
        case .refused(.linkLost): "no hotspot: the connection to \(peer) was lost"
        case .refused(.timedOut): "no hotspot: \(peer) did not answer, or it was not ready in time"
        case .refused(.unsupported): "no hotspot: \(peer) has a version of nearshare without it"
        }
    }
}

extension WiFiBand {
    /// - Returns: nil for an unknown one.
    fileprivate init?(_ band: HotspotNetwork.Band) {
        switch band {
        case .unknown: return nil
        case .ghz2: self = .ghz2
        case .ghz5: self = .ghz5
        }
    }
}
