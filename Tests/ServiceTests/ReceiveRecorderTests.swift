import Glibc
import Nearshare
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("the history of a receive") struct ReceiveRecorderTests {
    private let sender = Fingerprint(bytes: [UInt8](repeating: 1, count: 32))!

    /// The beginning of a transfer of 1000 bytes.
    private func beginning(process: Int32, token: String, partial: String?) -> TransferLog.Entry {
        var entry = TransferLog.Entry(
            when: WallTime(milliseconds: 1), peer: sender.peerID, peerName: "ben", content: token, size: 0,
            outcome: TransferLog.runningOutcome, attempt: TransferLog.Attempt(process: process, token: token))
        entry.offeredSize = 1000
        entry.partial = partial
        return entry
    }

    @Test("X5: a peer learns nothing about an item of which no record says whether it was new")
    func unknownOrigin() throws {
        let user = try ServiceStage().user("Bea")
        let history = ReceiveHistory(in: user.machine.state)
        var entry = ReceiveHistory.Entry(
            when: WallTime(milliseconds: 1), peer: sender, peerName: try DisplayName("ben"), claimedName: "x",
            path: "/inbox/new", size: 1, type: nil, isFolder: false)
        try history.append(entry)
        entry.path = "/inbox/old"
        entry.isMerged = nil
        try history.append(entry)
        let paths = ReceivedPaths(in: user.machine.state)
        #expect(paths.contains("/inbox/new", from: sender) && !paths.contains("/inbox/old", from: sender))
    }

    @Test func `after a kill, the next start records how much has arrived, once`() throws {
        let user = try ServiceStage().user("Bea")
        let inbox = try user.machine.inbox(user.scratch("inbox"), limits: InboxLimits())
        try leavePartialTransfer(in: inbox, of: sender)
        let partial = Inbox.partialName(of: sender, resumeKey: partialResumeKey)
        let other = Inbox.partialName(of: sender, resumeKey: [1])
        let log = TransferLog(of: .notReceived, in: user.machine.state)
        // No process has the highest number. This one has that of a killed one, as in a container; the parent runs.
        for entry in [
            beginning(process: .max, token: "part", partial: partial),
            beginning(process: getpid(), token: "again", partial: partial),
            beginning(process: .max, token: "nothing", partial: other),
            beginning(process: .max, token: "stream", partial: nil),
            beginning(process: .max, token: "elsewhere", partial: "../\(partial)"),
            beginning(process: getppid(), token: "running", partial: partial),
        ] {
            try log.append(entry)
        }
        let recorder = ReceiveRecorder(user.machine, inbox: inbox, reporter: EventRecorder())
        for _ in 1...2 {
            recorder.recordKilled()
            let entries = try TransferHistory(of: user.machine).entries
            #expect(
                entries.map { "\($0.content): \($0.outcome.rawValue), \($0.size)" }.sorted() == [
                    "again: interrupted, 500", "elsewhere: interrupted, 0", "nothing: interrupted, 0",
                    "part: interrupted, 500", "running: running, 0", "stream: interrupted, 0",
                ])
        }
    }
}
