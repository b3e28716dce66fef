internal import FoundationEssentials
package import NearshareBase
package import NearshareInterfaces

/// An adapter of this machine, over BlueZ, as an unprivileged user: advertises and finds bitchat's service, carries frames over
/// GATT and streams over L2CAP channels.
package enum BluetoothRadio {
    /// The kernel's names of the adapters, such as "hci0"; without asking BlueZ. The names of devices have a colon.
    package static var adapterNames: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: "/sys/class/bluetooth")) ?? [])
            .filter { $0.hasPrefix("hci") && $0.dropFirst(3).allSatisfy(\.isNumber) }.sorted()
    }

    /// Opens an adapter.
    /// - Parameters:
    ///   - name: of the adapter, such as "hci0"; nil for the first that is powered on.
    ///   - clock: the monotonic clock.
    ///   - log: receives events for troubleshooting; called on a thread of the adapter's own.
    ///   - warn: receives conditions that do not go away by themselves, with advice; called as `log` is.
    package static func open(
        adapter name: String? = nil, clock: @escaping @Sendable () -> MonotonicInstant = SystemClock.monotonic,
        log: @escaping @Sendable (String) -> Void = { _ in }, warn: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(BluetoothError) -> Radio {
        let adapter = try AdapterThread(adapter: name, clock: clock, log: log, warn: warn)
        return Radio(
            frames: GATTFrameRadio(adapter), transport: L2CAPTransport(adapter), discovery: BluetoothDiscovery(adapter),
            chat: BlueChatRadio(adapter))
    }
}
