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
