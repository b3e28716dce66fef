internal import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// The resources of the nodes of one story: their threads, and the links and listeners of their transports.
///
/// Tests run beside each other, so it counts what was made by this story rather than by the process.
package final class StoryResources: Sendable {
    private struct State {
        var open: [Int: String] = [:]
        var last = 0
    }

    /// The resources of the running story; nil outside of one.
    @TaskLocal package static var current: StoryResources?

    private let threads = ThreadGroup()
    private let state = Mutex(State())
    private let change = AsyncCondition()

    package init() {}

    /// Runs a story whose resources are counted.
    package func counting<Result>(_ story: () async throws -> Result) async rethrows -> Result {
        try await Self.$current.withValue(self) {
            try await ThreadGroup.$current.withValue(threads) { try await story() }
        }
    }

    /// Waits until everything is released.
    /// - Returns: what is left when the time is over.
    package func leftovers(within timeout: Duration) async -> [String] {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await self.threads.waitUntilEmpty()
                await self.change.wait { self.descriptions.isEmpty }
            }
            group.addTask { try? await Task.sleep(for: timeout) }
            await group.next()
            group.cancelAll()
        }
        return (threads.count > 0 ? ["\(threads.count) threads"] : []) + descriptions
    }

    /// A transport whose links and listeners the present story counts; `transport` itself outside of a story.
    package static func counted(_ transport: any StreamTransport) -> any StreamTransport {
        current.map { CountedTransport(transport, $0) } ?? transport
    }

    private var descriptions: [String] { state.withLock { Array($0.open.values) } }

    fileprivate func add(_ description: String) -> Int {
        state.withLock { state in
            state.last += 1
            state.open[state.last] = description
            return state.last
        }
    }

    fileprivate func remove(_ number: Int) {
        state.withLock { $0.open[number] = nil }
        change.notifyAll()
    }
}

/// One counted object, which is released with its owner.
private final class ResourceToken: Sendable {
    private let resources: StoryResources
    private let number: Int

    init(_ description: String, in resources: StoryResources) {
        self.resources = resources
        number = resources.add(description)
    }

    deinit { resources.remove(number) }
}

private struct CountedTransport: StreamTransport {
    private let inner: any StreamTransport
    private let resources: StoryResources

    init(_ inner: any StreamTransport, _ resources: StoryResources) {
        self.inner = inner
        self.resources = resources
    }

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        CountedListener(try inner.listen(port: port, interface: interface), resources)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        CountedLink(try inner.connect(to: address, timeout: timeout, cancelledBy: cancellation), "an outgoing link", resources)
    }
}

private final class CountedListener: StreamListener {
    private let inner: any StreamListener
    private let resources: StoryResources
    private let token: ResourceToken

    init(_ inner: any StreamListener, _ resources: StoryResources) {
        self.inner = inner
        self.resources = resources
        token = ResourceToken("a listener on port \(inner.port)", in: resources)
    }

    var port: UInt16 { inner.port }
    func accept() throws(LinkError) -> any StreamLink { CountedLink(try inner.accept(), "an incoming link", resources) }
    func close() { inner.close() }
}

private final class CountedLink: ForwardingLink {
    let inner: any StreamLink
    private let token: ResourceToken

    init(_ inner: any StreamLink, _ kind: String, _ resources: StoryResources) {
        self.inner = inner
        token = ResourceToken("\(kind), \(inner.remote)", in: resources)
    }
}
