import Nearshare
import NearshareTerminal
import Testing

@testable import NearshareCLI
@testable import NearshareService

private let peerID = ChatTyping.peerID

@Suite("transfers in a conversation") struct ChatTransferTests {
    private func text(_ transfers: TransferStatus...) -> String {
        var typing = ChatTyping()
        for transfer in transfers { typing.handle(.event(.transfer(transfer))) }
        typing.press(.control("n"))
        return typing.text
    }

    private func transfer(
        _ done: UInt64, of total: UInt64?, outcome: TransferOutcome? = nil, detail: String? = nil, isIncoming: Bool = false,
        name: String = "a.jpg"
    ) -> TransferStatus {
        TransferStatus(
            id: .transfer(TransferID(rawValue: 1)), isIncoming: isIncoming, peer: peerID, name: name, done: done, total: total,
            outcome: outcome, detail: detail)
    }

    @Test func `progress replaces the line of the same transfer`() {
        let shown = text(transfer(0, of: 10), transfer(5, of: 10))
        #expect(shown.contains("sending a.jpg: 5 B of 10 B, 50%"), "\(shown)")
        #expect(!shown.contains("sending a.jpg…"))
    }

    @Test func `a transfer that has not begun shows its detail`() {
        #expect(text(transfer(0, of: 10, detail: "waiting for an answer")).contains("a.jpg… (waiting for an answer)"))
    }

    @Test func `an unknown size has no percentage, and a wrong one at most 100`() {
        let shown = text(transfer(5, of: nil, isIncoming: true))
        #expect(shown.contains("receiving a.jpg: 5 B") && !shown.contains("%"))
        #expect(text(transfer(.max, of: 1)).contains("100%"))
        #expect(text(transfer(1, of: 0)).contains("100%"))
    }

    @Test func `each outcome is told in words`() {
        #expect(text(transfer(10, of: 10, outcome: .completed)).contains("sent a.jpg of 10 B"))
        #expect(text(transfer(10, of: 10, outcome: .completed, isIncoming: true)).contains("received a.jpg of 10 B"))
        #expect(
            text(transfer(5, of: 10, outcome: .declined(.declined), detail: "anna declined")).contains("a.jpg: anna declined"))
        #expect(text(transfer(5, of: 10, outcome: .failed(.storageFailed, at: .remote))).contains("a.jpg: failed"))
        // An app that takes no private files.
        let refused = text(transfer(0, of: 10, outcome: .failed(.refused, at: .remote), detail: "unsupported"))
        #expect(refused.contains("/send --allow-unencrypted") && !refused.contains("unsupported"), "\(refused)")
    }

    @Test("T1: the claimed name of a file is escaped")
    func hostileName() {
        let shown = text(transfer(0, of: 10, isIncoming: true, name: "a\u{1b}[2J\u{202e}.jpg"))
        #expect(shown.contains("a\\u{1b}[2J\\u{202e}.jpg"), "\(shown)")
    }

    @Test func `what arrives is listed in the conversation with its sender, also where another one is visible`() {
        func arrive(_ typing: inout ChatTyping) -> [ChatScreen.Reaction] {
            let arrival = Arrival(
                kind: .folder, path: "/inbox/trip", name: "trip", size: 1, sender: peerID, senderName: "anna")
            return typing.handle(.event(.receiving(.arrived(arrival, nil))))
        }
        func isListing(_ reactions: [ChatScreen.Reaction]) -> Bool {
            reactions.contains { if case .listFiles(peerID, _) = $0 { true } else { false } }
        }
        var typing = ChatTyping()
        // Listed once the conversation is opened.
        #expect(!isListing(arrive(&typing)))
        typing.meet("anna")
        #expect(isListing(typing.handle(.replied(.history(.peer(peerID)), .success(.chatMessages([]))))))
        // The notices of its arrival are there.
        #expect(!isListing(arrive(&typing)))
        typing.press(.alt("1"))
        #expect(isListing(arrive(&typing)))
        let file = SharedFile(
            TransferHistory.Entry(
                when: typing.now, direction: .incoming, id: peerID, name: DisplayName(truncating: "anna")!, listedName: "anna",
                content: "trip", size: 1, outcome: .completed, path: nil))
        typing.handle(.files(peerID, [file]))
        #expect(typing.text.contains("2 anna (1)") && !typing.text.contains("received trip"))
        typing.press(.alt("2"))
        #expect(typing.text.contains("received trip"))
    }

    @Test func `a new peer keeps its name when it is away`() {
        var typing = ChatTyping()
        typing.meet("anna")
        typing.handle(.event(.contacts([])))
        #expect(typing.text.contains("[2 anna]") && typing.text.contains("anna is away"))
    }
}
