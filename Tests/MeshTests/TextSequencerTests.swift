import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareCrypto
@testable import NearshareMesh

@Suite struct TextSequencerTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let peer = AuthenticatedPeer(
        key: LocalIdentity(seed: [UInt8](repeating: 3, count: LocalIdentity.seedByteCount)).agreementKey.publicKey)

    /// Receives the texts of these counters, 1 ms apart.
    private func receive(_ counters: [UInt32], _ sequencer: inout TextSequencer) -> [String] {
        counters.enumerated().flatMap { index, counter in
            let now = now + .milliseconds(index)
            sequencer.insert(text("\(counter)"), counter: counter, now: now)
            sequencer.record(counter)
            return sequencer.popReady(now: now).map(\.message.text)
        }
    }

    private func text(_ text: String) -> TextSequencer.Text {
        TextSequencer.Text(peer: peer, message: MeshPrivateMessage(id: text, text: text))
    }

    @Test("texts that overtook each other are delivered in the order of their counters", arguments: seeds(0..<20))
    func order(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var sequencer = TextSequencer()
        let counters = (0..<60).map { UInt32($0) }.shuffled(using: &random)
        #expect(receive(counters, &sequencer) == (0..<60).map { "\($0)" }, "seed \(seed)")
        #expect(sequencer.deadline == nil)
    }

    @Test("a text waits a quarter of a second for a missing message, which is delivered at once when it comes later")
    func missing() {
        var sequencer = TextSequencer()
        #expect(receive([0, 2, 3], &sequencer) == ["0"])
        #expect(sequencer.deadline == now + .milliseconds(251))
        let early = sequencer.popReady(now: now + .milliseconds(250))
        #expect(early.isEmpty)
        let late = sequencer.popReady(now: now + .milliseconds(251)).map(\.message.text)
        #expect(late == ["2", "3"] && sequencer.deadline == nil)
        #expect(receive([1, 4], &sequencer) == ["1", "4"])
    }

    @Test func `a message of another kind fills the gap`() {
        var sequencer = TextSequencer()
        #expect(receive([1], &sequencer).isEmpty)
        sequencer.record(0)
        let texts = sequencer.popReady(now: now).map(\.message.text)
        #expect(texts == ["1"])
    }

    @Test("counters far ahead, up to the largest, end the wait for those far behind") func jumps() {
        var sequencer = TextSequencer()
        #expect(receive([5, 5 + 64, UInt32.max - 1], &sequencer) == ["5", "69"])
        let last = sequencer.popReady(now: now + .seconds(1)).map(\.message.text)
        #expect(last == ["\(UInt32.max - 1)"] && sequencer.deadline == nil)
        sequencer.record(0)
    }

    @Test("a new session begins at counter 0, after what was left of the earlier one") func newSession() {
        var sequencer = TextSequencer()
        #expect(receive([9], &sequencer).isEmpty)
        sequencer.startSession()
        #expect(receive([0, 1], &sequencer) == ["9", "0", "1"])
        sequencer.insert(text("late"), counter: nil, now: now)
        let late = sequencer.popReady(now: now).map(\.message.text)
        #expect(late == ["late"])
    }
}
