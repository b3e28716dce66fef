internal import NearshareBase

/// The schedule of BlueZ's device discovery: a value without clock or bus.
///
/// Discovery stops while a connection is made or a channel is open, because the controller would spend its time on scanning.
/// With several links already it runs in turns (bitchat specification, section 11).
struct DiscoverySession {
    private enum State: Equatable {
        case active(since: MonotonicInstant)
        /// Refused or paused; not before `until`.
        case paused(until: MonotonicInstant)
    }

    enum Reaction: Equatable {
        case start
        case stop
    }

    /// The current needs of the adapter's other parts.
    struct Context {
        /// A caller browses, accepts frame links or chats, and the adapter is powered on.
        var isWanted: Bool
        var isConnecting: Bool
        /// Links that this machine has opened.
        var outgoingLinkCount: Int
        /// All links.
        var linkCount: Int
    }

    private var state = Self.idle
    /// Channels that keep discovery off, by address.
    private var holds: [BluetoothAddress: Int] = [:]

    private static let idle = State.paused(until: MonotonicInstant(nanoseconds: 0))
    private static let dutyCycledLinkCount = 3
    private static let scanTime = Duration.seconds(5)
    private static let pauseTime = Duration.seconds(10)
    private static let retryDelay = Duration.seconds(2)

    /// The addresses with open channels.
    var heldAddresses: Set<BluetoothAddress> { Set(holds.keys) }
    var isHeld: Bool { !holds.isEmpty }

    mutating func tick(at now: MonotonicInstant, in context: Context) -> Reaction? {
        guard isAllowed(in: context) else { return stop() }
        switch state {
        case .paused(let until):
            guard now >= until else { return nil }
            state = .active(since: now)
            return .start
        case .active(let since):
            guard context.linkCount >= Self.dutyCycledLinkCount, now - since >= Self.scanTime else { return nil }
            state = .paused(until: now + Self.pauseTime)
            return .stop
        }
    }

    func nextDeadline(in context: Context) -> MonotonicInstant? {
        guard isAllowed(in: context) else { return nil }
        switch state {
        case .paused(let until): return until
        case .active(let since): return context.linkCount >= Self.dutyCycledLinkCount ? since + Self.scanTime : nil
        }
    }

    private func isAllowed(in context: Context) -> Bool {
        context.isWanted && !isHeld && !context.isConnecting
            && context.outgoingLinkCount < ConnectionScheduler.maximumLinkCount
    }

    /// Records that BlueZ refused to start discovery.
    mutating func startFailed(at now: MonotonicInstant) { state = .paused(until: now + Self.retryDelay) }

    /// Stops discovery until ``tick(at:in:)`` finds it wanted again.
    mutating func stop() -> Reaction? {
        guard case .active = state else { return nil }
        state = Self.idle
        return .stop
    }

    /// BlueZ or the adapter is gone, and discovery with it.
    mutating func reset() { state = Self.idle }

    /// Stops discovery until ``release(_:)`` has been called as often as this function.
    mutating func hold(_ address: BluetoothAddress) -> Reaction? {
        holds[address, default: 0] += 1
        return stop()
    }

    mutating func release(_ address: BluetoothAddress) {
        guard let count = holds[address] else { return }
        holds[address] = count > 1 ? count - 1 : nil
    }

    mutating func releaseAll() { holds = [:] }
}
