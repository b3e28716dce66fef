internal import NearshareDBus
package import NearshareInterfaces
internal import Synchronization

/// Discovery without any daemon: libavahi-core inside this process, with no privileges, beside whatever else answers on 5353.
///
/// The responder starts with the first use and ends with the last: with this value, all advertisements and all sequences gone.
package final class EmbeddedDiscovery: Discovery {
    package let engine = "embedded responder"

    private let hostLabel: String
    /// One for each restriction to an interface; nil stands for all interfaces.
    private let responders = Mutex<[String?: Responder]>([:])

    /// - Parameter hostLabel: the name that this process's machine has in multicast DNS; nil for one drawn at random, so that no
    ///   other process on the network, nor on this machine, has the same.
    package init(hostLabel: String? = nil) {
        self.hostLabel = hostLabel ?? "nearshare-" + String(UInt64.random(in: .min ... .max), radix: 36)
    }

    /// Where libavahi-core's own log lines go; it is one place for the whole process. By default nowhere: it takes other
    /// responders on the machine, and interfaces without a route, for worth a warning.
    package static func setLog(_ log: (@Sendable (String) -> Void)?) {
        AvahiLibrary.log.withLock { $0 = log }
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
                hostLabel: responders.isEmpty ? hostLabel : "\(hostLabel)-\(responders.count)", interface)
            responders[interface] = started
            return started
        }
    }
}

/// Ends the thread when nobody needs it any more.
private final class Responder: Sendable {
    let thread: EventLoopThread<AvahiResponder>

    init(hostLabel: String, _ interface: String?) throws(DiscoveryError) {
        thread = try EventLoopThread { wakeup throws(DiscoveryError) in
            try AvahiResponder(hostLabel: hostLabel, interface: interface, wakeup: wakeup)
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
        // Fails only after the responder itself has ended, which says goodbye to all.
        try? responder.thread.run { [id] loop in loop.withdraw(id) }
    }
}
