import NearshareBase
import NearshareDatabase
import NearshareInterfaces
import NearshareTesting
import Testing

@Suite("removal of lines whose lifetime is over") struct MessageExpiryTests {
    private let anna = Conversation.peer(PeerID(bytes: [1, 1, 1, 1, 1, 1, 1, 1])!)
    private let ben = Conversation.peer(PeerID(bytes: [2, 2, 2, 2, 2, 2, 2, 2])!)
    private let scratch = ScratchFolder()
    private let store: SQLiteConversationStore
    private let tenMinutes = MessageLifetime("10m")!

    init() throws {
        store = try SQLiteConversationStore(directory: scratch.path)
    }

    private func at(_ minutes: Int64) -> WallTime { WallTime(milliseconds: minutes * 60_000) }

    /// Stores a line of the peer of the conversation.
    private func receive(_ id: String, in conversation: Conversation, at time: WallTime) throws {
        var author = PeerID(bytes: [3, 3, 3, 3, 3, 3, 3, 3])
        if case .peer(let peer) = conversation { author = peer }
        let message = ChatMessage(
            id: id, conversation: conversation, author: author, authorName: nil, text: "text \(id)", when: time,
            status: .delivered)
        #expect(try store.insert(message) != nil)
    }

    private func write(_ id: String, in conversation: Conversation, at time: WallTime, _ status: MessageStatus) throws {
        let message = ChatMessage(
            id: id, conversation: conversation, author: nil, authorName: nil, text: "text \(id)", when: time, status: status)
        #expect(try store.insert(message, parts: [OutgoingPart(id: "part \(id)", isBundle: true)], isFriend: false) != nil)
    }

    private func receiveBundle(_ number: UInt8, from conversation: Conversation, at time: WallTime) throws {
        guard case .peer(let sender) = conversation else { return }
        let id = try #require(BundleID(bytes: [UInt8](repeating: 0, count: 15) + [number]))
        let bundle = ReceivedBundle(
            id: id, sender: sender, signer: EndpointID(rawValue: .max), content: Array("bundle \(number)".utf8),
            isForEveryone: false, created: at(0), received: time, hops: 1)
        #expect(try store.insert(bundle, isFriend: false) != nil)
    }

    private func ids(_ conversation: Conversation) throws -> [String] {
        try store.messages(of: conversation, before: nil, limit: 100).map(\.id)
    }

    private func removeExpired(standard: MessageLifetime? = nil, at time: WallTime) throws -> MessageExpiry {
        try store.removeExpiredMessages(standard: standard, now: time)
    }

    @Test("lines as old as their lifetime leave the file with their bundles; newer ones and other conversations stay")
    func expired() throws {
        try store.setLifetime(of: anna, to: .limited(tenMinutes))
        try receive("old", in: anna, at: at(0))
        try write("mine", in: anna, at: at(1), .delivered)
        try receive("new", in: anna, at: at(5))
        try receive("other", in: ben, at: at(0))
        try receiveBundle(1, from: anna, at: at(0))
        try receiveBundle(2, from: anna, at: at(6))
        try receiveBundle(3, from: ben, at: at(0))
        let early = try removeExpired(at: WallTime(milliseconds: at(10).milliseconds - 1))
        #expect(early.removed.isEmpty && early.next == at(10))
        let expiry = try removeExpired(at: at(11))
        #expect(expiry.removed == [anna: at(1)] && expiry.next == at(15))
        #expect(try ids(anna) == ["new"] && ids(ben) == ["other"])
        #expect(try store.arrivals(after: 0, limit: 10).map(\.number) == [2, 3])
        for text in ["text old", "text mine", "part mine", "bundle 1"] { #expect(try !scratch.holds(text), "\(text)") }
        let last = try removeExpired(at: at(16))
        #expect(last.removed == [anna: at(6)] && last.next == nil)
        #expect(try store.arrivals(after: 0, limit: 10).map(\.number) == [3])
    }

    @Test("an own line stays until it is delivered or given up, in the public room until it is sent")
    func pending() throws {
        let statuses: [MessageStatus] = [.waiting, .sent, .delivered, .read, .failed]
        for status in statuses {
            try write("\(status)", in: anna, at: at(0), status)
            try write("public \(status)", in: .publicRoom, at: at(0), status)
        }
        let expiry = try removeExpired(standard: tenMinutes, at: at(20))
        #expect(try ids(anna) == ["waiting", "sent"] && ids(.publicRoom) == ["public waiting"])
        #expect(expiry.next == nil, "they are removed once they are not pending any more")
        #expect(try store.updateStatus(of: "sent", in: anna, to: .delivered))
        #expect(try store.updateStatus(of: "waiting", in: anna, to: .failed))
        #expect(try removeExpired(standard: tenMinutes, at: at(20)).removed == [anna: at(10)])
        #expect(try ids(anna).isEmpty)
    }

    @Test("the clock may be set: a line from the future stays until its lifetime is over by that clock")
    func future() throws {
        try receive("future", in: anna, at: at(100))
        for now in [at(50), at(-1_000), WallTime(milliseconds: .min), at(109)] {
            let expiry = try removeExpired(standard: tenMinutes, at: now)
            #expect(expiry.removed.isEmpty && expiry.next == at(110))
        }
        #expect(try removeExpired(standard: tenMinutes, at: at(110)).removed == [anna: at(100)])
        try receive("end of time", in: anna, at: WallTime(milliseconds: .max))
        #expect(try removeExpired(standard: tenMinutes, at: at(200)).next == WallTime(milliseconds: .max))
    }

    @Test("settings outlive the process and precede the default, until everything is removed")
    func settings() throws {
        for conversation in [anna, ben, .publicRoom] { try receive("line", in: conversation, at: at(0)) }
        let hour = try #require(MessageLifetime("1h"))
        try store.setLifetime(of: anna, to: .unlimited)
        try store.setLifetime(of: ben, to: .limited(tenMinutes))
        try store.setLifetime(of: ben, to: .limited(hour))
        let again = try SQLiteConversationStore(directory: scratch.path)
        #expect(try again.lifetimes() == [anna: LifetimeSetting.unlimited, ben: .limited(hour)])
        let expiry = try again.removeExpiredMessages(standard: tenMinutes, now: at(20))
        #expect(expiry.removed == [Conversation.publicRoom: at(10)] && expiry.next == at(60))
        try store.setLifetime(of: anna, to: .standard)
        #expect(try store.lifetimes() == [ben: LifetimeSetting.limited(hour)])
        #expect(try removeExpired(at: at(20)).removed.isEmpty)
        #expect(try removeExpired(standard: tenMinutes, at: at(20)).removed == [anna: at(10)])
        try store.removeAll()
        #expect(try store.lifetimes().isEmpty)
    }

    @Test("bundles of a peer without lines go after the default lifetime as well")
    func bundlesAlone() throws {
        try receiveBundle(1, from: ben, at: at(3))
        #expect(try removeExpired(standard: tenMinutes, at: at(12)).next == at(13))
        #expect(try removeExpired(standard: tenMinutes, at: at(13)).removed == [ben: at(3)])
        #expect(try store.arrivals(after: 0, limit: 10).isEmpty)
    }
}
