internal import Nearshare
internal import NearshareMesh
internal import NearshareService

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

    /// Who everybody is, as it stands now: one look for a whole answer.
    func look() throws -> People {
        People(try KnownPeople(machine), messenger)
    }

    /// Those who are near first, then by name.
    func all() async throws -> [Person] {
        let talkedWith = try await talkedWith()
        let people = try look()
        return people.persons(people.near.union(people.known.friends).union(talkedWith)).filter { $0.trustStatus != "blocked" }
            .sorted {
                ($0.isNear ? 0 : 1, $0.name.claimed.lowercased(), $0.id.hex) < (
                    $1.isNear ? 0 : 1, $1.name.claimed.lowercased(), $1.id.hex
                )
            }
    }

    private func talkedWith() async throws -> [PeerID] {
        try await messenger.conversations().compactMap {
            if case .peer(let id) = $0.conversation { id } else { nil }
        }
    }

    /// Whom a name means among those whom the person knows: friends, imported keys, conversations.
    /// - Returns: nil when it means none of them; those in the mesh are to be asked for then.
    func known(_ text: String) async throws -> Person? {
        let talkedWith = try await talkedWith()
        let people = try look()
        let contacts = people.known.contacts.entries.keys.map(\.peerID)
        let persons = people.persons(people.near.union(people.known.friends).union(talkedWith).union(contacts))
        let wanted = text.lowercased()
        if let id = PeerID(hex: wanted), let person = persons.first(where: { $0.id == id }) { return person }
        // Nobody who is blocked makes another's name mean two.
        return try named(wanted, among: persons.filter { $0.software != .blueChat && $0.trustStatus != "blocked" })
    }

    /// Whom a name means among all whom the person has ever dealt with, who may be out of reach; nil for none, and for several.
    func remembered(_ text: String) throws -> Person? {
        let people = try look()
        let wanted = text.lowercased()
        let persons = people.persons(people.known.book.entries.keys.map(\.peerID))
        if let id = PeerID(hex: wanted) { return persons.first { $0.id == id } }
        let all = persons + people.persons(people.near.subtracting(persons.map(\.id)))
        let exact = all.filter { $0.name.claimed.lowercased() == wanted }
        let found = exact.isEmpty ? all.filter { $0.name.claimed.lowercased().hasPrefix(wanted) } : exact
        return found.count == 1 ? found.first : nil
    }

    /// Waits until somebody is heard of whom a name means. Those who run BlueChat come last: a line to them goes in the clear, and
    /// nothing proves that the name is theirs.
    /// - Throws: `PeerLookupError`, or a ``ControlFailure`` when it can mean several.
    func find(_ text: String, timeout: Duration) async throws -> Person {
        if text.allSatisfy(\.isWhitespace) { throw ControlFailure(.refused, "say whom: the name is empty") }
        let end = SystemClock.monotonic() + timeout
        while true {
            if let person = try await known(text) { return person }
            let left = end - SystemClock.monotonic()
            do {
                let found = try await messenger.find(text, timeout: min(left, Self.turn))
                return try look().person(found.id)
            } catch PeerLookupError.notFound(let text, let nearby) {
                let people = try look()
                let others = people.persons(people.blueChat.keys)
                if let person = try named(text.lowercased(), among: others) { return person }
                guard left > Self.turn else { throw PeerLookupError.notFound(text, nearby: nearby) }
            }
        }
    }

    /// - Parameter wanted: in lower case.
    private func named(_ wanted: String, among people: [Person]) throws -> Person? {
        // The beginning of every name.
        if wanted.allSatisfy(\.isWhitespace) { return nil }
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
            contacts.recordMeeting(
                agreementKey: contact.agreementKey, signingKey: contact.signingKey, name: peer.name, isProven: isProven,
                isFriend: isFriend, at: now)
        }
        if note(&copy) { try machine.contacts.update { _ = note(&$0) } }
    }
}

/// Who everybody is, at one moment.
struct People: Sendable {
    let known: KnownPeople
    let blueChat: [PeerID: BlueChatPerson]
    private let messenger: Messenger
    private let inMesh: [PeerID: MeshPeer]

    init(_ known: KnownPeople, _ messenger: Messenger) {
        self.known = known
        self.messenger = messenger
        inMesh = Dictionary(messenger.peers.map { ($0.id, $0) }) { first, _ in first }
        blueChat = Dictionary(messenger.blueChatPeople.map { ($0.id, $0) }) { first, _ in first }
    }

    var near: Set<PeerID> { Set(inMesh.keys).union(blueChat.keys) }

    func persons(_ ids: some Sequence<PeerID>) -> [Person] { ids.map(person) }

    func person(_ id: PeerID) -> Person {
        if let person = blueChat[id] {
            // Without a key there is nothing to trust or to block.
            return Person(
                id: id, name: person.name, trustStatus: TrustStatus.new.label, isFriend: false, isNear: true,
                software: .blueChat,
                hasKeys: false)
        }
        let entry = known.book.entry(claiming: id)
        let contact = known.contacts.entry(of: id)
        let peer = inMesh[id]
        let fingerprint = entry?.fingerprint ?? peer?.fingerprint ?? contact?.fingerprint
        let name = entry?.entry.givenName ?? peer?.name ?? entry?.entry.claimedName ?? contact?.name
        let trustStatus = fingerprint.map { known.book.trustStatus(of: $0, claiming: peer?.name) } ?? .new
        return Person(
            id: id, name: name ?? DisplayName(truncating: id.hex)!, trustStatus: trustStatus.label,
            isFriend: trustStatus.isFriend,
            isNear: peer != nil, software: peer.map { $0.software == .nearshare ? .nearshare : .phone } ?? .unknown,
            hasKeys: messenger.contact(id) != nil)
    }

    /// What the one is called who sealed a message, or who signed one that everybody can read.
    func senderName(of arrival: ReceivedBundle) -> DisplayName? {
        known.sender(of: arrival).map { person($0).name }
    }
}
