import Glibc
import Nearshare
import Testing

@testable import NearshareService

@Suite("the history of transfers") struct TransferHistoryTests {
    private let peer = PeerID(bytes: [UInt8](repeating: 1, count: 8))!
    private let other = PeerID(bytes: [UInt8](repeating: 2, count: 8))!

    private func entry(_ content: String, with peer: PeerID, at time: Int64, outcome: String = "completed") -> TransferLog.Entry
    {
        TransferLog.Entry(
            when: WallTime(milliseconds: time), peer: peer, peerName: "ben", content: content, size: 1, outcome: outcome)
    }

    @Test("a conversation lists the ended transfers with its peer, without its own messages") func conversationItems() throws {
        let user = try ServiceStage().user("ada")
        let log = TransferLog(of: .sent, in: user.machine.state)
        try log.append(entry("early", with: peer, at: 1))
        try log.append(entry("of another", with: other, at: 2))
        var message = entry("message", with: peer, at: 3)
        message.message = "id"
        try log.append(message)
        try log.append(entry("declined", with: peer, at: 4, outcome: "declined"))
        var running = entry("running", with: peer, at: 5, outcome: TransferLog.runningOutcome)
        running.attempt = TransferLog.Attempt(process: getpid(), token: "token")
        try log.append(running)
        let history = try TransferHistory(of: user.machine)
        #expect(history.entries(with: peer).map(\.content) == ["early", "message", "declined", "running"])
        #expect(history.conversationItems(with: peer).map(\.content) == ["early", "declined"])
        #expect(history.conversationItems(with: peer, limit: 1).map(\.content) == ["declined"])
        #expect(history.conversationItems(with: peer, before: WallTime(milliseconds: 4)).map(\.content) == ["early"])
    }
}
