internal import NearshareDBus
package import NearshareInterfaces

/// Discovery through avahi-daemon, where it runs: it knows the network already, and says goodbye for a process that was killed.
/// When the daemon is restarted, everything is published and browsed for again.
package final class DaemonDiscovery: Discovery {
    package let engine = "avahi-daemon"

    private let connection: Connection

    /// - Throws: without a system bus, or when the daemon does not answer within `timeout`.
    package convenience init(
        timeout: Duration = .milliseconds(200), environment: DiscoveryEnvironment = .system
    ) throws(DiscoveryError) {
        try self.init(timeout: timeout, environment: environment, onFallback: nil)
    }

    /// - Parameter onFallback: called on the connection's thread when another engine is needed, and when it is not needed any
    ///   more; nil to fail instead.
    init(
        timeout: Duration, environment: DiscoveryEnvironment,
        onFallback: (@Sendable (AvahiDaemonConnection.FallbackUse) -> Void)?
    ) throws(DiscoveryError) {
        connection = try Connection(timeout: timeout, environment: environment, onFallback: onFallback)
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

/// Owns the thread of the connection, which ends with this object.
private final class Connection: Sendable {
    let thread: EventLoopThread<AvahiDaemonConnection>

    init(
        timeout: Duration, environment: DiscoveryEnvironment,
        onFallback: (@Sendable (AvahiDaemonConnection.FallbackUse) -> Void)?
    ) throws(DiscoveryError) {
        do throws(EventLoopStartError<DiscoveryError>) {
            thread = try EventLoopThread(clock: environment.now) { handle throws(DiscoveryError) in
                try AvahiDaemonConnection(
                    timeout: timeout, wakeup: handle.wakeup, environment: environment, onFallback: onFallback)
            }
        } catch {
            throw error.discoveryError
        }
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
        // Fails only after the connection has ended, and all that was published over it.
        try? connection.thread.run { [id] loop in loop.withdraw(id) }
    }
}
