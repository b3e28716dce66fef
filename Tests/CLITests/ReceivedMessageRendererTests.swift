import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

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

    @Test func `lines end with LF or CR LF`() throws {
        #expect(ReceivedMessageRenderer.line(try message(text("a\r\nb\nc"))).hasSuffix("  anna: a\n    b\n    c"))
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
                == #"{"broadcast":false,"content":{"text":"hi"},"created":0,"from":"1a2b3c4d5e6f7081","hops":2,"id":"000102030405060708090a0b0c0d0e0f","name":null,"number":3,"received":60000,"signer":"000000000000ffee","trust":null}"#
        )
        #expect(
            try encoded(.object(ReceivedMessageRenderer.jsonMembers(try message(.besideFile(.null, name: "a"))))).contains(
                #""file":"a""#))
        #expect(
            try encoded(.object(ReceivedMessageRenderer.jsonMembers(try message(.other(9, [])))))
                .contains(#""content":null"#))
    }

    @Test("K2: a sender with the name of another known peer is shown with the tag of its key, and its trust in JSON")
    func nameClash() throws {
        let owner = try #require(Fingerprint(hex: String(repeating: "0e", count: 32)))
        for name in ["anna", "ANNA", "anna ", "\u{202e}anna"] {
            var message = try message(text("pay"), name: name)
            message.trustStatus = .nameClash(knownAs: owner)
            #expect(ReceivedMessageRenderer.line(message).contains("#1a2b: pay"))
            #expect(message.nameWarning?.contains(owner.peerID.hex) == true)
            #expect(try encoded(.object(ReceivedMessageRenderer.jsonMembers(message))).contains(#""trust":"changed""#))
            message.trustStatus = .known(.seen, isFriend: true)
            #expect(!ReceivedMessageRenderer.line(message).contains("#") && message.nameWarning == nil)
        }
    }
}
