import Nearshare
import NearshareInterfaces
import Testing

@testable import NearshareService

@Suite("the history of a send") struct SendRecorderTests {
    private let stage = ServiceStage()
    private let peer = PeerID(bytes: [UInt8](repeating: 1, count: 8))!

    /// - Returns: the entries after these events, each as content, outcome, size and offered size.
    private func entries(after events: [OperationEvent], to name: DisplayName? = nil) throws -> [[String]] {
        let user = try stage.user("ada")
        let name = try name ?? DisplayName("anna")
        let log = TransferLog(of: .sent, in: user.machine.state)
        let recorder = SendRecorder(
            reporter: EventRecorder(), history: log, source: try SendSource.text("hello"))
        for event in events { recorder.report(event) }
        let entries = try log.entries()
        #expect(entries.allSatisfy { $0.peer == peer && $0.peerName == name.claimed })
        return TransferLog.settled(entries, of: .sent) { _ in false }
            .map { [$0.content, $0.outcome, "\($0.size)", $0.offeredSize.map { "\($0)" } ?? ""] }
    }

    private var invitation: OperationEvent { invitation(of: DisplayName(truncating: "anna")!) }

    private func invitation(of name: DisplayName, part: String? = nil) -> OperationEvent {
        .inviting(
            OutgoingInvitation(
                transfer: TransferID(rawValue: 5), peer: peer, receiver: name.claimed, name: name.quoted(of: peer),
                trustStatus: .new, path: .node, part: part.map { ($0, 7) }))
    }

    private func end(
        _ outcome: TransferOutcome, _ byteCount: UInt64, to receiver: String = "anna", transfer: TransferID? = nil,
        of content: String = "message"
    ) -> OperationEvent {
        .sent(
            SendResult(
                transfer: transfer, peer: peer, outcome: outcome, label: "message → \(receiver)", content: content,
                byteCount: byteCount,
                receiver: receiver))
    }

    @Test func `a transfer without an end was interrupted`() throws {
        #expect(try entries(after: [invitation]) == [["message", "interrupted", "0", "5"]])
    }

    @Test func `a transfer is listed once, also one that goes on over another path`() throws {
        #expect(try entries(after: [invitation, invitation, end(.completed, 5)]) == [["message", "completed", "5", "5"]])
        #expect(
            try entries(after: [
                invitation, end(.interrupted, 2), invitation, end(.expired, 0, transfer: TransferID(rawValue: 5)),
            ])
                == [["message", "interrupted", "2", "5"], ["message", "expired", "0", "5"]])
    }

    @Test func `a user's no to one of several files is listed as cancelled, under the name of this file`() throws {
        let name = try DisplayName("anna")
        let refusal = OperationEvent.failed(receiver: "anna", UnsealedConfirmation.refusal(of: "anna"))
        let events = [
            invitation(of: name, part: "a"), end(.completed, 7, of: "a"), invitation(of: name, part: "b"), refusal,
        ]
        #expect(try entries(after: events) == [["a", "completed", "7", "7"], ["b", "cancelled", "0", "7"]])
    }

    @Test func `a chat message that the node has not delivered in time is listed as kept, not as expired`() throws {
        #expect(try entries(after: [invitation, end(.expired, 0)]) == [["message", "kept by the node", "0", "5"]])
    }

    @Test("a text through the node is listed under the receiver's name itself, and updated once it is delivered")
    func keptText() throws {
        let user = try stage.user("ada")
        let log = TransferLog(of: .sent, in: user.machine.state)
        let recorder = SendRecorder(reporter: EventRecorder(), history: log, source: try SendSource.text("hello"))
        let name = try DisplayName("Ben Work: 1")
        for id in ["one", "two"] {
            recorder.report(
                .sent(
                    SendResult(
                        peer: peer, outcome: .expired, label: "message", content: "message", byteCount: 5, receiver: name.shown,
                        receiverName: name, message: id)))
        }
        try log.setOutcome(RecordedOutcome.completed.rawValue, of: "one")
        try log.setOutcome(RecordedOutcome.failed.rawValue, of: "three")
        let entries = try log.entries()
        #expect(entries.map(\.peerName) == ["Ben Work: 1", "Ben Work: 1"])
        #expect(entries.map(\.outcome) == ["completed", "kept by the node"])
        var history = try TransferHistory(of: user.machine)
        try history.restrict(toPeer: "ben w")
        #expect(history.entries.map(\.name) == [name, name])
        #expect(history.entries.map(\.isChatMessage) == [true, true])
    }

    @Test(
        "the receiver is listed by its name itself, whatever it needs in a sentence",
        arguments: ["you", "\"anna\"", "an\"na", "anna#1a2b", "عنا"])
    func names(_ claimed: String) throws {
        let name = try DisplayName(claimed)
        let events = [invitation(of: name), end(.completed, 5, to: name.shown)]
        #expect(try entries(after: events, to: name) == [["message", "completed", "5", "5"]])
        #expect(try entries(after: [invitation(of: name)], to: name) == [["message", "interrupted", "0", "5"]])
    }

    @Test("R11: a sender that has asked too often is told so, and not that another offer is open")
    func askedTooOften() throws {
        let user = try stage.user("ada")
        let log = TransferLog(of: .sent, in: user.machine.state)
        let recorder = SendRecorder(
            reporter: EventRecorder(), history: log, source: try SendSource.text("hello"))
        for event in [invitation, end(.declined(.busy), 0)] { recorder.report(event) }
        #expect(try log.entries().map(\.reason) == [nil, "busy, or asked too often"])
    }

    @Test("a completed text that is no chat message of the node is recorded, unless it is long")
    func texts() throws {
        let transfer = TransferID(rawValue: 5)
        func text(_ text: String, _ end: OperationEvent) throws -> String? {
            let user = try stage.user("ada")
            let log = TransferLog(of: .sent, in: user.machine.state)
            let recorder = SendRecorder(reporter: EventRecorder(), history: log, source: try SendSource.text(text))
            for event in [invitation, end] { recorder.report(event) }
            return try log.entries().last?.text
        }
        #expect(try text("two\nlines", end(.completed, 9, transfer: transfer)) == "two\nlines")
        #expect(try text("two\nlines", end(.completed, 9)) == nil)
        #expect(try text("two\nlines", end(.declined(.declined), 0, transfer: transfer)) == nil)
        #expect(try text(String(repeating: "x", count: 2001), end(.completed, 2001, transfer: transfer)) == nil)
    }

    @Test func `the texts to one peer can be removed, and their entries stay`() throws {
        let user = try stage.user("ada")
        let log = TransferLog(of: .sent, in: user.machine.state)
        let other = PeerID(bytes: [UInt8](repeating: 2, count: 8))!
        for (number, peer) in [peer, other, peer].enumerated() {
            var entry = TransferLog.Entry(
                when: WallTime(milliseconds: Int64(number)), peer: peer, peerName: "x", content: "message", size: 1,
                outcome: "completed")
            if number < 2 { entry.text = "text \(number)" }
            try log.append(entry)
        }
        let minute = try #require(MessageLifetime("1m"))
        let early = try log.removeExpiredTexts(at: WallTime(milliseconds: 59_999)) { _ in minute }
        #expect(early.removed.isEmpty && early.left == [peer: WallTime(milliseconds: 0), other: WallTime(milliseconds: 1)])
        let unlimited = try log.removeExpiredTexts(at: WallTime(milliseconds: 60_001)) { _ in nil }
        #expect(unlimited.removed.isEmpty && unlimited.left.isEmpty)
        #expect(try log.entries().map(\.text) == ["text 0", "text 1", nil])
        let late = try log.removeExpiredTexts(at: WallTime(milliseconds: 60_001)) { $0 == peer ? minute : nil }
        #expect(late.removed == [peer: WallTime(milliseconds: 0)] && late.left.isEmpty)
        #expect(try log.entries().map(\.text) == [nil, "text 1", nil])
        try log.removeTexts(to: other)
        #expect(try log.entries().allSatisfy { $0.text == nil })
        #expect(try log.entries().map(\.when.milliseconds) == [0, 1, 2])
    }

    @Test func `a transfer that fails without a result has failed`() throws {
        let failure = OperationEvent.failed(receiver: "anna", CommandFailure(.failure, "refused"))
        #expect(try entries(after: [invitation, failure]) == [["message", "failed", "0", "5"]])
        #expect(try entries(after: [invitation, end(.completed, 5), failure]) == [["message", "completed", "5", "5"]])
    }
}
