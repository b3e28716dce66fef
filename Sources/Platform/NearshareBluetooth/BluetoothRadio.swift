internal import NearshareBase
internal import NearshareDBus
package import NearshareInterfaces
internal import Synchronization

/// An adapter of this machine, over BlueZ: advertises and finds bitchat's service, carries frames over GATT and streams over
/// channels, as an ordinary user.
package enum BluetoothRadio {
    /// - Parameters:
    ///   - adapter: such as "hci0"; nil for the first that is switched on.
    ///   - log: is told what happens, for those who look for a cause; called on a thread of the radio's own.
    ///   - warn: is told what does not work and will not by itself, and what to do; called as `log` is.
    package static func open(
        adapter: String? = nil, log: @escaping @Sendable (String) -> Void = { _ in },
        warn: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(BluetoothError) -> Radio {
        let radio = try AdapterThread(adapter: adapter, log: log, warn: warn)
        return Radio(
            frames: BluetoothFrames(radio), transport: L2CAPTransport(radio), discovery: BluetoothDiscovery(radio),
            chat: BluetoothChat(radio))
    }
}

/// Ends the thread when nobody needs it any more.
final class AdapterThread: Sendable {
    let thread: EventLoopThread<AdapterController>

    init(
        adapter: String?, log: @escaping @Sendable (String) -> Void, warn: @escaping @Sendable (String) -> Void
    ) throws(BluetoothError) {
        let failure = Mutex<BluetoothError?>(nil)
        let poster = Poster()
        do throws(DiscoveryError) {
            thread = try EventLoopThread { wakeup throws(DiscoveryError) in
                do throws(BluetoothError) {
                    return try AdapterController(
                        adapter: adapter, wakeup: wakeup, log: log, warn: warn, post: { poster.post($0) })
                } catch {
                    failure.withLock { $0 = error }
                    throw DiscoveryError(error.description)
                }
            }
        } catch {
            throw failure.withLock { $0 } ?? .failed(error.description)
        }
        poster.set(thread)
    }

    deinit { thread.close() }

    func adapterAddress() throws(LinkError) -> BluetoothAddress {
        do throws(DiscoveryError) {
            return try thread.run { loop throws(DiscoveryError) in
                guard loop.adapter.isPowered else {
                    throw DiscoveryError("the Bluetooth adapter is gone, or switched off")
                }
                return loop.adapter.address
            }
        } catch {
            throw LinkError(.unavailable, error.description)
        }
    }

    /// Stops discovery, and waits for that, until the hold is released. Connections to the peer are not ended meanwhile.
    func holdDiscovery(for peer: BluetoothAddress) -> DiscoveryHold {
        // After the end there is nothing to stop.
        try? thread.run { $0.hold(peer) }
        return DiscoveryHold { [weak self] in self?.thread.post { $0.release(peer) } }
    }
}

/// Keeps discovery off.
final class DiscoveryHold: Sendable {
    private let isReleased = Atomic(false)
    private let onRelease: @Sendable () -> Void

    init(onRelease: @escaping @Sendable () -> Void) {
        self.onRelease = onRelease
    }

    func release() {
        if !isReleased.exchange(true, ordering: .relaxed) { onRelease() }
    }
}

/// Hands work to the thread from inside what the thread itself owns, without keeping it alive.
private final class Poster: Sendable {
    private struct State {
        weak var thread: EventLoopThread<AdapterController>?
    }

    private let state = Mutex(State())

    func set(_ thread: EventLoopThread<AdapterController>) {
        state.withLock { $0.thread = thread }
    }

    func post(_ job: @escaping @Sendable (AdapterController) -> Void) {
        state.withLock { $0.thread }?.post(job)
    }
}

/// Frame links over GATT, in both roles.
private final class BluetoothFrames: FrameRadio {
    private let radio: AdapterThread
    private let turns = Atomic(0)

    init(_ radio: AdapterThread) {
        self.radio = radio
    }

    func links() -> AsyncStream<any FrameLink> {
        let (stream, continuation) = AsyncStream.makeStream(of: (any FrameLink).self)
        // One that has been ended by its successor must not end that.
        let turn = turns.add(1, ordering: .relaxed).newValue
        radio.thread.post { $0.openFrames(turn, continuation) }
        // Keeps the radio as long as somebody takes links.
        continuation.onTermination = { [radio] _ in radio.thread.post { $0.closeFrames(turn) } }
        return stream
    }
}

/// BlueChat's texts.
private final class BluetoothChat: ChatRadio {
    private let radio: AdapterThread
    private let turns = Atomic(0)

    init(_ radio: AdapterThread) {
        self.radio = radio
    }

    func join(as name: DisplayName) -> AsyncStream<ChatRadioEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: ChatRadioEvent.self, bufferingPolicy: .bufferingNewest(Self.maximumEventCount))
        // One that has been ended by its successor must not end that.
        let turn = turns.add(1, ordering: .relaxed).newValue
        radio.thread.post { $0.joinChat(as: name, turn, continuation) }
        continuation.onTermination = { [radio] _ in radio.thread.post { $0.leaveChat(turn) } }
        return stream
    }

    func send(_ text: String, to peer: LinkAddress) throws(LinkError) {
        let answer = Monitor<LinkError??>(nil)
        radio.thread.post { $0.chat.send(text, to: peer) { error in answer.update { $0 = .some(error) } } }
        let deadline = (MonotonicInstant.now + Self.timeout).nanoseconds
        guard let outcome = answer.wait(untilNanoseconds: deadline, { $0 }) else {
            throw LinkError(.timedOut, "\(peer.host) takes no text over Bluetooth; is it near enough?")
        }
        if let outcome { throw outcome }
    }

    func disconnect(_ peer: LinkAddress) {
        radio.thread.post { $0.chat.disconnect(from: peer, at: .now) }
    }

    private static let maximumEventCount = 256
    private static let timeout = Duration.seconds(60)
}

/// Finds peers by what they tell over GATT, and tells of us.
private final class BluetoothDiscovery: Discovery {
    let engine = "Bluetooth"
    private let radio: AdapterThread

    init(_ radio: AdapterThread) {
        self.radio = radio
    }

    /// The port is the channel's number. All types of service are one here, and so are the interfaces.
    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        let answer = Monitor<BluetoothError??>(nil)
        let record = ServiceRecord(psm: advertisement.port, txt: advertisement.txt)
        radio.thread.post { loop in
            loop.advertise(record) { error in answer.update { $0 = .some(error) } }
        }
        let deadline = (MonotonicInstant.now + Self.timeout).nanoseconds
        guard let outcome = answer.wait(untilNanoseconds: deadline, { $0 }) else {
            radio.thread.post { $0.withdraw() }
            throw DiscoveryError("bluetoothd does not answer; `systemctl restart bluetooth` may help")
        }
        if let outcome { throw DiscoveryError(outcome.description) }
        return BluetoothAdvertisement(radio)
    }

    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        let id = try radio.thread.run { loop in loop.browse(continuation) }
        continuation.onTermination = { [radio] _ in radio.thread.post { $0.endBrowsing(id) } }
        return stream
    }

    private static let timeout = Duration.seconds(10)
}

private final class BluetoothAdvertisement: RunningAdvertisement {
    private let radio: AdapterThread
    private let isStopped = Atomic(false)

    init(_ radio: AdapterThread) {
        self.radio = radio
    }

    deinit { stop() }

    func update(txt: [[UInt8]]) throws(DiscoveryError) {
        try Advertisement.check(txt: txt)
        radio.thread.post { $0.update(txt) }
    }

    func stop() {
        if !isStopped.exchange(true, ordering: .relaxed) { radio.thread.post { $0.withdraw() } }
    }
}
