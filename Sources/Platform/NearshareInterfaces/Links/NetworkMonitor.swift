/// The addresses of this machine's network interfaces, and their changes.
package protocol NetworkMonitor: AnyObject, Sendable {
    /// The numeric addresses at which peers may reach this machine, without loopback. A link-local IPv6 address has its zone:
    /// "fe80::1%eth0".
    /// - Parameter interface: the only interface to consider; nil for all.
    func addresses(of interface: String?) -> [String]

    /// Whether an interface of this machine has the numeric address, loopback and interfaces that are down included.
    func hasAddress(_ host: String) -> Bool

    /// Blocks until interfaces or addresses have changed since the last call.
    /// - Returns: false after ``close()``.
    func waitForChange() -> Bool

    /// Wakes ``waitForChange()``. May be called from any thread.
    func close()
}

/// A monitor of addresses that the owner sets.
package final class InMemoryNetworkMonitor: NetworkMonitor {
    private struct State {
        var addresses: [String]
        var hasChanged = false
        var isClosed = false
    }

    private let state: Monitor<State>

    package init(addresses: [String] = []) {
        state = Monitor(State(addresses: addresses))
    }

    package func set(_ addresses: [String]) {
        state.update { state in
            state.addresses = addresses
            state.hasChanged = true
        }
    }

    package func addresses(of interface: String?) -> [String] { state.withLock(\.addresses) }

    package func hasAddress(_ host: String) -> Bool { state.withLock { $0.addresses.contains(host) } }

    package func waitForChange() -> Bool {
        state.wait { state in
            if state.isClosed { return false }
            defer { state.hasChanged = false }
            return state.hasChanged ? true : nil
        }
    }

    package func close() { state.update { $0.isClosed = true } }
}
