import FoundationEssentials
import Glibc
import NearshareBase
import NearshareDatabase
import NearshareInterfaces
import NearshareTesting
import Testing

@Suite("conversations in SQLite")
struct ConversationStoreTests {
    private let anna = PeerID(bytes: [1, 1, 1, 1, 1, 1, 1, 1])!
    private let ben = PeerID(bytes: [2, 2, 2, 2, 2, 2, 2, 2])!
    private let scratch = ScratchFolder()
    private let store: SQLiteConversationStore

    init() throws {
        store = try SQLiteConversationStore(directory: scratch.path)
    }

    private func line(
        _ id: String, in conversation: Conversation, by author: PeerID? = nil, _ text: String = "hello",
        status: MessageStatus? = nil
    ) -> ChatMessage {
        ChatMessage(
            id: id, conversation: conversation, author: author, authorName: try? DisplayName("a sender"), text: text,
            when: WallTime(milliseconds: 1_000), status: status ?? (author == nil ? .waiting : .delivered))
    }

    @Test("lines come back in their order and after a new start, with what they were stored with")
    func order() throws {
        let messages = [
            line("1", in: .peer(anna), "Grüße, 世界 👩‍👩‍👧"), line("2", in: .peer(anna), by: anna, "a\nb"),
            line("3", in: .publicRoom, by: ben),
        ]
        for message in messages { #expect(try store.insert(message) != nil) }
        let again = try SQLiteConversationStore(directory: scratch.path)
        var kept = try again.messages(of: .peer(anna), before: nil, limit: 10)
        #expect(kept.map(\.number) == [1, 2])
        for index in kept.indices { kept[index].number = 0 }
        #expect(kept == Array(messages[..<2]))
        #expect(try again.messages(of: .peer(anna), before: 2, limit: 10).map(\.id) == ["1"])
        #expect(try again.messages(of: .peer(anna), before: nil, limit: 1).map(\.id) == ["2"])
        #expect(try again.conversations().map(\.conversation) == [.publicRoom, .peer(anna)])
        #expect(try again.conversations().map(\.unreadCount) == [1, 1])
    }

    @Test("a conversation has the newest name of its peer, also behind lines without one")
    func peerNames() throws {
        for (number, name) in ["Anna", "Anja", nil].enumerated() {
            let message = ChatMessage(
                id: "\(number)", conversation: .peer(anna), author: anna, authorName: try name.map { try DisplayName($0) },
                text: "hello", when: WallTime(milliseconds: 0), status: .delivered)
            #expect(try store.insert(message) != nil)
        }
        _ = try store.insert(line("x", in: .peer(anna)))
        _ = try store.insert(line("y", in: .publicRoom, by: anna))
        #expect(try store.conversations().map { $0.peerName?.claimed } == [nil, "Anja"])
    }

    @Test("the time of writing is stored where it tells more than that of the arrival, within bounds")
    func written() throws {
        let arrival: Int64 = 100 * 86_400_000
        let cases: [(Int64, isKept: Bool)] = [
            (arrival - 60_000, false), (arrival - 60_001, true), (arrival + 60_000, false), (arrival + 60_001, true),
            (arrival - 30 * 86_400_000, true), (arrival - 30 * 86_400_000 - 1, false), (.min, false), (.max, false),
        ]
        for (number, (written, _)) in cases.enumerated() {
            let message = ChatMessage(
                id: "\(number)", conversation: .peer(anna), author: anna, authorName: nil, text: "hello",
                when: WallTime(milliseconds: arrival), status: .delivered, written: WallTime(milliseconds: written))
            #expect(try store.insert(message) != nil)
        }
        let kept = try SQLiteConversationStore(directory: scratch.path).messages(of: .peer(anna), before: nil, limit: 10)
        #expect(kept.map(\.written) == cases.map { $0.isKept ? WallTime(milliseconds: $0.0) : nil })
    }

    @Test("M7: a line that comes again is not doubled; ids of two people do not get in each other's way")
    func doubled() throws {
        #expect(try store.insert(line("same", in: .publicRoom, by: anna)) != nil)
        #expect(try store.insert(line("same", in: .publicRoom, by: anna, "another text")) == nil)
        #expect(try store.insert(line("same", in: .publicRoom, by: ben)) != nil)
        #expect(try store.insert(line("same", in: .publicRoom)) != nil)
        #expect(try store.insert(line("same", in: .publicRoom)) == nil)
        #expect(try store.messages(of: .publicRoom, before: nil, limit: 10).map(\.text) == ["hello", "hello", "hello"])
    }

    @Test("lines are found by their text, and removed by conversation")
    func searchedAndCleared() throws {
        for (number, text) in ["Good Morning", "100%", "good night", "_", "Änderung"].enumerated() {
            #expect(try store.insert(line("\(number)", in: .peer(anna), text)) != nil)
        }
        #expect(try store.insert(line("9", in: .publicRoom, "good morning")) != nil)
        #expect(
            try store.messages(of: .peer(anna), containing: "GOOD", limit: 10).map(\.text) == ["Good Morning", "good night"])
        #expect(try store.messages(of: .peer(anna), containing: "good", limit: 1).map(\.text) == ["good night"])
        #expect(try store.messages(of: .peer(anna), containing: "%", limit: 10).map(\.text) == ["100%"])
        #expect(try store.messages(of: .peer(anna), containing: "_", limit: 10).map(\.text) == ["_"])
        #expect(try store.messages(of: .peer(anna), containing: "äNDER", limit: 10).map(\.text) == ["Änderung"])
        try store.removeMessages(of: .peer(anna))
        #expect(try store.messages(of: .peer(anna), before: nil, limit: 10).isEmpty)
        #expect(try store.pendingMessages().map(\.message.id) == ["9"])
        #expect(try store.conversations().map(\.conversation) == [.publicRoom])
    }

    @Test("what a peer has sent leaves the file with its conversation, in every form")
    func clearedArrivals() throws {
        func insertArrival(_ number: UInt8, by sender: PeerID, isForEveryone: Bool = false, _ text: String) throws {
            let id = BundleID(bytes: [UInt8](repeating: 0, count: 15) + [number])!
            let arrival = ReceivedBundle(
                id: id, sender: sender, signer: EndpointID(rawValue: .max), content: Array(text.utf8),
                isForEveryone: isForEveryone, created: WallTime(milliseconds: 5), received: WallTime(milliseconds: 6), hops: 1)
            #expect(try store.insert(arrival, isFriend: false) != nil)
        }
        _ = try store.insert(line("1", in: .peer(anna), by: anna, "a secret of anna"))
        try insertArrival(1, by: anna, "a secret of anna")
        try insertArrival(2, by: anna, isForEveryone: true, "news for everyone")
        try insertArrival(3, by: ben, "a word of ben")
        let piece = try #require(
            TextFragment(sender: anna, textID: "2", index: 0, count: 2, text: "a text that is "))
        #expect(try store.addFragment(piece, isFriend: false, now: WallTime(milliseconds: 1)) == .incomplete)
        try store.removeMessages(of: .peer(anna))
        #expect(try store.arrivals(after: 0, limit: 10).map(\.number) == [2, 3])
        #expect(try !scratch.holds("secret of anna"))
        let rest = try #require(TextFragment(sender: anna, textID: "2", index: 1, count: 2, text: "still arriving"))
        #expect(
            try store.addFragment(rest, isFriend: false, now: WallTime(milliseconds: 2))
                == .whole("a text that is still arriving"))
        try store.removeMessages(of: .publicRoom)
        #expect(try store.arrivals(after: 0, limit: 10).map(\.number) == [2, 3])
    }

    @Test("a mark goes up, never down, and others' lines cannot be marked as ours")
    func statuses() throws {
        _ = try store.insert(line("x", in: .peer(anna)))
        _ = try store.insert(line("y", in: .peer(anna), by: anna))
        #expect(try store.updateStatus(of: "x", in: .peer(anna), to: .sent))
        #expect(try !store.updateStatus(of: "x", in: .peer(anna), to: .sent))
        #expect(try !store.updateStatus(of: "x", in: .peer(ben), to: .delivered))
        #expect(try store.updateStatus(of: "x", in: .peer(anna), to: .failed))
        // It has arrived after all.
        #expect(try store.updateStatus(of: "x", in: .peer(anna), to: .delivered))
        #expect(try !store.updateStatus(of: "x", in: .peer(anna), to: .failed))
        #expect(try store.updateStatus(of: "x", in: .peer(anna), to: .read))
        #expect(try !store.updateStatus(of: "x", in: .peer(anna), to: .sent))
        #expect(try !store.updateStatus(of: "y", in: .peer(anna), to: .read))
        #expect(try store.message("y") == nil)
    }

    @Test("an own line gets another time, and keeps its number; no line of others does")
    func times() throws {
        _ = try store.insert(line("x", in: .peer(anna)))
        _ = try store.insert(line("x", in: .peer(anna), by: anna))
        for conversation in [Conversation.peer(anna), .peer(ben)] {
            try store.setTime(WallTime(milliseconds: 500), of: "x", in: conversation)
        }
        let lines = try store.messages(of: .peer(anna), before: nil, limit: 10)
        #expect(lines.map(\.number) == [1, 2] && lines.map(\.when.milliseconds) == [500, 1_000])
    }

    @Test("a line in several messages is as far as the last of them")
    func parts() throws {
        _ = try store.insert(line("long", in: .peer(anna)))
        try store.recordParts(["a", "b"].map { OutgoingPart(id: $0, isBundle: true) }, of: "long", in: .peer(anna))
        #expect(try store.updatePart(OutgoingPart(id: "a", isBundle: true), in: nil, to: .delivered) == nil)
        #expect(try store.updatePart(OutgoingPart(id: "b", isBundle: true), in: nil, to: .sent)?.status == .sent)
        #expect(try store.pendingMessages().map(\.parts.count) == [2])
        // Told again, and late.
        #expect(try store.updatePart(OutgoingPart(id: "a", isBundle: true), in: nil, to: .sent) == nil)
        #expect(try store.updatePart(OutgoingPart(id: "b", isBundle: true), in: nil, to: .delivered)?.status == .delivered)
        #expect(try store.updatePart(OutgoingPart(id: "b", isBundle: true), in: nil, to: .failed) == nil)
        #expect(try store.pendingMessages().isEmpty)
        #expect(try store.updatePart(OutgoingPart(id: "unknown", isBundle: true), in: nil, to: .sent) == nil)
    }

    @Test("B5: no peer acknowledges a part that went to another peer, or as a bundle")
    func foreignReceipt() throws {
        _ = try store.insert(line("x", in: .peer(anna)))
        let (bundle, text) = (OutgoingPart(id: "a", isBundle: true), OutgoingPart(id: "b", isBundle: false))
        try store.recordParts([bundle], of: "x", in: .peer(anna))
        #expect(try store.updatePart(OutgoingPart(id: "a", isBundle: false), in: .peer(anna), to: .delivered) == nil)
        try store.recordParts([text], of: "x", in: .peer(anna))
        #expect(try store.updatePart(text, in: .peer(ben), to: .delivered) == nil)
        #expect(try store.message("x")?.status == .waiting)
        #expect(try store.updatePart(text, in: .peer(anna), to: .delivered)?.status == .delivered)
    }

    @Test("a part that was delivered stays so when the line is sent again")
    func sentAgain() throws {
        _ = try store.insert(line("long", in: .peer(anna)))
        let parts = ["a", "b"].map { OutgoingPart(id: $0, isBundle: false) }
        try store.recordParts(parts, of: "long", in: .peer(anna))
        #expect(try store.updatePart(OutgoingPart(id: "a", isBundle: false), in: .peer(anna), to: .delivered) == nil)
        try store.recordParts(parts, of: "long", in: .peer(anna))
        #expect(
            try store.updatePart(OutgoingPart(id: "b", isBundle: false), in: .peer(anna), to: .delivered)?.status == .delivered)
    }

    @Test("one part that is lost, and the line is; sent once more, it may arrive")
    func lost() throws {
        _ = try store.insert(line("long", in: .peer(anna)))
        try store.recordParts(["a", "b"].map { OutgoingPart(id: $0, isBundle: true) }, of: "long", in: .peer(anna))
        #expect(try store.updatePart(OutgoingPart(id: "a", isBundle: true), in: nil, to: .failed)?.status == .failed)
        try store.recordParts([OutgoingPart(id: "c", isBundle: true)], of: "long", in: .peer(anna))
        #expect(try store.updatePart(OutgoingPart(id: "b", isBundle: true), in: nil, to: .delivered) == nil)
        #expect(try store.updatePart(OutgoingPart(id: "c", isBundle: true), in: nil, to: .delivered)?.status == .delivered)
    }

    @Test("reading gives what was unread, once, in its order")
    func reading() throws {
        for id in ["1", "2"] { _ = try store.insert(line(id, in: .peer(anna), by: anna)) }
        _ = try store.insert(line("3", in: .peer(anna)))
        #expect(try store.markRead(.peer(anna)) == ["1", "2"])
        #expect(try store.markRead(.peer(anna)).isEmpty)
        #expect(try store.conversations().map(\.unreadCount) == [0])
    }

    @Test("M4: pieces of a text are joined in any order, doubled or not; what never becomes whole is bounded")
    func pieces() throws {
        func piece(_ id: String, _ index: Int, of count: Int = 3, at time: Int64 = 0) throws -> FragmentOutcome {
            let piece = TextFragment(sender: anna, textID: id, index: index, count: count, text: "\(index)")!
            return try store.addFragment(piece, isFriend: false, now: WallTime(milliseconds: time))
        }
        #expect(try piece("t", 2) == .incomplete)
        #expect(try piece("t", 0) == .incomplete)
        #expect(try piece("t", 0) == .repetition)
        #expect(try piece("t", 1) == .whole("012"))
        // Once the line is stored, its sender may send it again: it is complete, and nothing is stored.
        _ = try store.insert(line("t", in: .peer(anna), by: anna, "012"))
        for index in 0..<3 { #expect(try piece("t", index) == .repetition) }
        // The oldest of too many is forgotten: its other pieces do not make it whole.
        #expect(try piece("old", 0, of: 2, at: 1) == .incomplete)
        for number in 0..<16 { #expect(try piece("n\(number)", 0, at: 2 + Int64(number)) == .incomplete) }
        #expect(try piece("old", 1, of: 2, at: 100) == .incomplete)
        #expect(TextFragment(sender: anna, textID: "x", index: 3, count: 3, text: "") == nil)
        #expect(TextFragment(sender: anna, textID: "x", index: 0, count: 65, text: "") == nil)
        #expect(TextFragment(sender: anna, textID: "", index: 0, count: 2, text: "") == nil)
    }

    @Test("M6: arrivals are kept once, in their order, and no more than so many")
    func arrivals() throws {
        func arrival(_ number: UInt16) -> ReceivedBundle {
            let id = BundleID(bytes: [UInt8](repeating: 0, count: 14) + [UInt8(number >> 8), UInt8(number & 255)])!
            return ReceivedBundle(
                id: id, sender: number % 2 == 0 ? anna : nil, signer: EndpointID(rawValue: .max), content: [1, 0xf6],
                isForEveryone: false, created: WallTime(milliseconds: 5), received: WallTime(milliseconds: 6), hops: 3)
        }
        var limits = ConversationLimits()
        limits.arrivals = 10
        let store = try SQLiteConversationStore(directory: scratch.path, limits: limits)
        for number in 1...13 as ClosedRange<UInt16> {
            #expect(try store.insert(arrival(number), isFriend: false) == Int(number))
        }
        #expect(try store.insert(arrival(13), isFriend: false) == nil)
        #expect(try store.arrivals(after: 0, limit: 2).map(\.number) == [4, 5])
        var last = try #require(try store.arrivals(after: 12, limit: 5).first)
        #expect(last.number == 13 && last.sender == nil)
        last.number = 0
        #expect(last == arrival(13))
    }

    @Test("M6: of a conversation the oldest lines go")
    func manyLines() throws {
        var limits = ConversationLimits()
        limits.lines = 3
        let store = try SQLiteConversationStore(directory: scratch.path, limits: limits)
        for number in 1...5 { _ = try store.insert(line("\(number)", in: .peer(ben), by: ben)) }
        _ = try store.insert(line("mine", in: .peer(anna)))
        #expect(try store.messages(of: .peer(ben), before: nil, limit: 10).map(\.id) == ["3", "4", "5"])
        #expect(try store.messages(of: .peer(anna), before: nil, limit: 10).map(\.id) == ["mine"])
        for number in 1...5 {
            _ = try store.insert(line("\(number)", in: .publicRoom))
            _ = try store.insert(line("\(number)", in: .publicRoom, by: ben))
        }
        let room = try store.messages(of: .publicRoom, before: nil, limit: 20)
        #expect(room.filter(\.isLocal).map(\.id) == ["3", "4", "5"] && room.count == 8)
    }

    /// A public line of 60,256 bytes in the store: 266 of them fill its 16 MiB.
    private var longText: String { String(repeating: "x", count: 60_000) }

    private func texts(by author: PeerID?, in store: SQLiteConversationStore) throws -> [String] {
        try store.messages(of: .publicRoom, before: nil, limit: 1_000).filter { $0.author == author }.map(\.id)
    }

    @Test("R6, M12: long public lines of made-up authors remove no line of a friend, of the user, or of one who writes little")
    func longPublicLines() throws {
        _ = try store.insert(line("friend", in: .publicRoom, by: anna), isFriend: true)
        _ = try store.insert(line("mine", in: .publicRoom))
        _ = try store.insert(line("little", in: .publicRoom, by: ben))
        // Under a friend's id, which any peer can announce.
        for number in 0..<300 { _ = try store.insert(line("forged \(number)", in: .publicRoom, by: anna, longText)) }
        let flooder = PeerID(fitting: [9])
        for number in 0..<300 { _ = try store.insert(line("flood \(number)", in: .publicRoom, by: flooder, longText)) }
        #expect(try texts(by: anna, in: store).first == "friend")
        #expect(try texts(by: nil, in: store) == ["mine"] && texts(by: ben, in: store) == ["little"])
        #expect(try texts(by: flooder, in: store).last == "flood 299")
        let bytes = try store.messages(of: .publicRoom, before: nil, limit: 1_000).map { $0.text.utf8.count }.reduce(0, +)
        #expect(bytes <= 16 << 20)
    }

    @Test("R6: in the public room friends and others keep half each; of many authors with little each, the oldest lines go")
    func halves() throws {
        var limits = ConversationLimits()
        limits.roomBytes = 600_000
        let store = try SQLiteConversationStore(directory: scratch.path, limits: limits)
        let text = String(repeating: "x", count: 744)
        for number in 0..<1_000 as Range<UInt16> {
            let stranger = PeerID(fitting: [7, UInt8(number >> 8), UInt8(number & 255)])
            _ = try store.insert(line("\(number)", in: .publicRoom, by: stranger, text))
            _ = try store.insert(line("\(number)", in: .publicRoom, by: number % 2 == 0 ? anna : ben, text), isFriend: true)
        }
        let room = try store.messages(of: .publicRoom, before: nil, limit: 2_000)
        let (friends, strangers) = (
            room.filter { [anna, ben].contains($0.author) }, room.filter { ![anna, ben].contains($0.author) }
        )
        #expect(friends.count == 300 && strangers.count == 300)
        #expect(friends.map(\.id) == (700..<1_000).map(String.init) && strangers.map(\.id) == friends.map(\.id))
    }

    @Test("R6: strangers' conversations, pieces of texts and bundles remove none of a friend to whom the user never wrote")
    func friendsElsewhere() throws {
        var limits = ConversationLimits()
        (limits.untrustedConversations, limits.untrustedBytes, limits.fragments, limits.arrivals) = (5, 20_000, 10, 10)
        let store = try SQLiteConversationStore(directory: scratch.path, limits: limits)
        func piece(_ index: Int, by sender: PeerID, isFriend: Bool = false, at time: Int64) throws -> FragmentOutcome {
            let piece = TextFragment(sender: sender, textID: "t", index: index, count: 2, text: "\(index)")!
            return try store.addFragment(piece, isFriend: isFriend, now: WallTime(milliseconds: time))
        }
        func insertArrival(_ number: UInt8, by sender: PeerID, isFriend: Bool = false) throws {
            let id = BundleID(bytes: [UInt8](repeating: 0, count: 15) + [number])!
            let arrival = ReceivedBundle(
                id: id, sender: sender, signer: EndpointID(rawValue: .max), content: [1], isForEveryone: false,
                created: WallTime(milliseconds: 5), received: WallTime(milliseconds: 6), hops: 3)
            _ = try store.insert(arrival, isFriend: isFriend)
        }
        _ = try store.insert(line("friend", in: .peer(anna), by: anna, String(repeating: "x", count: 3_000)), isFriend: true)
        #expect(try piece(0, by: anna, isFriend: true, at: 0) == .incomplete)
        try insertArrival(0, by: anna, isFriend: true)
        for number in 1...50 as ClosedRange<UInt8> {
            let stranger = PeerID(fitting: [7, number])
            _ = try store.insert(line("hello", in: .peer(stranger), by: stranger, String(repeating: "x", count: 2_000)))
            #expect(try piece(0, by: stranger, at: Int64(number)) == .incomplete)
            try insertArrival(number, by: stranger)
        }
        #expect(try store.messages(of: .peer(anna), before: nil, limit: 5).map(\.id) == ["friend"])
        #expect(try store.conversations().count == 1 + 5)
        #expect(try piece(1, by: PeerID(fitting: [7, 1]), at: 60) == .incomplete)
        #expect(try piece(1, by: anna, isFriend: true, at: 60) == .whole("01"))
        #expect(try store.arrivals(after: 0, limit: 50).map(\.number) == [1] + Array(43...51))
    }

    @Test(
        "M12: lines of untrusted peers and of the public room are bounded in bytes, and take nothing from the user's conversations"
    )
    func bytes() throws {
        var limits = ConversationLimits()
        (limits.roomBytes, limits.untrustedBytes, limits.untrustedConversations) = (50_000, 50_000, 5)
        let store = try SQLiteConversationStore(directory: scratch.path, limits: limits)
        _ = try store.insert(line("question", in: .peer(anna)))
        let text = String(repeating: "x", count: 1_000)
        for number in 0..<200 {
            _ = try store.insert(line("\(number)", in: .publicRoom, by: ben, text))
            _ = try store.insert(line("\(number)", in: .peer(ben), by: ben, text))
            _ = try store.insert(line("\(number)", in: .peer(anna), by: anna, text))
        }
        #expect(try store.messages(of: .publicRoom, before: nil, limit: 500).count <= 50_000 / 1_256)
        #expect(try store.messages(of: .publicRoom, before: nil, limit: 500).last?.id == "199")
        #expect(try (20..<40).contains(store.messages(of: .peer(ben), before: nil, limit: 500).count))
        #expect(try store.messages(of: .peer(anna), before: nil, limit: 500).count == 201)
        for number in 0..<20 as Range<UInt8> {
            let stranger = PeerID(fitting: [7, number])
            _ = try store.insert(line("hello", in: .peer(stranger), by: stranger))
        }
        let conversations = try store.conversations().map(\.conversation)
        #expect(conversations.count == 2 + 5 && conversations.contains(.peer(anna)))
        // An answer makes it the user's own.
        let last = PeerID(fitting: [7, 19])
        _ = try store.insert(line("mine", in: .peer(last)))
        for number in 20..<40 as Range<UInt8> {
            let stranger = PeerID(fitting: [7, number])
            _ = try store.insert(line("hello", in: .peer(stranger), by: stranger))
        }
        #expect(try store.messages(of: .peer(last), before: nil, limit: 5).map(\.id) == ["hello", "mine"])
    }

    @Test("D4: texts with SQL are stored as texts")
    func injection() throws {
        let text = "'; DROP TABLE line; --"
        _ = try store.insert(line(text, in: .peer(anna), by: anna, text))
        #expect(try store.messages(of: .peer(anna), before: nil, limit: 5).map(\.text) == [text])
    }

    @Test("removing leaves nothing, and the file is its owner's alone")
    func removal() throws {
        _ = try store.insert(line("1", in: .publicRoom, by: anna, "a secret of mine"))
        #expect(try scratch.holds("a secret of mine"))
        try store.removeAll()
        #expect(try store.conversations().isEmpty)
        #expect(try !scratch.holds("a secret of mine"))
        var status = stat()
        #expect(stat(scratch("conversations.sqlite"), &status) == 0)
        #expect(status.st_mode & 0o777 == 0o600)
    }
}

extension ScratchFolder {
    /// Whether a text stands in one of its files, wherever.
    func holds(_ text: String) throws -> Bool {
        try FileManager.default.contentsOfDirectory(atPath: path).contains {
            try Data(contentsOf: URL(filePath: self($0))).range(of: Data(text.utf8)) != nil
        }
    }
}
