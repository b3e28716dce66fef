internal import NearshareDBus
package import NearshareInterfaces

/// Discovery through avahi-daemon, where one runs: it knows already who is there, and says goodbye even for a process that was
/// killed. When it is restarted, all is published and asked for again.
package final class DaemonDiscovery: Discovery {
    package let engine = "avahi-daemon"

    private let connection: Connection

    /// - Throws: when there is no system bus, or nobody there answers for avahi within `timeout`.
    package init(timeout: Duration = .milliseconds(200)) throws(DiscoveryError) {
        connection = try Connection(timeout: timeout)
    }

    package func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        try advertisement.check()
        let id = try connection.thread.run { loop throws(DiscoveryError) in try loop.publish(advertisement) }
        return DaemonAdvertisement(connection: connection, id: id)
    }

    package func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        let id = try connection.thread.run { loop throws(DiscoveryError) in
            try loop.browse(type, interface: interface, to: continuation)
        }
        continuation.onTermination = { [connection] _ in connection.thread.post { $0.end(id) } }
        return stream
    }
}

/// Ends the thread when nobody needs it any more.
private final class Connection: Sendable {
    let thread: EventLoopThread<AvahiDaemon>

    init(timeout: Duration) throws(DiscoveryError) {
        thread = try EventLoopThread { wakeup throws(DiscoveryError) in try AvahiDaemon(timeout: timeout, wakeup: wakeup) }
    }

    deinit { thread.close() }
}

private final class DaemonAdvertisement: RunningAdvertisement {
    private let connection: Connection
    private let id: UInt64

    init(connection: Connection, id: UInt64) {
        self.connection = connection
        self.id = id
    }

    deinit { stop() }

    func update(txt: [[UInt8]]) throws(DiscoveryError) {
        try Advertisement.check(txt: txt)
        try connection.thread.run { [id] loop throws(DiscoveryError) in try loop.update(id, txt: txt) }
    }

    func stop() {
        // Fails only after the connection has ended, which ends all that was published over it.
        try? connection.thread.run { [id] loop in loop.withdraw(id) }
    }
}
