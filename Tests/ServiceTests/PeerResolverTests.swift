import Nearshare
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareMesh
@testable import NearshareService

/// A running node of which only the search and the contacts are asked for.
final class FindingNode: NodeClient {
    let contact: Contact
    private let others: [Contact]
    let names = Mutex<[String]>([])
    let timeouts = Mutex<[Duration]>([])

    /// - Parameter others: the contacts besides the one that each search finds.
    init(_ contact: Contact, besides others: [Contact] = []) {
        self.contact = contact
        self.others = others
    }

    func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        switch request {
        case .contacts: return .contacts([contact] + others)
        case .find(let name, let timeout):
            names.withLock { $0.append(name) }
            timeouts.withLock { $0.append(timeout) }
            return .contact(contact)
        default: throw ControlFailure(.refused, "not asked for")
        }
    }

    func events() async throws(ControlFailure) -> AsyncStream<ControlEvent> { AsyncStream { $0.finish() } }
}

@Suite("finding the peer that a text means", .timeLimit(.minutes(1)), .leavesNothing)
struct PeerResolverTests {
    private let stage = ServiceStage()
    private let reporter = EventRecorder()

    private func direct(_ destination: PeerResolver.Destination) -> PeerDestination? {
        if case .direct(let found) = destination { found } else { nil }
    }

    private func resolver(_ user: StageUser, _ transport: Transport? = .network) -> PeerResolver {
        PeerResolver(machine: user.machine, reporter: reporter, transport: transport)
    }

    /// Resolves each text on a node of `user`, while the others listen.
    private func resolve(
        _ texts: [String], for user: StageUser, among others: [StageUser]
    ) async throws -> [PeerDestination?] {
        guard let first = others.first else {
            return try await withNode(try user.settings()) { node in
                var found: [PeerDestination?] = []
                for text in texts { found.append(direct(try await resolver(user).resolve(text, on: node))) }
                return found
            }
        }
        return try await first.listening { _ in
        } _: { _ in
            try await resolve(texts, for: user, among: Array(others.dropFirst()))
        }
    }

    @Test func `this machine is no peer, by its id, its fingerprint and its name`() async throws {
        let ada = try stage.user("ada")
        for text in [ada.id.hex, ada.fingerprint.hex, "ada"] {
            let failures = try await withNode(try ada.settings()) { node in
                [
                    await caughtFailure { _ = try await resolver(ada).resolve(text, on: node) },
                    await caughtFailure { _ = try await resolver(ada).resolveForConnection(text, on: node) },
                ]
            }
            for failure in failures {
                #expect(failure?.status == .usage && failure?.message.hasPrefix("\(text) is this machine itself") == true)
            }
        }
        #expect(reporter.events.isEmpty)
    }

    @Test func `an address is used as it is, without a search`() async throws {
        let ada = try stage.user("ada")
        let found = try await resolve(["10.0.0.9:4000", "[fe80::1%eth0]:4000"], for: ada, among: [])
        #expect(found.map { $0?.addresses.first?.port } == [4000, 4000])
        #expect(found.allSatisfy { $0?.id == nil })
        #expect(reporter.events.isEmpty)
    }

    @Test func `a link-local address without its interface leads to one with it, and with its port`() throws {
        let address = try #require(LinkAddress(parsing: "[fe80::1]:4000"))
        let failure = #expect(throws: CommandFailure.self) { try address.requireZone() }
        #expect(failure?.status == .usage && failure?.message.contains("[fe80::1%eth0]:4000; `ip link`") == true)
    }

    @Test func `a name, its beginning and an id find the peer behind them`() async throws {
        let (ada, bea, cleo) = (try stage.user("ada"), try stage.user("bea"), try stage.user("cleo"))
        let found = try await resolve(["bea", "BEA", "be", bea.id.hex, "cleo"], for: ada, among: [bea, cleo])
        #expect(found.map { $0?.id } == [bea.id, bea.id, bea.id, bea.id, cleo.id])
        #expect(reporter.names == Array(repeating: ["searching", "found"], count: 5).flatMap(\.self))
        let recent = try RecentPeers.read(in: ada.machine.state).entries.map(\.id)
        #expect(Set(recent) == [bea.id, cleo.id])
    }

    @Test func `the beginning of a listed peer's id leads to the whole one`() throws {
        let peer = NearbyPeer(
            id: try #require(PeerID(hex: "fe7c000000000001")), name: try DisplayName("bea"), addresses: [])
        for text in ["fe7c", "FE7C0", "fe7c000"] {
            #expect(PeerResolver.idAdvice(on: text, among: [peer])?.contains("all 16 digits") == true)
        }
        for text in ["fe7", "fe7d", "anna"] { #expect(PeerResolver.idAdvice(on: text, among: [peer]) == nil) }
    }

    @Test func `a name that the user has given finds the key, whatever name it announces`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("workstation-7"))
        try ada.introduce(bea.fingerprint, as: "Bea")
        let found = try await resolve(["bea"], for: ada, among: [bea])
        #expect(found.map { $0?.id } == [bea.id])
    }

    @Test func `the name that the list of peers shows finds a peer that calls itself otherwise now`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("workstation-7"))
        try ada.introduce(bea.fingerprint, as: "Bea")
        // The claimed name stays: that of the last contact.
        try ada.machine.trust.update { $0.rename(bea.fingerprint, to: nil) }
        let found = try await resolve(["bea", "workstation-7"], for: ada, among: [bea])
        #expect(found.map { $0?.id } == [bea.id, bea.id])
    }

    @Test("K2: a verified peer and a friend are meant by their name, whoever else claims it", arguments: [true, false])
    func trustedName(isVerified: Bool) async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "bea", isFriend: !isVerified)
        try ada.machine.trust.update { trust in
            trust.rename(bea.fingerprint, to: nil)
            if isVerified { trust.setDeviceVerified(bea.fingerprint, true) }
        }
        let found = try await resolve(["bea", "be"], for: ada, among: [mallory, bea])
        #expect(found.map { $0?.id } == [bea.id, bea.id])
        let owner = isVerified ? "the one that you have verified" : "your friend"
        let notice = "2 devices nearby are called \"bea\"; using \(owner) (\(bea.id))"
        #expect(reporter.notices == [notice, notice])
        // An id means one peer, and so does a name that one peer has.
        #expect(try await resolve([bea.id.hex], for: ada, among: [mallory, bea]).map { $0?.id } == [bea.id])
        #expect(try await resolve(["bea"], for: ada, among: [bea]).map { $0?.id } == [bea.id])
        #expect(reporter.notices.count == 2)
    }

    @Test("K4: a fingerprint finds the peer by its id, and the whole key is expected there")
    func fingerprint() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let other = try #require(Fingerprint(bytes: bea.fingerprint.bytes.dropLast() + [bea.fingerprint.bytes[31] ^ 1]))
        try await bea.listening { _ in
        } _: { _ in
            try await withNode(try ada.settings()) { node in
                let found = try #require(direct(try await resolver(ada).resolve(bea.fingerprint.hex, on: node)))
                #expect(found.id == bea.id && found.fingerprint == bea.fingerprint)
                let proven = try await node.withConnection(to: found) { $0.proven.fingerprint }
                #expect(proven == bea.fingerprint)
                let another = try #require(direct(try await resolver(ada).resolve(other.hex, on: node)))
                #expect(another.id == bea.id && another.fingerprint == other)
                await #expect(throws: NodeError.self) { try await node.withConnection(to: another) { _ in } }
            }
        }
    }

    @Test("K1: a second peer that announces the same name is noticed, and neither is chosen")
    func twins() async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        let error = await #expect(throws: CommandFailure.self) {
            _ = try await resolve(["bea"], for: ada, among: [bea, mallory])
        }
        #expect(error?.status == .peerNotFound)
        #expect(error?.message.contains("\(bea.id.hex)  new") == true)
        #expect(error?.message.contains("\(mallory.id.hex)  new") == true)
        #expect(reporter.found.isEmpty)
    }

    /// Looks for a peer whose key is to be verified.
    private func connect(_ text: String, for user: StageUser, among others: [StageUser]) async throws -> PeerDestination {
        guard let first = others.first else {
            return try await withNode(try user.settings()) { node in
                try await resolver(user).resolveForConnection(text, on: node)
            }
        }
        return try await first.listening { _ in
        } _: { _ in
            try await connect(text, for: user, among: Array(others.dropFirst()))
        }
    }

    @Test("K2: a key is verified with the peer that the user knows, whoever else has its name", arguments: [true, false])
    func verification(isFriend: Bool) async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "bea", isFriend: isFriend)
        try ada.machine.trust.update { _ = $0.rename(bea.fingerprint, to: nil) }
        #expect(try await connect("bea", for: ada, among: [mallory, bea]).id == bea.id)
        #expect(reporter.notices.count == 1)
        #expect(
            reporter.notices.first?.contains("using \(isFriend ? "your friend" : "the one that you know") (\(bea.id))") == true)
        #expect(try await connect(mallory.id.hex, for: ada, among: [mallory, bea]).id == mallory.id)
        guard isFriend else { return }
        for text in ["bea", "be"] {
            let error = await #expect(throws: CommandFailure.self) { try await connect(text, for: ada, among: [mallory]) }
            #expect(error?.status == .notTrusted && error?.message.contains("with another key (\(mallory.id))") == true)
        }
    }

    @Test("K2: a known peer that uses the name of another one is named as it is known")
    func formerName() async throws {
        let (ada, bea, dora) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "bea", isFriend: true)
        try ada.introduce(dora.fingerprint, as: "dora")
        try ada.machine.trust.update { trust in _ = trust.rename(dora.fingerprint, to: nil) }
        // The same by the id.
        for text in ["bea", bea.id.hex] {
            let failure = await caughtFailure { _ = try await resolve([text], for: ada, among: [dora]) }
            #expect(failure?.status == .notTrusted)
            #expect(failure?.message.contains("with another key (\(dora.id), known as dora)") == true)
        }
        let listed = try ada.machine.trust.read().trustText(claiming: dora.id, named: dora.name)
        #expect(listed == "changed: another key, known as dora")
    }

    @Test("K2: a known peer is meant by its whole name, although another one that is new uses it")
    func knownName() async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try ada.meet([bea])
        #expect(try await resolve(["bea", "BEA"], for: ada, among: [mallory, bea]).map { $0?.id } == [bea.id, bea.id])
        let notice = "2 devices nearby are called \"bea\"; using the one that you know (\(bea.id)); for another one, use its id"
        #expect(reporter.notices == [notice, notice])
        // The beginning of the name means neither.
        let failure = await caughtFailure { _ = try await resolve(["be"], for: ada, among: [mallory, bea]) }
        #expect(failure?.status == .peerNotFound && failure?.message.contains("\(mallory.id)  changed") == true)
    }

    /// The contact that the running node has of a user in the mesh.
    private func contact(_ user: StageUser, named name: String) throws -> Contact {
        Contact(
            id: user.id, name: try DisplayName(name), trustStatus: .new, isNear: true, software: .nearshare, hasKeys: false,
            hops: 1)
    }

    @Test("K2: a name that a known peer merely claims, and its imitation of a tag, do not win over a newcomer")
    func claimedName() async throws {
        let (ada, bea, carl) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        let tag = "bea#\(bea.id.hex.prefix(4))"
        let imitator = try stage.user(tag)
        for (user, name) in [(carl, "carl"), (imitator, "dora")] {
            try ada.introduce(user.fingerprint, as: name)
            try ada.machine.trust.update { _ = $0.rename(user.fingerprint, to: nil) }
        }
        for (text, claimant) in [("bea", carl), (tag, imitator)] {
            let failures = [
                await caughtFailure { _ = try await resolve([text], for: ada, among: [claimant, bea]) },
                await caughtFailure { _ = try await connect(text, for: ada, among: [claimant, bea]) },
            ]
            for failure in failures {
                #expect(failure?.status == .peerNotFound, "\(text)")
                for user in [claimant, bea] { #expect(failure?.message.contains(user.id.hex) == true, "\(text)") }
            }
        }
        #expect(reporter.notices.isEmpty)
    }

    @Test("K2: the beginning of the name of a known peer that is away is ambiguous where that of a newcomer begins so")
    func beginningOfAbsentName() async throws {
        let (ada, ben, benno) = (try stage.user("ada"), try stage.user("ben"), try stage.user("benno"))
        try ada.introduce(ben.fingerprint, as: "ben", isFriend: true)
        let failure = await caughtFailure { _ = try await resolve(["be"], for: ada, among: [benno]) }
        #expect(failure?.status == .peerNotFound)
        #expect(failure?.message.hasPrefix("be is the beginning of several names; use the id of one:") == true)
        for user in [ben, benno] { #expect(failure?.message.contains(user.id.hex) == true) }
    }

    @Test("K2: the beginning of a known peer's name that is the whole name of a newcomer selects neither")
    func beginningOfKnownName() async throws {
        let (ada, benjamin, newcomer) = (try stage.user("ada"), try stage.user("benjamin"), try stage.user("benj"))
        try ada.meet([benjamin])
        let failures = [
            await caughtFailure { _ = try await resolve(["benj"], for: ada, among: [benjamin, newcomer]) },
            await caughtFailure { _ = try await connect("benj", for: ada, among: [newcomer]) },
        ]
        for failure in failures {
            #expect(failure?.status == .peerNotFound)
            for user in [benjamin, newcomer] { #expect(failure?.message.contains(user.id.hex) == true) }
        }
        let found = try await resolve(["benja", newcomer.id.hex], for: ada, among: [benjamin, newcomer])
        #expect(found.map { $0?.id } == [benjamin.id, newcomer.id])
    }

    @Test("K2: the own name of a renamed peer selects none where another one has it in the mesh of the running node")
    func ownNameThroughNode() async throws {
        let (ada, ben, other) = (try stage.user("ada"), try stage.user("ben"), try stage.user("ben"))
        try ada.meet([ben])
        let given = try DisplayName("Zed")
        try ada.machine.trust.update { _ = $0.rename(ben.fingerprint, to: given) }
        let running = FindingNode(try contact(ben, named: "Zed"), besides: [try contact(other, named: "ben")])
        let role = try #require(try PrimaryRole.claimIfFree(on: ada.machine))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await role.serve(running) }
            defer { group.cancelAll() }
            try await withNode(try ada.settings()) { node in
                let failure = await caughtFailure { _ = try await resolver(ada, .mesh).resolve("ben", on: node) }
                #expect(failure?.status == .peerNotFound)
                for user in [ben, other] { #expect(failure?.message.contains(user.id.hex) == true) }
                guard case .node(let found) = try await resolver(ada, .mesh).resolve("zed", on: node) else {
                    Issue.record("not found through the node")
                    return
                }
                #expect(found.id == ben.id)
            }
        }
    }

    @Test("K2: a verified peer is used although another known peer of its name is away, and a line says so")
    func otherKnownPeer() async throws {
        let (ada, bea, other) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try ada.meet([other, bea])
        try ada.machine.trust.update { _ = $0.setDeviceVerified(bea.fingerprint, true) }
        let notice =
            "you know another device called \"bea\" (\(other.id)), not seen now; using the one that you have verified (\(bea.id))"
        #expect(try await resolve(["bea"], for: ada, among: [bea]).map { $0?.id } == [bea.id])
        #expect(try await connect("bea", for: ada, among: [bea]).id == bea.id)
        #expect(try await resolve([bea.id.hex], for: ada, among: [bea]).map { $0?.id } == [bea.id])
        #expect(reporter.notices == [notice, notice])
        #expect(try await resolve(["bea"], for: ada, among: [other, bea]).map { $0?.id } == [bea.id])
        #expect(reporter.notices.last?.hasPrefix("2 devices nearby are called \"bea\"") == true)
    }

    @Test("K2: a name that two known peers use means neither")
    func twoKnownPeers() async throws {
        let (ada, bea, other) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try ada.meet([bea, other])
        let failures = [
            await caughtFailure { _ = try await resolve(["bea"], for: ada, among: [other, bea]) },
            await caughtFailure { _ = try await connect("bea", for: ada, among: [other, bea]) },
        ]
        for failure in failures {
            #expect(failure?.status == .peerNotFound && failure?.message.contains("matches several peers") == true)
        }
        #expect(reporter.notices.isEmpty)
    }

    @Test("K2: a peer that only a rule has accepted may have come first with a name, which then means neither")
    func acceptedByRule() async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try await mallory.listening { _ in
        } _: { _ in
            try await withNode(try ada.settings()) { node in
                let found = try #require(direct(try await resolver(ada).resolve(mallory.id.hex, on: node)))
                let proven = try await node.withConnection(to: found) { $0.proven }
                try ada.machine.trust.update { trust in
                    trust.recordContact(
                        with: proven, named: mallory.name, isChosen: false, at: WallTime(milliseconds: 1))
                }
            }
        }
        let failure = await caughtFailure { _ = try await resolve(["bea"], for: ada, among: [mallory, bea]) }
        #expect(failure?.status == .peerNotFound && failure?.message.contains("matches several peers") == true)
        #expect(try await resolve(["bea"], for: ada, among: [mallory]).map { $0?.id } == [mallory.id])
        // In the mesh as well.
        var presence = ContactSnapshot.Presence()
        for user in [bea, mallory] {
            presence.meshPeers[user.id] = MeshPeer(
                id: user.id, name: user.name, fingerprint: user.fingerprint, capabilities: nil, isDirect: true,
                isReachable: true, hops: 1, statedFragmentLimit: nil)
        }
        let trust = try ada.machine.trust.read()
        let snapshot = ContactSnapshot(trust: trust, addressBook: ContactBook(), presence: presence)
        let clash = #expect(throws: ControlFailure.self) { try snapshot.contact(named: "bea", with: []) }
        #expect(clash?.kind == .ambiguous)
        presence.meshPeers[bea.id] = nil
        let alone = ContactSnapshot(trust: trust, addressBook: ContactBook(), presence: presence)
        #expect(try alone.contact(named: "bea", with: [])?.id == mallory.id)
    }

    @Test("K2: a given name belongs to its key even when another peer announces it")
    func givenName() async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("laptop"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "bea")
        let found = try await resolve(["bea"], for: ada, among: [mallory, bea])
        #expect(found.map { $0?.id } == [bea.id])
    }

    @Test("K2: the name that a renamed peer calls itself selects that peer, and none whose name begins so")
    func ownNameOfRenamedPeer() async throws {
        let (ada, ben, other) = (try stage.user("ada"), try stage.user("ben"), try stage.user("benjamin"))
        for user in [ben, other] {
            try ada.introduce(user.fingerprint, as: user.name.claimed)
            try ada.machine.trust.update { _ = $0.rename(user.fingerprint, to: nil) }
        }
        for given in ["Zed", "Benny"] {
            let name = try DisplayName(given)
            try ada.machine.trust.update { _ = $0.rename(ben.fingerprint, to: name) }
            #expect(
                try await resolve(["ben", given, "benj"], for: ada, among: [other, ben]).map { $0?.id } == [
                    ben.id, ben.id, other.id,
                ])
            let failure = await caughtFailure { _ = try await resolve(["ben"], for: ada, among: [other]) }
            #expect(failure?.status == .peerNotFound)
            let trust = try ada.machine.trust.read()
            #expect(try trust.peer(named: "ben")?.fingerprint == ben.fingerprint)
            let snapshot = ContactSnapshot(trust: trust, addressBook: ContactBook())
            #expect(try snapshot.contact(named: "ben", with: [ben.id, other.id])?.id == ben.id)
            #expect(snapshot.remembered("ben")?.id == ben.id)
            #expect(throws: CommandFailure.self) { try trust.peer(named: "be") }
        }
    }

    @Test(
        "a name or the beginning of one goes to no other peer while the known one is away",
        arguments: ["anna", "ann"], [true, false])
    func away(text: String, isFriend: Bool) async throws {
        let (ada, anna, other) = (try stage.user("ada"), try stage.user("anna"), try stage.user("annalise"))
        for user in [anna, other] {
            try ada.introduce(user.fingerprint, as: user.name.claimed, isFriend: isFriend && user.id == other.id)
            try ada.machine.trust.update { _ = $0.rename(user.fingerprint, to: nil) }
        }
        let resolver = PeerResolver(
            machine: ada.machine, reporter: reporter, transport: .network, searchLimit: .seconds(2))
        let failures = try await other.listening { _ in
        } _: { _ in
            try await withNode(try ada.settings()) { node in
                [
                    await caughtFailure { _ = try await resolver.resolve(text, on: node) },
                    await caughtFailure { _ = try await resolver.resolveForConnection(text, on: node) },
                ]
            }
        }
        for failure in failures {
            #expect(failure?.status == .peerNotFound)
            guard text == "ann" else {
                #expect(failure?.message == "anna is not nearby; did you mean annalise?")
                continue
            }
            for user in [anna, other] { #expect(failure?.message.contains(user.id.hex) == true) }
        }
        #expect(try await resolve(["annal", "anna"], for: ada, among: [other, anna]).map { $0?.id } == [other.id, anna.id])
    }

    @Test func `K2: the beginning of a friend's name that is the whole name of a newcomer selects neither`() async throws {
        let (ada, bea, newcomer) = (try stage.user("ada"), try stage.user("beatrice"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "beatrice", isFriend: true)
        let error = await #expect(throws: CommandFailure.self) {
            _ = try await resolve(["bea"], for: ada, among: [bea, newcomer])
        }
        #expect(error?.status == .peerNotFound)
        for user in [bea, newcomer] { #expect(error?.message.contains(user.id.hex) == true) }
        #expect(try await resolve(["beat"], for: ada, among: [bea, newcomer]).map { $0?.id } == [bea.id])
    }

    @Test func `a search that finds nothing names the peers nearby`() async throws {
        let (ada, cleo) = (try stage.user("ada"), try stage.user("cleo\u{1b}[2J"))
        let failure = try await cleo.listening { _ in
        } _: { _ in
            try await withNode(try ada.settings()) { node in
                await caughtFailure { _ = try await resolver(ada).resolve("zoe", on: node) }
            }
        }
        #expect(failure?.status == .peerNotFound)
        #expect(failure?.message == "zoe is not nearby; these are: \"cleo\\u{1b}[2J\"")
        #expect(reporter.names == ["searching"])
    }

    @Test func `a search among no peers ends at its timeout, and the error says what to try`() async throws {
        let ada = try stage.user("ada")
        var settings = try ada.settings()
        let clock = ManualClock()
        settings.clock = { clock.now }
        settings.discovery = TransformedDiscovery(ada.discovery) { event in
            clock.advance(by: .seconds(60))
            return event
        }
        let failure = try await withNode(settings) { node in
            await caughtFailure { _ = try await resolver(ada).resolve("bea", on: node) }
        }
        #expect(failure?.status == .peerNotFound)
        #expect(failure?.message.contains("is `nearshare receive` running there") == true)
    }

    @Test func `the mesh is searched through the node that runs on this machine`() async throws {
        let ada = try stage.user("ada")
        let contact = Contact(
            id: try #require(PeerID(hex: "0102030405060708")), name: try DisplayName("zoe"), trustStatus: .new, isNear: true,
            software: .phone, hasKeys: false)
        let running = FindingNode(contact)
        let role = try #require(try PrimaryRole.claimIfFree(on: ada.machine))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await role.serve(running) }
            defer { group.cancelAll() }
            try await withNode(try ada.settings()) { node in
                for limit in [nil, Duration.seconds(3)] {
                    let resolver = PeerResolver(
                        machine: ada.machine, reporter: reporter, transport: .mesh, searchLimit: limit)
                    let found = try await resolver.resolve("zoe", on: node)
                    guard case .node(let answer) = found else {
                        Issue.record("\(found)")
                        return
                    }
                    #expect(answer == contact)
                }
            }
        }
        #expect(running.names.withLock { $0 } == ["zoe", "zoe"])
        #expect(running.timeouts.withLock { $0 } == [.seconds(20), .seconds(3)])
        #expect(reporter.names == ["searching", "found", "searching", "found"])
    }

    @Test("what the mesh does not carry to a peer that left the network ends like any peer that was not found")
    func leftTheNetwork() async throws {
        let ada = try stage.user("ada")
        let contact = Contact(
            id: try #require(PeerID(hex: "0102030405060708")), name: try DisplayName("bea"), trustStatus: .new, isNear: true,
            software: .nearshare, hasKeys: false, hops: 1, contentLimit: 5_242_880)
        let content = MemoryContent(file: "film.bin", [UInt8](repeating: 0, count: 6_000_000))
        let source = SendSource(InMemorySource(content), content: .files([]), label: "film.bin")
        let operation = SendOperation(
            machine: ada.machine, source: source, reporter: reporter, timeout: .seconds(60), resumes: true, transport: nil)
        let role = try #require(try PrimaryRole.claimIfFree(on: ada.machine))
        let failure = try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await role.serve(FindingNode(contact)) }
            defer { group.cancelAll() }
            return try await withNode(try ada.settings()) { node in
                await caughtFailure { try await operation.run(to: [.text("bea")], on: node) }
            }
        }
        #expect(failure?.status == .peerNotFound)
        #expect(failure?.message.hasPrefix("bea was not found on the network, without which only single files") == true)
    }

    @Test func `a peer to compare codes with is looked for without a report`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let found = try await bea.listening { _ in
        } _: { _ in
            try await withNode(try ada.settings()) { node in
                [
                    try await resolver(ada).resolveForConnection("bea", on: node).id,
                    try await resolver(ada).resolveForConnection("10.0.0.2:41000", on: node).id,
                ]
            }
        }
        #expect(found == [bea.id, nil])
        #expect(reporter.events.isEmpty)
    }

    @Test(
        "each transport searches its own media",
        arguments: [
            (Transport?.some(.network), [LinkAddress.Medium.network]), (.mesh, [.network]), (.bluetooth, [.bluetooth]),
            (nil, [.network, .bluetooth]),
        ])
    fileprivate func media(transport: Transport?, expected: [LinkAddress.Medium]) {
        #expect(Transport.media(for: transport) == Set(expected))
    }
}
