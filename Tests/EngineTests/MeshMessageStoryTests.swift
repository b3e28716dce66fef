import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareEngine
import NearshareInterfaces
import NearshareMesh
import NearshareTestTraits
import NearshareTesting
import Testing

/// Messages between nodes, over the mesh and by forwarding nodes, in memory and over loopback.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct MeshMessageStoryTests {
    private static let cleo = LocalIdentity(seed: [UInt8](repeating: 3, count: 64))

    private func contact(_ identity: LocalIdentity) -> EndpointKeys {
        EndpointKeys(agreementKey: identity.agreementKey.publicKey, signingKey: identity.signingKey.publicKey)
    }

    private func settings(_ stage: Stage, _ identity: LocalIdentity, _ name: String, on segment: InMemorySegment)
        -> NodeSettings
    {
        var settings = stage.settings(identity, name)
        settings.discovery = segment.join(host: "127.0.0.1")
        return settings
    }

    /// The first event for which `isWanted` returns true.
    private func first(
        _ events: AsyncStream<BundleDriverEvent>, _ isWanted: (BundleDriverEvent) -> Bool
    ) async -> BundleDriverEvent? {
        for await event in events where isWanted(event) { return event }
        return nil
    }

    private func firstReceived(
        _ events: AsyncStream<BundleDriverEvent>, where isWanted: (ReceivedMeshMessage) -> Bool = { _ in true }
    ) async -> ReceivedMeshMessage? {
        for await case .received(let message) in events where isWanted(message) { return message }
        return nil
    }

    private func isAcknowledgement(_ stored: PersistedBundle) -> Bool {
        (try? BundleCopy(decoding: stored.copy[...]))?.bundle.kind == .acknowledgement
    }

    private func text(_ message: ReceivedMeshMessage?) -> String? {
        if case .structured(.string(let text))? = message?.content { text } else { nil }
    }

    @Test(
        "between two nodes in range: messages of each mode arrive and name their sender; those to a peer are acknowledged",
        arguments: LinkKind.allCases)
    func near(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (
            settings(stage, Stage.ada, "Ada", on: segment), settings(stage, Stage.bea, "Bea", on: segment)
        )
        let toBea = contact(Stage.bea)
        try await withNode(bea) { bea in
            let listener = try bea.listen()
            let beasBundles = try bea.joinMesh().startBundles()
            let received = beasBundles.events()
            try await withNode(ada) { ada in
                let mesh = ada.joinMesh()
                let messages = try mesh.startBundles()
                let own = messages.events()
                _ = try await mesh.find("Bea", timeout: .seconds(20))
                #expect(messages.announcedKeys(of: Stage.bea.peerID) == toBea)

                let byMesh = try messages.send(.string("by mesh"), mode: .mesh, to: toBea, isEncrypted: true)
                let message = try #require(await firstReceived(received))
                #expect(text(message) == "by mesh")
                #expect(message.sender?.id == Stage.ada.peerID && !message.isForEveryone && message.hops == 1)
                #expect(await first(own) { $0 == .delivered(byMesh) } != nil)

                for mode in [MessageMode.direct, .full] {
                    let content = StructuredValue.object(["mode": .string("\(mode)"), "raw": .binary([0, 255])])
                    let id = try messages.send(content, mode: mode, to: toBea, isEncrypted: mode == .direct)
                    let message = try #require(await firstReceived(received) { $0.content == .structured(content) })
                    #expect(message.signer == contact(Stage.ada).address && !message.isForEveryone)
                    #expect(await first(own) { $0 == .delivered(id) } != nil)
                }
                _ = try messages.send(.string("to all"), mode: .broadcast, isEncrypted: false)
                let heard = try #require(await firstReceived(received) { text($0) == "to all" })
                #expect(heard.sender == nil && heard.signer == contact(Stage.ada).address && heard.isForEveryone)
            }
            withExtendedLifetime(listener) {}
            bea.beginShutdown()
        }
    }

    @Test("a message to Cleo, who is away, waits at Bea; Ada leaves, Bea restarts, Cleo comes", arguments: LinkKind.allCases)
    func carried(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea, cleo) = (
            settings(stage, Stage.ada, "Ada", on: segment), settings(stage, Stage.bea, "Bea", on: segment),
            settings(stage, Self.cleo, "Cleo", on: segment)
        )
        let toCleo = contact(Self.cleo)
        let store = ObservedBundleStore()
        try await withNode(bea) { bea in
            let listener = try bea.listen()
            _ = try bea.joinMesh().startBundles(store: store)
            try await withNode(ada) { ada in
                let messages = try ada.joinMesh().startBundles()
                let events = messages.events()
                let id = try messages.send(.string("for later"), mode: .full, to: toCleo, isEncrypted: true)
                #expect(await first(events) { $0 == .sent(id) } != nil)
            }
            withExtendedLifetime(listener) {}
            bea.beginShutdown()
        }
        #expect(store.bundles().count == 1)
        try await withNode(bea) { bea in
            let listener = try bea.listen()
            _ = try bea.joinMesh().startBundles(store: store)
            try await withNode(cleo) { cleo in
                let events = try cleo.joinMesh().startBundles().events()
                #expect(text(await firstReceived(events)) == "for later")
                // Delivered: the stored message is deleted, and the acknowledgement for Ada is stored instead.
                try await store.wait { $0.map(isAcknowledgement) == [true] }
            }
            withExtendedLifetime(listener) {}
            bea.beginShutdown()
        }
    }

    @Test("what a mode forbids is an error before anything is sent")
    func forbidden() async throws {
        let bea = contact(Stage.bea)
        try await withNode(Stage(.memory).sender) { node in
            let messages = try node.joinMesh().startBundles()
            #expect(throws: MessageError.broadcastCannotBeEncrypted) {
                try messages.send(.null, mode: .broadcast, isEncrypted: true)
            }
            #expect(throws: MessageError.broadcastHasNoReceiver) {
                try messages.send(.null, mode: .broadcast, to: bea, isEncrypted: false)
            }
            for mode in [MessageMode.direct, .mesh, .full] {
                #expect(throws: MessageError.receiverIsMissing(mode)) {
                    try messages.send(.null, mode: mode, isEncrypted: true)
                }
            }
            #expect(throws: MessageError.receiverNotInRange) {
                try messages.send(.null, mode: .direct, to: bea, isEncrypted: true)
            }
            #expect(throws: MessageError.contentTooLarge(2_051, limit: 2_048, isRadio: false)) {
                try messages.send(
                    .string(String(repeating: "x", count: 2_048)), mode: .mesh, to: bea, isEncrypted: true)
            }
            #expect(throws: MessageError.notJSON(.notFinite)) {
                try messages.send(.number(.infinity), mode: .mesh, to: bea, isEncrypted: true)
            }
            #expect(throws: MessageError.privacyNeedsEncryption) {
                try messages.send(.null, mode: .mesh, to: bea, isEncrypted: false, isPrivate: true)
            }
            #expect(messages.bundleCount == 0)
        }
    }
}

/// A store in memory that a test can wait on.
private final class ObservedBundleStore: BundleStore {
    private let inner = InMemoryBundleStore()
    private let change = AsyncCondition()

    /// Waits until the condition is true, which is checked after each change.
    func wait(until isSo: @Sendable ([PersistedBundle]) -> Bool) async throws {
        await change.wait { isSo(inner.bundles()) }
        try Task.checkCancellation()
    }

    func apply(_ changes: [BundleStoreChange]) -> [BundleID] {
        defer { change.notifyAll() }
        return inner.apply(changes)
    }

    func removeExpired(now: WallTime) {
        inner.removeExpired(now: now)
        change.notifyAll()
    }

    func bundles() -> [PersistedBundle] { inner.bundles() }
    func copy(of id: BundleID) -> [UInt8]? { inner.copy(of: id) }
    func contains(_ id: BundleID) -> Bool { inner.contains(id) }
    func recordForward(of id: BundleID) { inner.recordForward(of: id) }
    func deliveries() -> [(id: BundleID, expiry: WallTime)] { inner.deliveries() }
    func removeAll() { inner.removeAll() }
}
