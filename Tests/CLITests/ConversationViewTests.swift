import Nearshare
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

private let peerID = ChatTyping.peerID

@Suite("conversation view") struct ConversationViewTests {
    private func message(_ number: Int, status: MessageStatus = .sent, isLocal: Bool = true) -> ChatMessage {
        ChatMessage(
            number: number, id: "l\(number)", conversation: .publicRoom, author: isLocal ? nil : peerID,
            authorName: nil, text: "t\(number)", when: WallTime(milliseconds: Int64(number)), status: status)
    }

    private func numbers(_ view: ConversationView) -> [Int] {
        view.items.compactMap { if case .message(let message) = $0.content { message.number } else { nil } }
    }

    @Test("the draft for a peer stays in its view when the peer is found again, and never reaches the public room")
    func draft() throws {
        var views = ConversationViews()
        let opened = views.open(.peer(peerID)) { _ in false }
        let index = try #require(opened)
        views[index].editor.replace(with: "for one")
        let target = views.resolve(at: index, as: .peer(peerID))
        #expect(target == index && views[target].editor.text == "for one" && views[0].editor.isEmpty)
    }

    @Test("lines that the node has removed leave the view; pending ones, notices and what is newer stay")
    func expired() throws {
        var view = ConversationView(.conversation(.publicRoom))
        for number in 1...4 { view.insert(message(number, status: number == 2 ? .waiting : .sent, isLocal: number < 3)) }
        view.updateStatus(of: "l1", to: .failed, reason: "too old")
        view.addNotice("a notice", at: WallTime(milliseconds: 1))
        view.unreadCount = 2
        let (first, second) = (view.items[0].serial, view.items[1].serial)
        view.position = .row(serial: first, index: 3)
        view.removeExpired(until: WallTime(milliseconds: 0))
        #expect(numbers(view) == [1, 2, 3, 4] && view.position == .row(serial: first, index: 3))
        view.removeExpired(until: WallTime(milliseconds: 3))
        // The next row that is left is shown.
        #expect(numbers(view) == [2, 4] && view.position == .row(serial: second, index: 0))
        #expect(view.reasons.isEmpty && view.unreadCount == 1 && view.items.count == 3)
        view.updateStatus(of: "l2", to: .sent, reason: nil)
        view.removeExpired(until: WallTime(milliseconds: 9))
        #expect(numbers(view).isEmpty && view.items.count == 1)
        view.insert(message(5))
        view.position = .row(serial: try #require(view.items.last).serial, index: 0)
        view.removeExpired(until: WallTime(milliseconds: 9))
        #expect(view.position == .end)
    }

    @Test("messages are sorted by number, in whatever order they arrive", arguments: 1...10 as ClosedRange<UInt64>)
    func order(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var view = ConversationView(.conversation(.publicRoom))
        let order = Array(1...40).shuffled(using: &random)
        for number in order { view.insert(message(number)) }
        #expect(numbers(view) == Array(1...40), "seed \(seed)")
        #expect(view.oldestNumber == 1 && view.lastMessage?.number == 40, "seed \(seed)")
        let isNew = order.map { view.insert(message($0)) }
        #expect(!isNew.contains(true), "seed \(seed)")
        #expect(Set(view.items.map(\.serial)).count == 40, "seed \(seed)")
    }

    @Test func `news that is out of date changes no status, and a failed message may still be delivered`() {
        var view = ConversationView(.conversation(.publicRoom))
        view.insert(message(1))
        let states = [MessageStatus.delivered, .sent, .failed, .read, .failed].map { status in
            view.updateStatus(of: "l1", to: status, reason: status == .failed ? "too old" : nil)
            return view.lastMessage?.status
        }
        #expect(states == [.delivered, .delivered, .delivered, .read, .read])
        view.updateStatus(of: "unknown", to: .failed, reason: "too old")
        #expect(view.reasons.isEmpty)
        var waiting = ConversationView(.conversation(.publicRoom))
        waiting.insert(message(1, status: .waiting))
        let reasons = ["early", nil, "late"].map { reason in
            waiting.updateStatus(of: "l1", to: .waiting, reason: reason)
            return waiting.reasons["l1"]
        }
        #expect(reasons == ["early", "early", "late"] && waiting.lastMessage?.status == .waiting)
        waiting.updateStatus(of: "l1", to: .sent, reason: nil)
        waiting.updateStatus(of: "l1", to: .waiting, reason: "early")
        #expect(waiting.reasons.isEmpty && waiting.lastMessage?.status == .sent)
        var failed = ConversationView(.conversation(.publicRoom))
        failed.insert(message(1, status: .failed))
        failed.updateStatus(of: "l1", to: .delivered, reason: nil)
        #expect(failed.lastMessage?.status == .delivered)
    }

    @Test func `a page of older messages that is loaded while the user reads the oldest ones keeps them visible`() {
        var view = ConversationView(.conversation(.publicRoom))
        for number in 1...3_000 { view.insert(message(10_000 + number)) }
        view.position = .row(serial: view.items[0].serial, index: 0)
        view.endLoading(([], isLast: false))
        var oldest = 10_000
        while view.beginLoadingOlder(count: 50) != nil {
            view.endLoading((messages: ((oldest - 49)...oldest).map { message($0) }, isLast: false))
            oldest -= 50
            view.position = .row(serial: view.items[0].serial, index: 0)
        }
        #expect(view.position != .end && view.items.count == 6_000)
        #expect(numbers(view).first == oldest + 1)
    }

    @Test func `reading clears the unread count and the states of received lines`() {
        var view = ConversationView(.conversation(.publicRoom))
        view.insert(message(1, status: .delivered, isLocal: false))
        view.unreadCount = 1
        #expect(view.hasUnreadMessages)
        view.markReceivedRead()
        #expect(!view.hasUnreadMessages && view.unreadCount == 0)
    }

    @Test func `notices and transfers keep their place among messages`() {
        var view = ConversationView(.conversation(.publicRoom))
        view.insert(message(1))
        view.addNotice("a notice", at: WallTime(milliseconds: 0))
        view.insert(message(2))
        #expect(view.items.map { if case .notice = $0.content { true } else { false } } == [false, true, false])
        for done in [1, 2] as [UInt64] {
            view.update(
                TransferStatus(
                    id: .transfer(TransferID(rawValue: 1)), isIncoming: true, peer: peerID, name: "a", done: done, total: 2),
                at: WallTime(milliseconds: 0))
        }
        #expect(view.items.count == 4)
    }

    @Test("M6: old items are dropped at the limit, and can be loaded again")
    func limit() {
        var view = ConversationView(.conversation(.publicRoom))
        view.endLoading(([], isLast: true))
        for number in 1...3_500 { view.addNotice("\(number)", at: WallTime(milliseconds: 0)) }
        #expect(view.items.count <= 3_000 && view.history == .partial)
        guard case .notice("3500", nil)? = view.items.last?.content else {
            Issue.record("the newest item was dropped")
            return
        }
    }

    @Test("M6: a flood into a scrolled conversation is bounded, and leaves the rows that the user reads for a while")
    func scrolledLimit() throws {
        var view = ConversationView(.conversation(.publicRoom))
        for number in 1...100 { view.addNotice("\(number)", at: WallTime(milliseconds: 0)) }
        view.position = .row(serial: try #require(view.items.first).serial, index: 0)
        for number in 101...5_000 { view.addNotice("\(number)", at: WallTime(milliseconds: 0)) }
        #expect(view.position != .end && view.items.count == 5_000)
        for number in 5_001...20_000 { view.addNotice("\(number)", at: WallTime(milliseconds: 0)) }
        #expect(view.position == .end && view.items.count <= 6_000)
    }

    @Test func `requests to a node that has stopped are made again at the next`() {
        var view = ConversationView(.conversation(.publicRoom))
        let isRequested = [view.beginLoading(), view.beginLoading()]
        view.discardPendingRequests()
        #expect(isRequested == [true, false] && view.history == .notRequested)
        let isRequestedAgain = view.beginLoading()
        #expect(isRequestedAgain)
    }
}
