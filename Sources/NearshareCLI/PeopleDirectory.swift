internal import Nearshare
internal import NearshareControl

extension ContactBook {
    /// Whose signing key it is, as far as that is certain: anybody can announce a key of theirs beside somebody else's.
    func signer(_ address: CarriedAddress) -> Entry? {
        entries.values.first {
            ($0.isProven || $0.origin == .imported) && CarriedAddress(of: $0.signingKey) == address
        }
    }
}

/// Who is to be shown: those in the mesh, the friends, and those with whom there is a conversation.
struct PeopleDirectory: Sendable {
    private let machine: LocalMachine
    private let messenger: Messenger

    /// How long the mesh alone is asked before others are looked at.
    private static let turn = Duration.seconds(2)

    init(_ machine: LocalMachine, _ messenger: Messenger) {
        self.machine = machine
        self.messenger = messenger
    }

    /// Those who are near first, then by name.
    func all() async throws -> [Person] {
        let book = try machine.trust.read()
        let near = messenger.peers
        var ids = Set(near.map(\.id)).union(messenger.blueChatPeople.map(\.id))
        ids.formUnion(book.entries.filter { $0.value.isFriend }.keys.map(\.peerID))
        for summary in try await messenger.conversations() {
            if case .peer(let id) = summary.conversation { ids.insert(id) }
        }
        let contacts = try machine.contacts.read()
        return ids.map { person($0, book, contacts, near) }.filter { $0.standing != "blocked" }
            .sorted {
                ($0.isNear ? 0 : 1, $0.name.claimed.lowercased(), $0.id.hex) < (
                    $1.isNear ? 0 : 1, $1.name.claimed.lowercased(), $1.id.hex
                )
            }
    }

    func person(_ id: PeerID) throws -> Person {
        person(id, try machine.trust.read(), try machine.contacts.read(), messenger.peers)
    }

    /// What the one is called who sealed a message, or who signed one that everybody can read.
    func senderName(of arrival: KeptArrival) throws -> DisplayName? {
        if let sender = arrival.sender { return try person(sender).name }
        return try machine.contacts.read().signer(arrival.signer).map { try person($0.id).name }
    }

    private func person(_ id: PeerID, _ book: TrustBook, _ contacts: ContactBook, _ near: [MeshPeer]) -> Person {
        if let person = messenger.blueChatPeople.first(where: { $0.id == id }) {
            // Without a key there is nothing to trust or to block.
            return Person(
                id: id, name: person.name, standing: PeerStanding.new.word, isFriend: false, isNear: true, software: .blueChat,
                hasKeys: false)
        }
        let known = book.entry(claiming: id)
        let contact = contacts.entry(of: id)
        let peer = near.first { $0.id == id }
        let fingerprint = known?.fingerprint ?? peer?.fingerprint ?? contact?.fingerprint
        let name = known?.entry.givenName ?? peer?.name ?? known?.entry.claimedName ?? contact?.name
        let standing = fingerprint.map { book.standing(of: $0, claiming: peer?.name) } ?? .new
        return Person(
            id: id, name: name ?? DisplayName(truncating: id.hex)!, standing: standing.word, isFriend: standing.isFriend,
            isNear: peer != nil, software: peer.map { $0.software == .nearshare ? .nearshare : .phone } ?? .unknown,
            hasKeys: messenger.contact(id) != nil)
    }

    /// Whom a name means among those whom the person knows: friends, imported keys, conversations.
    /// - Returns: nil when it means none of them; those in the mesh are to be asked for then.
    func known(_ text: String) async throws -> Person? {
        let people = try await all()
        let contacts = try machine.contacts.read()
        let ids = Set(people.map(\.id)).union(contacts.entries.keys.map(\.peerID))
        let wanted = text.lowercased()
        if let id = PeerID(hex: wanted), ids.contains(id) { return try person(id) }
        return try named(wanted, among: ids.map { try person($0) }.filter { $0.software != .blueChat })
    }

    /// Waits until somebody is heard of whom a name means. Those who run BlueChat come last: a line to them goes in the clear, and
    /// nothing proves that the name is theirs.
    /// - Throws: `PeerLookupError`, or a ``ControlFailure`` when it can mean several.
    func find(_ text: String, timeout: Duration) async throws -> Person {
        let end = SystemClock.monotonic() + timeout
        while true {
            if let person = try await known(text) { return person }
            let left = end - SystemClock.monotonic()
            do {
                return try person(try await messenger.find(text, timeout: min(left, Self.turn)).id)
            } catch PeerLookupError.notFound(let text, let nearby) {
                let others = try messenger.blueChatPeople.map { try person($0.id) }
                if let person = try named(text.lowercased(), among: others) { return person }
                guard left > Self.turn else { throw PeerLookupError.notFound(text, nearby: nearby) }
            }
        }
    }

    /// - Parameter wanted: in lower case.
    private func named(_ wanted: String, among people: [Person]) throws -> Person? {
        func matches(_ test: (String) -> Bool) -> [Person] { people.filter { test($0.name.claimed.lowercased()) } }
        var found = matches { $0 == wanted }
        if found.isEmpty { found = matches { $0.hasPrefix(wanted) } }
        guard found.count > 1 else { return found.first }
        let list = found.map { "\n  \($0.name.shown)  \($0.id)" }.sorted().joined()
        throw ControlFailure(.peerNotFound, "\(TerminalText.escaped(wanted)) can mean several; say which by its id:\(list)")
    }

    /// Notes down the keys of somebody who is heard of: friends and those one talks with are worth a proof.
    func meet(_ id: PeerID) throws {
        guard let (contact, isProven) = messenger.announcedKeys(of: id),
            let peer = messenger.peers.first(where: { $0.id == id })
        else { return }
        let book = try machine.trust.read()
        if !isProven, book.entries[contact.fingerprint]?.isFriend == true { messenger.secure(id) }
        let isFriend: (Fingerprint) -> Bool = { book.entries[$0]?.isFriend ?? false }
        let now = SystemClock.wall()
        // A copy is asked first: most meetings change nothing, and the file is locked and written for a change.
        var copy = try machine.contacts.read()
        func note(_ contacts: inout ContactBook) -> Bool {
            contacts.met(
                agreementKey: contact.agreementKey, signingKey: contact.signingKey, name: peer.name, isProven: isProven,
                isFriend: isFriend, at: now)
        }
        if note(&copy) { try machine.contacts.change { _ = note(&$0) } }
    }
}
