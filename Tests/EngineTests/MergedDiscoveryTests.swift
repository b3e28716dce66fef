import NearshareBase
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("discovery on several media", .timeLimit(.minutes(1)), .leavesNothing) struct MergedDiscoveryTests {
    private struct Broken: Error {}

    private let network = DiscoveryEvent.makeStream()
    private let radio = DiscoveryEvent.makeStream()

    /// The merged events until the end, and whether that is an error.
    private func collect(_ act: @Sendable @escaping () -> Void) async throws -> (events: [DiscoveryEvent], isBroken: Bool) {
        try await withNode(Stage(.memory).sender) { [network, radio] node in
            let merged = node.merged([network.stream, radio.stream])
            act()
            var events: [DiscoveryEvent] = []
            do {
                for try await event in merged { events.append(event) }
                return (events, false)
            } catch {
                return (events, true)
            }
        }
    }

    private static func gone(_ name: String) -> DiscoveryEvent {
        .gone(ServiceSighting.Key(instance: name, interfaceIndex: 1, isIPv6: false))
    }

    @Test("one medium that fails does not end the others, and counts as settled")
    func oneFails() async throws {
        let (network, radio) = (network.continuation, radio.continuation)
        let (events, _) = try await collect {
            radio.finish(throwing: Broken())
            network.yield(.settled)
            network.yield(Self.gone("anna"))
            network.finish()
        }
        #expect(Set(events) == [.settled, Self.gone("anna")] && events.count == 2)
    }

    @Test("the error of the last medium ends all")
    func lastFails() async throws {
        let (network, radio) = (network.continuation, radio.continuation)
        let (events, isBroken) = try await collect {
            for continuation in [network, radio] { continuation.finish(throwing: Broken()) }
        }
        #expect(events == [.settled] && isBroken)
    }

    @Test("a search for a peer and browsing end with the library's error when discovery fails")
    func search() async throws {
        var settings = Stage(.memory).sender
        settings.discovery = FailingDiscovery()
        try await withNode(settings) { node in
            do {
                _ = try await node.find("anna", timeout: .seconds(3_600))
                Issue.record("a peer was found")
            } catch NodeError.unavailable(let reason) {
                #expect(reason == FailingDiscovery.failure.description)
            }
            do {
                for try await event in try await node.browse() where event != .settled { Issue.record("\(event)") }
                Issue.record("the sequence ended without an error")
            } catch NodeError.unavailable(let reason) {
                #expect(reason == FailingDiscovery.failure.description)
            }
        }
    }
}

/// A discovery that fails after it has begun.
private struct FailingDiscovery: Discovery {
    static let failure = DiscoveryError("the daemon has ended")

    var engine: String { "failing" }

    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement { throw Self.failure }

    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        continuation.finish(throwing: Self.failure)
        return stream
    }
}
