import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareInterfaces
import NearshareMesh
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// The user's contacts, as the mesh of a running node knows them.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct MeshContactTests {
    /// The address book of a node.
    private struct AddressBook {
        var contacts: [PeerID: SigningPublicKey] = [:]
        var readCount = 0

        mutating func read() -> [PeerID: SigningPublicKey] {
            readCount += 1
            return contacts
        }
    }

    private let book = Monitor(AddressBook())
    private let files = InMemoryFileMonitor()

    /// The settings of Bea, whose contacts are those of the book.
    private func receiver(on stage: Stage) -> NodeSettings {
        var settings = stage.receiver
        settings.contacts = { [book] in book.withLock { $0.read() } }
        settings.contactMonitor = { [files] in files }
        return settings
    }

    /// Changes the book, and waits until the node has handled that.
    private func change(_ body: @Sendable (inout AddressBook) -> Void) async throws {
        book.withLock { body(&$0) }
        try await BlockingThread.run { [files] in files.reportChange() }
    }

    @Test("a contact that another process adds or removes is one at once for the router and the bundles, without a session")
    func changes() async throws {
        let (ada, key) = (Stage.ada.peerID, Stage.ada.signingKey.publicKey)
        try await withNode(receiver(on: Stage(.memory))) { node in
            let mesh = node.joinMesh()
            let bundles = try mesh.startBundles()
            #expect(!mesh.read { $0.isContact(ada) } && !bundles.contacts.contains(EndpointID(of: key)))
            try await change { $0.contacts[ada] = key }
            #expect(mesh.read { $0.isContact(ada) } && bundles.contacts.contains(EndpointID(of: key)))
            try await change { $0.contacts[ada] = nil }
            #expect(!mesh.read { $0.isContact(ada) } && !bundles.contacts.contains(EndpointID(of: key)))
        }
    }

    @Test("M12: the session of an unknown peer does not read the contacts again")
    func sessions() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: "memory0")
        var (ada, bea) = (stage.sender, receiver(on: stage))
        ada.discovery = segment.join(host: "127.0.0.1")
        bea.discovery = segment.join(host: "127.0.0.1")
        let toBea = EndpointKeys(
            agreementKey: Stage.bea.agreementKey.publicKey, signingKey: Stage.bea.signingKey.publicKey)
        try await withNode(bea) { [ada] bea in
            let listener = try bea.listen()
            _ = try bea.joinMesh().startBundles()
            try await change { _ in }
            let before = book.withLock(\.readCount)
            try await withNode(ada) { ada in
                let mesh = ada.joinMesh()
                let messages = try mesh.startBundles()
                let events = messages.events()
                _ = try await mesh.find("Bea", timeout: .seconds(20))
                // A direct message is sealed by a session.
                let id = try messages.send(.string("hello"), mode: .direct, to: toBea, isEncrypted: true)
                for await event in events where event == .delivered(id) { break }
            }
            #expect(book.withLock(\.readCount) == before)
            withExtendedLifetime(listener) {}
            bea.beginShutdown()
        }
    }
}
