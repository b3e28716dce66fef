import Nearshare
import NearshareBundles
import Testing

@testable import NearshareService

@Suite("exit codes and messages of failures")
struct FailureTests {
    @Test("every outcome has its exit code")
    func codes() {
        let expected: [(TransferOutcome, NearshareService.ExitStatus)] = [
            (.completed, .ok), (.declined(.declined), .declined), (.declined(.noSpace), .noSpace), (.expired, .timedOut),
            (.cancelled(by: .local), .interrupted), (.cancelled(by: .remote), .declined), (.interrupted, .peerGone),
            (.failed(.sourceChanged, at: .local), .damaged), (.failed(.noSpace, at: .remote), .noSpace),
            (.declined(.identityChanged), .notTrusted),
        ]
        for (outcome, status) in expected { #expect(NearshareService.ExitStatus(outcome) == status, "\(outcome)") }
    }

    @Test func `content that is not stored is named with its receiver, and a lost link with what the receiver can expect`() {
        let failed = TransferOutcome.failed(.storageFailed, at: .remote)
        #expect(failed.sentence("bea", content: "a.jpg") == "bea could not store a.jpg; the reason is shown there")
        let cancelled = TransferOutcome.cancelled(by: .remote)
        #expect(
            cancelled.sentence("bea") == "bea cancelled the transfer; what has arrived is kept: repeat the send to resume")
        #expect(cancelled.sentence("bea", canResume: false) == "bea cancelled the transfer")
        for (count, isNamed) in [(1 as UInt64, false), (1_000_001, true)] {
            let declined = TransferOutcome.declined(.tooLarge).sentence("bea", entryCount: count)
            #expect(declined.contains("a million") == isNamed && declined.contains("--max-size") != isNamed)
        }
        #expect(failed.receiverSentence("ada", isResumable: false) == "it could not be stored")
        #expect(
            TransferOutcome.interrupted.receiverSentence("ada", isResumable: false)
                == "the connection to ada was lost; nothing is kept, and it starts again when ada sends again")
        #expect(
            TransferOutcome.interrupted.receiverSentence("ada", isResumable: false, earlierByteCount: 61_600_000)
                == "the connection to ada was lost; the part received earlier, 61.6 MB, is kept, and it continues there when ada "
                + "sends again")
    }

    @Test func `the advice on a blocked peer names its id where that is all there is`() {
        let id = "0123456789abcdef"
        #expect(
            CommandFailure(NodeError.blocked(id)).message == "\(id) is blocked; `nearshare peers unblock \(id)` unblocks it")
        #expect(CommandFailure(NodeError.blocked("anna")).message == "anna is blocked; `nearshare peers unblock` unblocks it")
    }

    @Test("errors of every layer become a sentence and a code")
    func layers() {
        #expect(CommandFailure(NodeError.incompatible("x")).status == .incompatible)
        #expect(CommandFailure(NodeError.identityMismatch("x")).status == .notTrusted)
        #expect(CommandFailure(StorageError(.noSpace, "full")).status == .noSpace)
        #expect(CommandFailure(CancellationError()).status == .interrupted)
        #expect(CommandFailure(NodeError.notFound("anna", nearby: [])).message.contains("doctor"))
        #expect(ControlFailure(NodeError.unreachable("x")).kind == .peerNotFound)
        #expect(
            ControlFailure(MessageError.receiverKeyUnknown).description
                == "the keys to encrypt messages for the receiver are missing; run `nearshare receive` on the receiver's machine, near "
                + "this one, and send it again; or run `nearshare keys export` there, and `nearshare keys import FILE --for NAME` here"
        )
    }

    @Test("T1: an ambiguous name is listed with ids, and shown without its tricks")
    func ambiguous() throws {
        let peers = try ["a", "b"].map { tail in
            NearbyPeer(
                id: try #require(PeerID(hex: "000000000000000" + tail)), name: try DisplayName("an\u{1b}[31mna"), addresses: [])
        }
        let message = CommandFailure(NodeError.ambiguous("an", peers)).message
        #expect(message.contains("000000000000000a") && message.contains("000000000000000b"))
        #expect(!message.contains("\u{1b}"))
    }
}
