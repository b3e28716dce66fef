internal import Nearshare

extension CommandFailure {
    /// Converts an error of a connection, with advice for the other machine whose port does not answer. The own key at an address that
    /// the user has given is a wrong argument, as the own name is; a peer that was selected otherwise may have had that address before.
    init(_ error: any Error, connectingTo destination: PeerDestination) {
        self.init(error)
        if destination.id == nil, (error as? NodeError)?.isOwnKey == true { status = .usage }
        guard let address = destination.addresses.last, address.medium == .network else { return }
        switch error as? NodeError {
        // The message has advice for this machine.
        case let error? where error.isWithoutRoute: break
        case .unreachable, .timedOut:
            guard let name = destination.name else {
                message +=
                    "; check the address, that `nearshare receive` runs there, that port \(address.port) is the one it shows, and that "
                    + "no firewall drops it (`sudo nearshare doctor` there)"
                return
            }
            message =
                "found \(name.quoted), but \(message); a firewall there may drop it: `sudo nearshare doctor` on that "
                + "machine says so"
            // Any peer can announce another port under that name, and have the user open it.
            if address.port == Node.defaultPort {
                message += ", and `sudo ufw allow \(address.port)/tcp` or its like opens the port"
            }
        default: break
        }
    }
}
