internal import Nearshare

/// What the person's own files say of others.
struct KnownPeople: Sendable {
    let book: TrustStore
    let contacts: ContactBook

    init(_ machine: LocalMachine) throws {
        book = try machine.trust.read()
        contacts = try machine.contacts.read()
    }

    var friends: [PeerID] { book.entries.filter { $0.value.isFriend }.keys.map(\.peerID) }

    /// nil for somebody who is in neither of them.
    func name(of id: PeerID) -> DisplayName? {
        book.entry(claiming: id)?.entry.name ?? contacts.entry(of: id)?.name
    }

    /// Blocked is blocked, also where nothing proves who it is: whoever takes that name has no claim to be heard.
    func isBlocked(_ sender: ClaimedSender) -> Bool {
        let id: PeerID? =
            switch sender {
            case .announced(let id): id
            case .signing(let address): contacts.signer(address)?.id
            }
        return id.flatMap { book.entry(claiming: $0) }?.entry.trust == .blocked
    }

    /// Who sealed a message, or signed one that everybody can read; nil when neither is certain.
    func sender(of arrival: ReceivedBundle) -> PeerID? {
        arrival.sender ?? contacts.signer(arrival.signer)?.id
    }
}

extension ContactBook {
    /// Whose signing key it is, as far as that is certain: anybody can announce a key of theirs beside somebody else's.
    fileprivate func signer(_ address: EndpointID) -> Entry? {
        entries.values.first {
            ($0.isProven || $0.origin == .imported) && EndpointID(of: $0.signingKey) == address
        }
    }
}
