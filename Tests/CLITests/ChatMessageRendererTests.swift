import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("chat lines outside a chat") struct ChatMessageRendererTests {
    private func entry(_ author: PeerID?, in conversation: Conversation) throws -> ChatMessage {
        ChatMessage(
            number: 7, id: "l7", conversation: conversation, author: author,
            authorName: author == nil ? nil : try DisplayName("anna"), text: "hi", when: WallTime(milliseconds: 5),
            status: .sent)
    }

    @Test func `the JSON members of a received and of a sent line`() throws {
        let id = try #require(annaID)
        let received = ChatMessageRenderer.jsonMembers(try entry(id, in: .peer(id)))
        #expect(
            try encoded(.object(received))
                == #"{"conversation":"1a2b3c4d5e6f7081","from":"1a2b3c4d5e6f7081","id":"l7","name":"anna","number":7,"status":"sent","text":"hi","when":5}"#
        )
        let sent = try encoded(.object(ChatMessageRenderer.jsonMembers(try entry(nil, in: .publicRoom))))
        #expect(sent.contains("\"from\":null") && sent.contains("\"conversation\":\"everybody\""))
    }

    @Test func `the JSON events of a piped conversation`() throws {
        let id = try #require(annaID)
        func json(_ event: ControlEvent) throws -> String? {
            try ChatReport.fields(event, of: .peer(id)).map { "\($0.0) \(try encoded(.object($0.1)))" }
        }
        let delivered = ControlEvent.chatMessageChanged(id: "l7", conversation: .peer(id), status: .delivered, reason: nil)
        #expect(
            try json(delivered)
                == #"chat_message_changed {"conversation":"1a2b3c4d5e6f7081","id":"l7","reason":null,"status":"delivered"}"#)
        #expect(try json(.notice("x")) == "notice {\"text\":\"x\"}")
        #expect(try json(.contacts([])) == "contacts {\"contacts\":[]}")
        let person = Contact(
            id: id, name: try DisplayName("anna"), trustStatus: .known(.verified, isFriend: true), isNear: true,
            software: .phone, hasKeys: false)
        #expect(
            try json(.contacts([person]))
                == #"contacts {"contacts":[{"friend":true,"id":"1a2b3c4d5e6f7081","name":"anna","near":true,"software":"phone","trust":"friend"}]}"#
        )
        let status = TransferStatus(
            id: .transfer(TransferID(rawValue: 1)), isIncoming: true, peer: id, name: "a.jpg", done: 5, total: 10)
        #expect(
            try json(.transfer(status))
                == #"transfer {"detail":null,"done":5,"incoming":true,"name":"a.jpg","outcome":null,"total":10,"transfer":"0000000000000001"}"#
        )
        #expect(ChatReport.fields(.transfer(status), of: .publicRoom) == nil)
    }

    @Test(
        "each delivery state has a JSON value",
        arguments: [
            (MessageStatus.waiting, "waiting"), (.sent, "sent"), (.delivered, "delivered"), (.read, "read"),
            (.failed, "failed"),
        ])
    func marks(_ status: MessageStatus, _ word: String) {
        #expect(status.jsonValue == word)
    }
}
