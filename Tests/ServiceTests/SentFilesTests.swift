import Nearshare
import Testing

@testable import NearshareService

@Suite("the files that a chat sends") struct SentFilesTests {
    private let stage = ServiceStage()
    private static let peer = PeerID(bytes: [UInt8](repeating: 1, count: 8))!

    private func id(_ number: UInt64) -> TransferStatus.ID { .transfer(TransferID(rawValue: number)) }

    private func status(
        _ number: UInt64, outcome: TransferOutcome? = .completed, isIncoming: Bool = false
    ) -> TransferStatus {
        TransferStatus(
            id: id(number), isIncoming: isIncoming, peer: Self.peer, name: "a.jpg", done: 10, total: 10,
            outcome: outcome)
    }

    @Test func `a transfer that ends after its reply is known by its file`() {
        var files = SentFiles()
        #expect(files.recordReply(id(1), path: "/a.jpg") == nil)
        #expect(files.recordStatus(status(1, outcome: nil)) == nil)
        #expect(files.recordStatus(status(1))?.path == "/a.jpg")
        #expect(files.recordStatus(status(1)) == nil, "recorded twice")
    }

    @Test func `a transfer that ends before its reply is known by its file, once the reply arrives`() {
        var files = SentFiles()
        #expect(files.recordStatus(status(1)) == nil)
        #expect(files.recordStatus(status(2)) == nil)
        let ended = files.recordReply(id(1), path: "/a.jpg")
        #expect(ended?.path == "/a.jpg")
        #expect(ended?.outcome == .completed)
        #expect(files.recordReply(id(1), path: "/a.jpg") == nil, "recorded twice")
    }

    @Test(
        "an ended transfer is in the history, and only a completed voice note among the notes that were sent",
        arguments: [TransferOutcome.completed, .interrupted])
    func history(outcome: TransferOutcome) throws {
        let user = try stage.user("ada")
        var files = SentFiles()
        _ = files.recordReply(id(1), path: "/a.opus")
        let known = files.recordStatus(status(1, outcome: outcome))
        let ended = try #require(known)
        let time = WallTime(milliseconds: 5)
        try ended.record(to: nil, isNote: false, at: time, on: user.machine)
        #expect(try user.machine.state.read(SentNoteList.self, from: "voice.json") == nil)
        try ended.record(to: try DisplayName("ben"), isNote: true, at: time, on: user.machine)
        let entries = try TransferLog(of: .sent, in: user.machine.state).entries()
        #expect(entries.map(\.peerName) == [Self.peer.hex, "ben"])
        #expect(entries.allSatisfy { $0.outcome == RecordedOutcome(outcome).rawValue && $0.size == 10 && $0.offeredSize == 10 })
        let notes = try user.machine.state.read(SentNoteList.self, from: "voice.json")?.notes ?? []
        #expect(notes == (outcome == .completed ? [.init(path: "/a.opus", to: ["ben"])] : []))
    }

    /// The part of the stored list of sent notes that is compared.
    private struct SentNoteList: Codable {
        struct Note: Codable, Equatable {
            var path: String
            var to: [String]
        }

        var notes: [Note]
    }

    @Test func `transfers whose end is missed are forgotten`() {
        var files = SentFiles()
        for number in 0...UInt64(SentFiles.maximumRunningCount) { _ = files.recordReply(id(number), path: "/\(number)") }
        #expect(files.recordStatus(status(0)) == nil)
        #expect(files.recordStatus(status(1))?.path == "/1")
    }

    @Test func `ended transfers of other commands and of peers are forgotten`() {
        var files = SentFiles()
        #expect(files.recordStatus(status(1)) == nil)
        for number in 0..<UInt64(SentFiles.maximumUnknownEndCount) - 1 {
            #expect(files.recordStatus(status(100 + number)) == nil)
            #expect(files.recordStatus(status(1_000 + number, isIncoming: true)) == nil)
        }
        #expect(files.recordReply(id(1), path: "/a.jpg") != nil, "forgotten too early")
        #expect(files.recordReply(id(1_000), path: "/b.jpg") == nil, "the transfer of a peer")
        for number in 0...UInt64(SentFiles.maximumUnknownEndCount) { _ = files.recordStatus(status(2_000 + number)) }
        #expect(files.recordReply(id(2_000), path: "/c.jpg") == nil)
    }
}
