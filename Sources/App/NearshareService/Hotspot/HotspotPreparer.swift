internal import Nearshare
internal import NearshareDiscovery

/// Prepares this machine for a Wi-Fi network with a peer, for one transfer.
package struct HotspotPreparer: Sendable {
    private let interface: String?
    private let makeConnection: @Sendable () -> any WiFiConnection
    private let localNetworks: @Sendable () -> [IPSubnet]

    /// - Parameter interface: the Wi-Fi device to use; nil for any.
    package init(interface: String?) {
        self.init(interface: interface, connection: LocalMachine.wifiConnection) {
            NetworkInterface.all().flatMap(\.addresses).filter { !$0.address.isIPv6 }
        }
    }

    init(
        interface: String?, connection: @escaping @Sendable () -> any WiFiConnection,
        localNetworks: @escaping @Sendable () -> [IPSubnet]
    ) {
        (self.interface, self.localNetworks) = (interface, localNetworks)
        makeConnection = connection
    }

    /// Finds the device, and the roles that the device can have; changes nothing.
    /// - Throws: the reason for which the device can have none.
    func prepare() async throws(WiFiError) -> PreparedHotspot {
        let accessPoint = makeConnection()
        do throws(WiFiError) {
            let plan = try await accessPoint.prepare(on: interface, for: .accessPoint)
            return PreparedHotspot(
                accessPoint, plan: plan, roles: [.accessPoint, .station], localNetworks: localNetworks)
        } catch {
            await accessPoint.stop()
            // The peer may be asked to be the access point.
            switch error {
            case .noAccessPointMode, .notPermitted: break
            default: throw error
            }
        }
        let station = makeConnection()
        do throws(WiFiError) {
            let plan = try await station.prepare(on: interface, for: .station)
            return PreparedHotspot(station, plan: plan, roles: .station, localNetworks: localNetworks)
        } catch {
            await station.stop()
            throw error
        }
    }
}

/// A Wi-Fi device that is ready to take part in a network for a transfer, once the users have agreed.
final class PreparedHotspot: Sendable {
    /// The address of the peer in the network.
    struct Path: Sendable, Hashable {
        var host: String
        /// The port at which the receiver of the transfer accepts connections.
        var port: UInt16
        /// The SSID of the network.
        var network: String
    }

    /// The reason for which there is no network, or none any more.
    enum Failure: Error, Sendable, Hashable {
        case local(WiFiError)
        /// The peer says so, or a deadline has passed.
        case ended(HotspotEndReason)
        /// The network of the peer overlaps with one of this machine, or all addresses are in use.
        case overlapping
        /// The transfer has ended meanwhile.
        case cancelled
    }

    let plan: WiFiPlan
    let roles: HotspotRoles
    private let connection: any WiFiConnection
    private let localNetworks: @Sendable () -> [IPSubnet]

    init(
        _ connection: any WiFiConnection, plan: WiFiPlan, roles: HotspotRoles,
        localNetworks: @escaping @Sendable () -> [IPSubnet]
    ) {
        (self.connection, self.plan, self.roles, self.localNetworks) = (connection, plan, roles, localNetworks)
    }

    /// The interruption that a network brings; nil for none. Nothing of this machine is shared in it.
    var consequences: String? {
        guard let replaced = plan.replacedConnection.map({ TerminalText.quoted($0) }) else { return nil }
        return "this machine leaves the Wi-Fi network \(replaced) until the transfer ends"
            + (plan.keepsInternet ? "" : ", and has no internet meanwhile")
    }

    /// Waits until the network has ended by itself; nil when the task is cancelled, and after ``stop()``.
    var failure: WiFiError? {
        get async { await connection.failure }
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
        var started: HotspotNetwork?
        var receiverPort: UInt16 = 0
        for await event in negotiation.events {
            onEvent(event)
            switch event {
            case .requested, .asking: break
            case .agreed(let isAccessPoint, let port):
                receiverPort = port
                guard isAccessPoint else { continue }
                let network = try freshNetwork()
                let role = WiFiRole.accessPoint(network.accessPointAddress, prefixLength: HotspotNetwork.prefixLength)
                try await start(network, as: role, negotiation)
                started = network
                negotiation.announce(network)
            case .network(let network):
                guard !HotspotNetwork.overlaps(network.accessPointAddress, anyOf: localNetworks()) else { throw .overlapping }
                let role = WiFiRole.station(
                    network.stationAddress, prefixLength: HotspotNetwork.prefixLength, network.band)
                try await start(network, as: role, negotiation)
                negotiation.confirmJoined()
                return Path(host: network.accessPointAddress.description, port: receiverPort, network: network.ssid)
            case .joined:
                guard let started else { throw .cancelled }
                return Path(host: started.stationAddress.description, port: receiverPort, network: started.ssid)
            case .ended(let reason): throw .ended(reason)
            }
        }
        throw Task.isCancelled ? .cancelled : .ended(negotiation.endReason ?? .linkLost)
    }

    private func freshNetwork() throws(Failure) -> HotspotNetwork {
        let fresh = LocalMachine.makeWiFiNetwork()
        let random = LocalMachine.randomBytes(HotspotNetwork.randomByteCount)
        guard let (accessPoint, station) = HotspotNetwork.addresses(random: random, avoiding: localNetworks()),
            let network = HotspotNetwork(
                ssid: fresh.ssid, passphrase: fresh.passphrase, band: plan.band,
                accessPointAddress: accessPoint, stationAddress: station)
        else { throw .overlapping }
        return network
    }

    /// Starts the access point, or joins the network, unless the agreement ends meanwhile.
    private func start(
        _ network: HotspotNetwork, as role: WiFiRole, _ negotiation: HotspotNegotiation
    ) async throws(Failure) {
        let known = WiFiNetwork(ssid: network.ssid, passphrase: network.passphrase)
        let result: Result<IPAddress, WiFiError> = await withTaskGroup(of: Void.self) { [connection] group in
            group.addTask { if await negotiation.ended != nil { connection.beginStop() } }
            defer { group.cancelAll() }
            do throws(WiFiError) {
                return .success(try await connection.start(known, as: role))
            } catch {
                return .failure(error)
            }
        }
        guard case .failure(let error) = result else { return }
        if let reason = negotiation.endReason { throw .ended(reason) }
        throw Task.isCancelled ? .cancelled : .local(error)
    }

    /// Ends the network, and restores what this machine had before; also in a task that is cancelled.
    /// - Returns: whether there was a network that this call has ended.
    @discardableResult
    func stop() async -> Bool {
        // Owned: by this call, which waits for it; as a child it would be cancelled with the caller.
        await Task { [connection] in await connection.stop() }.value
    }

    private static func reason(_ failure: Failure) -> HotspotEndReason {
        switch failure {
        case .local, .overlapping: .failed
        case .ended(let reason): reason
        case .cancelled: .done
        }
    }
}

extension PreparedHotspot.Failure {
    /// The step for both users: there is no network, and the transfer goes on over Bluetooth.
    /// - Parameter name: the name of the peer, escaped.
    func step(with peer: PeerID, named name: String) -> HotspotStep {
        HotspotStep(.abandoned, with: peer, because: reason, "\(text(peer: name)); going on over Bluetooth")
    }

    private var reason: HotspotStep.Reason {
        switch self {
        case .local, .ended(.failed): .failed
        case .overlapping: .overlapping
        case .cancelled, .ended(.done): .transferEnded
        case .ended(.declined): .declined
        case .ended(.unavailable): .unavailable
        case .ended(.busy): .busy
        case .ended(.linkLost): .linkLost
        case .ended(.timedOut): .timedOut
        case .ended(.unsupported): .unsupported
        }
    }

    /// The reason, for the user.
    /// - Parameter peer: the name of the peer, escaped.
    private func text(peer: String) -> String {
        switch self {
        case .local(let error): error.reason
        case .overlapping: "no hotspot: its addresses overlap with those of a network of this machine"
        case .cancelled, .ended(.done): "the hotspot is not needed any more"
        case .ended(.declined): "\(peer) declined the hotspot"
        case .ended(.unavailable): "no hotspot: the machine of \(peer) cannot take part, or its user cannot be asked"
        case .ended(.busy): "no hotspot: the machine of \(peer) takes part in another one, or asks no more questions now"
        case .ended(.failed): "no hotspot: the machine of \(peer) could not start or join it"
        case .ended(.linkLost): "no hotspot: the connection to \(peer) was lost"
        case .ended(.timedOut): "no hotspot: \(peer) did not answer, or it was not ready in time"
        case .ended(.unsupported): "no hotspot: \(peer) has a version of nearshare without it"
        }
    }
}
