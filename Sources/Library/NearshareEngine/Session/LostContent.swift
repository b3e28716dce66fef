internal import NearshareBase

/// The reliable messages and byte streams that members did not receive, because their links have ended, their programs have
/// restarted, or they are members no more.
struct LostContent: Sendable {
    private struct Entry: Sendable {
        let member: PeerID
        var messages = 0
        var streams = 0
    }

    /// The members concerned, the latest last.
    private var entries: [Entry] = []
    /// Limit on the members: other members can announce any number that do not exist, and messages to all are for them as well.
    static let maximumMemberCount = 64

    var members: [PeerID] { entries.map(\.member) }

    func messageCount(of member: PeerID) -> Int { entry(of: member).messages }

    func streamCount(of member: PeerID) -> Int { entry(of: member).streams }

    private func entry(of member: PeerID) -> Entry { entries.first { $0.member == member } ?? Entry(member: member) }

    mutating func record(messages: Int = 0, streams: Int = 0, of member: PeerID) {
        guard messages > 0 || streams > 0 else { return }
        var entry = entry(of: member)
        // Bounded: counts what this node's program has handed over.
        entry.messages += messages
        entry.streams += streams
        entries = entries.filter { $0.member != member }.suffix(Self.maximumMemberCount - 1) + [entry]
    }
}
