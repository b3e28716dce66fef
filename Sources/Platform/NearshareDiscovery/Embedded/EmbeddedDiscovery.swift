internal import NearshareDBus
package import NearshareInterfaces
internal import Synchronization

/// Discovery without a daemon: libavahi-core inside this process, unprivileged, beside other responders on UDP port 5353.
///
/// A responder starts with the first use, and ends when this object, all advertisements and all sequences are released.
package final class EmbeddedDiscovery: Discovery {
    package let engine = "embedded responder"

    private let hostLabel: String
    private let environment: DiscoveryEnvironment
    /// The responders by the interface that they are restricted to; nil means all interfaces.
    private let responders = Mutex<[String?: Responder]>([:])

    /// - Parameter hostLabel: this process's host name in multicast DNS; nil for a random one, unique on the network and on
    /// this machine.
    package init(hostLabel: String? = nil, environment: DiscoveryEnvironment = .system) {
        self.environment = environment
        self.hostLabel = hostLabel ?? "nearshare-" + String(environment.random(), radix: 36)
    }

    /// Sets the receiver of libavahi-core's log, for the whole process. By default the log is dropped: avahi warns of other
    /// responders on the machine and of interfaces without a route.
    package static func setLog(_ log: (@Sendable (String) -> Void)?) {
        AvahiLibrary.log.withLock { $0 = log.map(Handler.init) }
    }

    package func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        try advertisement.check()
        let responder = try responder(on: advertisement.interface)
        let id = try responder.thread.run { loop throws(DiscoveryError) in try loop.publish(advertisement) }
        return EmbeddedAdvertisement(responder: responder, id: id)
    }

    package func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let responder = try responder(on: interface)
        let (stream, continuation) = DiscoveryEvent.makeStream()
        let id = try responder.thread.run { loop throws(DiscoveryError) in try loop.browse(type, to: continuation) }
        continuation.onTermination = { _ in responder.thread.post { $0.end(id) } }
        return stream
    }

    private func responder(on interface: String?) throws(DiscoveryError) -> Responder {
        if let interface { _ = try NetworkInterface.index(of: interface) }
        return try responders.withLock { responders throws(DiscoveryError) in
            if let known = responders[interface] { return known }
            let started = try Responder(
                hostLabel: responders.isEmpty ? hostLabel : "\(hostLabel)-\(responders.count)", interface: interface,
                environment: environment)
            responders[interface] = started
            return started
        }
    }
}

/// Owns the thread of a responder, which ends with this object.
private final class Responder: Sendable {
    let thread: EventLoopThread<AvahiResponder>

    init(hostLabel: String, interface: String?, environment: DiscoveryEnvironment) throws(DiscoveryError) {
        do throws(EventLoopStartError<DiscoveryError>) {
            thread = try EventLoopThread(clock: environment.now) { handle throws(DiscoveryError) in
                try AvahiResponder(
                    hostLabel: hostLabel, interface: interface, wakeup: handle.wakeup, environment: environment)
            }
        } catch {
            throw error.discoveryError
        }
    }

    deinit { thread.close() }
}

private final class EmbeddedAdvertisement: RunningAdvertisement {
    private let responder: Responder
    private let id: UInt64

    init(responder: Responder, id: UInt64) {
        self.responder = responder
        self.id = id
    }

    deinit { stop() }

    func update(txt: [[UInt8]]) throws(DiscoveryError) {
        try Advertisement.check(txt: txt)
        try responder.thread.run { [id] loop throws(DiscoveryError) in try loop.update(id, txt: txt) }
    }

    func stop() {
        // Fails only after the responder has ended, which says goodbye for all services.
        try? responder.thread.run { [id] loop in loop.withdraw(id) }
    }
}
