import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

private let annaID = PeerID(hex: "1a2b3c4d5e6f7081")

private func encoded(_ value: JSONValue) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(value), as: UTF8.self)
}

@Suite("JSON values") struct JSONValueTests {
    private static let kinds: [(JSONValue, String)] = [
        (.string("a\"b"), "\"a\\\"b\""), (.number(18_446_744_073_709_551_615), "18446744073709551615"), (.integer(-5), "-5"),
        (.bool(true), "true"), (.null, "null"), (.rate(1.5), "1.5"), (.array([.number(1), .null]), "[1,null]"),
        (.object(["b": .number(2), "a": .number(1)]), "{\"a\":1,\"b\":2}"),
    ]

    @Test func `every kind of value is encoded`() throws {
        for (value, text) in Self.kinds { #expect(try encoded(value) == text) }
    }

    @Test func `missing values are null`() throws {
        #expect(try encoded(JSONValue(nil as String?)) == "null")
        #expect(try encoded(JSONValue(nil as UInt64?)) == "null")
        #expect(try encoded(JSONValue("x")) == "\"x\"")
        #expect(try encoded(JSONValue(7 as UInt64)) == "7")
    }
}

@Suite("structured values as JSON") struct StructuredJSONTests {
    @Test(
        "JSON and structured values correspond",
        arguments: ["null", "true", "17", "-3", "21.5", "\"text\"", "[1,2,[]]", "{\"a\":{\"b\":[null]}}"])
    func roundTrip(_ json: String) throws {
        #expect(StructuredJSON.text(try StructuredJSON.value(of: json)) == json)
    }

    @Test func `bytes are base64 in an object of their own`() throws {
        let value = try StructuredJSON.value(of: "{\"data\":{\"$base64\":\"AAEC\"}}")
        #expect(value == .object(["data": .binary([0, 1, 2])]))
        #expect(StructuredJSON.text(value) == "{\"data\":{\"$base64\":\"AAEC\"}}")
    }

    @Test func `an object with more members is an object`() throws {
        let value = try StructuredJSON.value(of: "{\"$base64\":\"AAEC\",\"b\":1}")
        #expect(value == .object(["$base64": .string("AAEC"), "b": .integer(1)]))
    }

    @Test(
        "invalid JSON is a usage error",
        arguments: ["", "{", "temperature", "{\"a\":}", "[1,]x", "{\"$base64\":\"not base64!\"}"])
    func invalid(_ json: String) {
        #expect {
            try StructuredJSON.value(of: json)
        } throws: {
            CommandFailure($0).status == .usage
        }
    }
}

@Suite("received messages") struct ReceivedMessageRendererTests {
    private func message(
        _ content: BundleContent, sender: PeerID? = annaID, name: String? = "anna", isBroadcast: Bool = false
    ) throws -> ReceivedMessage {
        ReceivedMessage(
            number: 3, id: try #require(BundleID(bytes: [UInt8](0..<16))), sender: sender,
            senderName: try name.map { try DisplayName($0) }, signer: EndpointID(rawValue: 0xffee), content: content,
            isBroadcast: isBroadcast, created: WallTime(milliseconds: 0), received: WallTime(milliseconds: 60_000), hops: 2)
    }

    private func text(_ text: String) -> BundleContent { .structured(.object(["text": .string(text)])) }

    @Test func `a text is shown with its time and its sender`() throws {
        let line = ReceivedMessageRenderer.line(try message(text("hello")))
        #expect(line.hasPrefix(WallTime(milliseconds: 60_000).localText) && line.hasSuffix("  anna: hello"))
    }

    @Test func `a sender without a name is shown by its id, without an id by its signing key`() throws {
        #expect(ReceivedMessageRenderer.line(try message(text("x"), name: nil)).contains("1a2b3c4d5e6f7081: x"))
        #expect(
            ReceivedMessageRenderer.line(try message(text("x"), sender: nil, name: nil)).contains(
                "unknown key 000000000000ffee: x"))
        #expect(ReceivedMessageRenderer.line(try message(text("x"), isBroadcast: true)).contains("anna to everyone: x"))
    }

    @Test func `parts of a long chat line are numbered from 1`() throws {
        let part: [String: StructuredValue] = [
            "text": .string("b"), "id": .string("l"), "part": .integer(1), "of": .integer(3),
        ]
        #expect(ReceivedMessageRenderer.line(try message(.structured(.object(part)))).hasSuffix("b  (2 of 3)"))
        let last: [String: StructuredValue] = [
            "text": .string("b"), "id": .string("l"), "part": .integer(.max), "of": .integer(3),
        ]
        // A number of a peer never traps (R7); such a value is no part of a line.
        #expect(ReceivedMessageRenderer.line(try message(.structured(.object(last)))).contains("\"part\":9223372036854775807"))
    }

    @Test func `other values are JSON, and other content is named as that`() throws {
        let value = StructuredValue.object(["temperature": .number(21.5)])
        #expect(ReceivedMessageRenderer.line(try message(.structured(value))).hasSuffix("{\"temperature\":21.5}"))
        #expect(ReceivedMessageRenderer.line(try message(.other(9, [1]))).contains("(unknown kind of content)"))
    }

    @Test("T7: texts and file names are escaped")
    func hostile() throws {
        let value = StructuredValue.object(["text": .string("a\u{1b}[2J\nb")])
        let line = ReceivedMessageRenderer.line(try message(.besideFile(value, name: "b\u{202e}.jpg")))
        #expect(!line.unicodeScalars.contains("\u{1b}") && !line.unicodeScalars.contains("\u{202e}"))
        // A further line is indented, so that it cannot pass for a message of its own.
        #expect(line.split(separator: "\n").dropFirst().map { $0.hasPrefix("    ") } == [true] && line.contains("[\"b"))
    }

    @Test("T4: the parts of a message are escaped once")
    func escapedOnce() throws {
        let value = StructuredValue.object(["text": .string("x\u{1b}")])
        let line = ReceivedMessageRenderer.line(try message(.besideFile(value, name: "a\\b")))
        #expect(line.hasSuffix("anna: x\\u{1b}  [\"a\\\\b\"]"), "\(line)")
    }

    @Test func `the JSON members of a message`() throws {
        let fields = ReceivedMessageRenderer.jsonMembers(try message(text("hi"), name: nil))
        #expect(
            try encoded(.object(fields))
                == #"{"broadcast":false,"content":{"text":"hi"},"created":0,"from":"1a2b3c4d5e6f7081","hops":2,"id":"000102030405060708090a0b0c0d0e0f","name":null,"number":3,"received":60000,"signer":"000000000000ffee"}"#
        )
        #expect(
            try encoded(.object(ReceivedMessageRenderer.jsonMembers(try message(.besideFile(.null, name: "a"))))).contains(
                #""file":"a""#))
        #expect(
            try encoded(.object(ReceivedMessageRenderer.jsonMembers(try message(.other(9, [])))))
                .contains(#""content":null"#))
    }
}

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
        #expect(status.word == word)
    }
}

@Suite("local time") struct LocalTimeTests {
    @Test func `day, clock and minute have fixed forms`() {
        let time = WallTime(milliseconds: 1_795_271_100_000)
        let local = LocalTime(time)
        #expect(local.clock.count == 5 && local.clock.contains(":"))
        #expect(local.day.split(separator: " ").count == 4)
        #expect(time.localText.count == 16 && time.localText.hasSuffix(local.clock))
        // Times before 1970 and after 9999 are claims of peers, and must not trap (R7).
        for claimed in [Int64.min, -1, 0, .max] { #expect(WallTime(milliseconds: claimed).localText.utf8.count < 64) }
    }
}

@Suite("peer picker") struct PeerPickerTests {
    private func peer(_ digit: String, _ name: String) throws -> NearbyPeer {
        NearbyPeer(id: try #require(PeerID(hex: "000000000000000" + digit)), name: try DisplayName(name), addresses: [])
    }

    @Test func `peers appear, change and disappear; Enter picks the selected one`() throws {
        var picker = PeerPicker(book: TrustStore())
        #expect(picker.lines.count == 2)
        let (anna, ben) = (try peer("a", "anna"), try peer("b", "ben"))
        picker.update(.found(anna))
        picker.update(.found(ben))
        #expect(picker.lines.contains { $0.hasPrefix("▸") && $0.contains("anna") && $0.contains("new") })
        _ = picker.handle(.down)
        picker.update(.lost(anna))
        let reaction = picker.handle(.enter)
        #expect(reaction == .picked(ben))
        picker.update(.lost(ben))
        let empty = picker.handle(.enter)
        #expect(empty == .none)
        let cancelled = picker.handle(.text("q"))
        #expect(cancelled == .cancelled)
    }

    @Test("T1: names are escaped")
    func hostile() throws {
        var picker = PeerPicker(book: TrustStore())
        picker.update(.found(try peer("a", "a\u{1b}[2Jnna")))
        #expect(!picker.lines.joined().contains("\u{1b}"))
    }
}

@Suite("progress of a transfer") struct ProgressPhaseTests {
    private func line(_ change: (inout TransferProgress) -> Void, columns: Int = 100) -> String {
        var progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: 1000, totalEntries: 1)
        progress.phase = .moving
        change(&progress)
        return ProgressLine.text("a.jpg → anna", progress, columns: columns)
    }

    @Test func `each phase has its words`() {
        #expect(line { $0.phase = .connecting }.hasSuffix("connecting…"))
        #expect(line { $0.phase = .waiting }.hasSuffix("waiting for an answer…"))
        #expect(line { $0.phase = .comparing }.contains("comparing"))
        #expect(line { $0.phase = .finishing }.contains("finishing"))
    }

    @Test("R7: any rate can be shown", arguments: [-1, 0, 1e300, .infinity, .nan] as [Double])
    func anyRate(_ rate: Double) {
        #expect(line { $0.rate = rate }.contains("B/s"))
    }

    @Test func `facts appear when they are known`() {
        let full = line {
            $0.done = 250
            $0.totalEntries = 4
            $0.finishedEntries = 1
            $0.rate = 100
            $0.timeLeft = .seconds(8)
        }
        for fact in ["25%", "1 of 4", "250 B of 1.0 KB", "100 B/s", "0:08 left"] { #expect(full.contains(fact), "\(full)") }
        let plain = line { $0.done = 250 }
        #expect(!plain.contains("left") && !plain.contains("/s"))
    }

    @Test("a narrow terminal drops the bar first, then cuts the line", arguments: [10, 30, 40])
    func narrow(_ columns: Int) {
        let text = line({ $0.done = 250 }, columns: columns)
        #expect(TerminalText.width(of: text) < columns)
        #expect(!text.contains("█"))
    }
}

@Suite("the state of a node") struct MeshStatusTests {
    private func status(
        _ bluetooth: NodeStatus.Bluetooth = .notUsed, isStanding: Bool = true, neighbours: [NodeStatus.Neighbour] = []
    ) throws -> NodeStatus {
        NodeStatus(
            id: try #require(annaID), name: try DisplayName("an\u{1b}na"), process: 42, uptime: 3_725, isStanding: isStanding,
            profile: NodeStatus.Profile(
                name: nil, hopLimit: 7, timeToLive: 86_400, sharingTime: 1_000, maximumPropagation: 5, tracklistLimit: 9),
            port: 4000, neighbours: neighbours, storedBundleCount: 3, sessionLifetime: 60,
            secureSessions: neighbours.map(\.contact.id),
            bluetooth: bluetooth, inbox: "/in\u{202e}box")
    }

    private func rows(_ status: NodeStatus) -> [String] { MeshStatusCommand.rows(status).map { $0.joined(separator: ": ") } }

    @Test func `every property of a node has a row, escaped`() throws {
        let rows = rows(try status())
        for row in [
            "name: an\\u{1b}na", "id: 1a2b3c4d5e6f7081", "process: 42, for 1:02:05", "profile: standard", "port: 4000",
            "bluetooth: not used", "inbox: /in\\u{202e}box", "messages stored: 3", "secure sessions: 0, for 60 s each",
        ] { #expect(rows.contains(row), "\(rows)") }
        #expect(self.rows(try status(isStanding: false)).contains("process: 42, for 1:02:05, until another command ends"))
    }

    private static let radios: [(NodeStatus.Bluetooth, String)] = [
        (.starting, "starting"), (.on(channel: 131), "on, channel 131"), (.notUsed, "not used"),
        (.unavailable(reason: "no adapter"), "not available: no adapter"),
    ]

    @Test func `every state of Bluetooth has its words, in text and in JSON`() throws {
        for (bluetooth, text) in Self.radios {
            let status = try status(bluetooth)
            #expect(rows(status).contains("bluetooth: \(text)"))
            #expect(try encoded(.object(MeshStatusCommand.describe(status))).contains("\"bluetooth\":\"\(text)\""))
        }
    }

    @Test func `the JSON members of a neighbour`() throws {
        let contact = Contact(
            id: try #require(PeerID(hex: "00000000000000bb")), name: try DisplayName("ben"),
            trustStatus: .known(.seen, isFriend: false), isNear: true, software: .phone, hasKeys: false)
        let json = try encoded(
            .object(
                MeshStatusCommand.describe(try status(neighbours: [NodeStatus.Neighbour(contact: contact, isDirect: true)]))))
        #expect(
            json.contains(
                #""near":[{"id":"00000000000000bb","linked":true,"name":"ben","secure":true,"software":"phone","trust":"seen"}]"#
            )
        )
        #expect(json.contains(#""standing":true"#) && json.contains(#""carried":3"#))
    }
}
