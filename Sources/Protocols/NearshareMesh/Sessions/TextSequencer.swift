internal import NearshareBase
internal import NearshareCrypto

/// The texts of one peer in the order in which it has sealed them.
///
/// Relays delay each packet by a random time of their own (bitchat specification, section 5.1), so texts overtake each other. The
/// counters of a session tell the order. A text waits for the messages before it, but not for long: one may be lost, or be a file
/// that takes its time.
struct TextSequencer: Sendable {
    struct Text: Sendable {
        let peer: AuthenticatedPeer
        let message: MeshPrivateMessage
    }

    private struct WaitingText: Sendable {
        let text: Text
        let counter: UInt32
        let deadline: MonotonicInstant
    }

    /// The lowest counter that was neither received nor given up.
    private var next: UInt32 = 0
    /// Bit n tells whether the counter `next + n` was received; the lowest is never set.
    private var received: UInt64 = 0
    /// In ascending order of their counters, none below ``next``.
    private var waiting: [WaitingText] = []
    private var ready: [Text] = []

    /// When a text is delivered although an earlier message is missing; nil while none waits.
    var deadline: MonotonicInstant? { waiting.map(\.deadline).min() }

    /// Counters begin at 0 again. What waits belongs to an earlier session, of which nothing more is expected.
    mutating func startSession() {
        ready += waiting.map(\.text)
        self = TextSequencer(ready: ready)
    }

    init() { self.init(ready: []) }

    private init(ready: [Text]) { self.ready = ready }

    /// Records an authentic message of any kind, after its text was inserted.
    mutating func record(_ counter: UInt32) {
        guard counter >= next else { return }
        if counter - next >= Self.windowSize { advance(to: counter - (Self.windowSize - 1)) }
        received |= 1 << UInt64(counter - next)
        advancePastReceived()
    }

    /// Adds a text, whose counter is recorded afterwards.
    /// - Parameter counter: nil for a text that waits for no other message.
    mutating func insert(_ text: Text, counter: UInt32?, now: MonotonicInstant) {
        guard let counter, counter >= next else { return ready.append(text) }
        let index = waiting.firstIndex { $0.counter > counter } ?? waiting.endIndex
        waiting.insert(WaitingText(text: text, counter: counter, deadline: now + Self.maximumWait), at: index)
    }

    /// Removes the texts that are to be delivered now.
    mutating func popReady(now: MonotonicInstant) -> [Text] {
        while let last = waiting.last(where: { $0.deadline <= now }) { advance(to: last.counter + 1) }
        defer { ready = [] }
        return ready
    }

    /// Gives up the counters below another one.
    private mutating func advance(to counter: UInt32) {
        let step = counter - next
        received = step < Self.windowSize ? received >> UInt64(step) : 0
        next = counter
        advancePastReceived()
    }

    private mutating func advancePastReceived() {
        while received & 1 == 1 {
            received >>= 1
            next &+= 1
        }
        let end = waiting.firstIndex { $0.counter >= next } ?? waiting.endIndex
        ready += waiting[..<end].map(\.text)
        waiting.removeSubrange(..<end)
    }

    /// Counters further apart belong to messages that are lost.
    private static let windowSize: UInt32 = 64
    /// Longest wait for an earlier message: the delays of six relays differ by up to 40 ms each.
    private static let maximumWait = Duration.milliseconds(250)
}
