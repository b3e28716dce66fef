import Nearshare
import Testing

@testable import NearshareService

@Suite struct DeliveryTrackerTests {
    private let anna = PeerID(hex: "1a2b3c4d5e6f7081")!

    private func pipe(_ status: MessageStatus = .sent) -> DeliveryTracker {
        DeliveryTracker(.peer(anna), requiredStatus: status)
    }

    private func marked(_ id: String, _ status: MessageStatus) -> ControlEvent {
        .chatMessageChanged(id: id, conversation: .peer(anna), status: status, reason: nil)
    }

    @Test("done when the input has ended and every line has reached the required status")
    func done() {
        var tracker = pipe(.delivered)
        tracker.recordAcceptance(of: "a")
        tracker.handle(marked("a", .delivered))
        #expect(!tracker.isDone)
        tracker.recordAcceptance(of: "b")
        tracker.recordEndOfInput()
        tracker.handle(marked("b", .sent))
        #expect(!tracker.isDone)
        tracker.handle(marked("b", .read))
        #expect(tracker.isDone)
        #expect(tracker.failures.isEmpty)
    }

    @Test("lines whose delivery is not awaited are done once the node has accepted them")
    func notAwaited() {
        var tracker = pipe(MessageOperation.Goal.submitted.requiredStatus)
        tracker.recordAcceptance(of: "a")
        #expect(!tracker.isDone && tracker.reachedCount == 1)
        tracker.recordEndOfInput()
        #expect(tracker.isDone && tracker.failures.isEmpty)
        tracker.handle(marked("a", .sent))
        #expect(tracker.reachedCount == 1)
    }

    @Test("a state may arrive before the reply with its line's id; states of other lines are ignored")
    func early() {
        var tracker = pipe()
        tracker.handle(marked("a", .sent))
        tracker.handle(marked("other", .sent))
        tracker.handle(.chatMessageChanged(id: "a", conversation: .publicRoom, status: .failed, reason: nil))
        tracker.recordAcceptance(of: "a")
        tracker.recordEndOfInput()
        #expect(tracker.isDone)
        #expect(tracker.reachedCount == 1)
        #expect(tracker.failures.isEmpty)
    }

    @Test("a message that was given up and is delivered after all is no failure", arguments: [MessageStatus.delivered, .read])
    func deliveredAfterAll(_ goal: MessageStatus) {
        var tracker = pipe(goal)
        for id in ["a", "b"] { tracker.recordAcceptance(of: id) }
        tracker.recordRefusal(reason: "too long")
        tracker.handle(marked("a", .failed))
        #expect(tracker.failures.count == 2)
        tracker.handle(marked("a", .sent))
        #expect(tracker.failures.count == 2, "older news change nothing")
        tracker.handle(marked("a", .delivered))
        #expect(tracker.failures == ["too long"])
        #expect(tracker.pending.keys.contains("a") == (goal == .read))
        tracker.handle(marked("a", .read))
        #expect(tracker.reachedCount == 1 && Array(tracker.pending.keys) == ["b"])
    }

    @Test("at the limit of unmatched statuses the oldest is dropped, and no other")
    func unmatchedLimit() {
        var tracker = pipe()
        for number in 0...DeliveryTracker.maximumUnmatchedCount { tracker.handle(marked("\(number)", .sent)) }
        tracker.recordAcceptance(of: "0")
        tracker.recordAcceptance(of: "1")
        #expect(tracker.pending == ["0": .waiting])
        #expect(tracker.reachedCount == 1)
    }

    @Test("stored entries replace lost events")
    func lost() {
        var tracker = pipe()
        tracker.recordAcceptance(of: "a")
        tracker.recordEndOfInput()
        tracker.update(
            with: ChatMessage(
                number: 1, id: "a", conversation: .peer(anna), author: nil, authorName: nil, text: "hi",
                when: WallTime(milliseconds: 0), status: .delivered))
        #expect(tracker.isDone)
    }

    @Test("a state is reported once, whether the store or its event tells it first")
    func repeated() {
        var tracker = pipe(.read)
        tracker.recordAcceptance(of: "a")
        func stored(_ status: MessageStatus) -> ChatMessage {
            ChatMessage(
                number: 1, id: "a", conversation: .peer(anna), author: nil, authorName: nil, text: "hi",
                when: WallTime(milliseconds: 0), status: status)
        }
        tracker.handle(marked("a", .sent))
        let known = tracker.updateFromStore(stored(.sent))
        #expect(known == nil)
        let change = tracker.updateFromStore(stored(.delivered))
        guard case .chatMessageChanged("a", .peer(anna), .delivered, nil) = change else {
            Issue.record("\(String(describing: change))")
            return
        }
        let repeated = [MessageStatus.sent, .delivered, .read].map { tracker.consumeRepeat(of: marked("a", $0)) }
        #expect(repeated == [true, true, false])
    }
}
