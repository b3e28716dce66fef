internal import Nearshare

/// The address at which a peer has last proven its key, which is tried beside those that are announced: any host can hide the
/// announcements of others, or forge further ones (D1, D6).
struct LastAddress: Sendable {
    private let machine: LocalMachine

    init(on machine: LocalMachine) {
        self.machine = machine
    }

    /// The last address of a peer that the user knows, with its key.
    /// - Parameter ids: of the peers that the user knows by the text.
    /// - Returns: nil for a peer that was never reached on the network, and where the user knows none or several by the text.
    func destination(of text: String, knownAs ids: Set<PeerID>) -> PeerDestination? {
        guard let id = PeerID(hex: text) ?? (ids.count == 1 ? ids.first : nil),
            let known = (try? machine.trust.read())?.entry(claiming: id),
            let address = machine.lastAddress(of: id)
        else { return nil }
        var destination = PeerDestination(addresses: [address], id: id, name: known.entry.name)
        destination.fingerprint = known.fingerprint
        return destination
    }

    /// The destination with the last address of the peer: the first one, or the second where it is not announced now.
    /// - Parameter media: those of the search; without the network the destination stays as it is.
    func inserted(into destination: PeerDestination, on media: Set<LinkAddress.Medium>) -> PeerDestination {
        guard media.contains(.network), let id = destination.id, !destination.isLocalSend,
            let address = machine.lastAddress(of: id)
        else { return destination }
        var destination = destination
        let index = destination.addresses.contains(address) ? 0 : min(1, destination.addresses.count)
        destination.addresses.removeAll { $0 == address }
        destination.addresses.insert(address, at: index)
        return destination
    }
}
