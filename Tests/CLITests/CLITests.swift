import Nearshare
import Testing

@testable import NearshareCLI

@Suite struct JSONEventsTests {
    @Test("T5, T7: nothing in a line of JSON can steer a terminal or end the line")
    func harmless() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\u{2028}\n\u{7f}é😀"
        let line = JSONEvents.harmless("\"\(hostile)\"")
        let isHarmless = line.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
        #expect(isHarmless)
        #expect(line.hasSuffix("\\u007fé😀\""))
        #expect(line.contains("\\u001b]0;x\\u0007\\u009b31m\\u202e\\u2028"))
    }

    @Test("what lies beyond 16 bits is escaped as a pair")
    func pairs() {
        #expect(JSONEvents.harmless("\u{e0001}") == "\\udb40\\udc01")
    }
}

@Suite struct AddressTests {
    @Test(arguments: [
        ("192.168.1.20:4000", "192.168.1.20", 4000), ("[fe80::1%eth0]:4000", "fe80::1%eth0", 4000),
        ("anna.local:1", "anna.local", 1),
    ])
    func addresses(_ text: String, _ host: String, _ port: UInt16) {
        #expect(Address.parse(text) == LinkAddress(host: host, port: port))
    }

    @Test(
        "names and ids are no addresses",
        arguments: ["anna", "anna:", ":4000", "a:70000", "fe80::1", "a:0", "0123456789abcdef"])
    func names(_ text: String) {
        #expect(Address.parse(text) == nil)
    }
}

@Suite struct ProgressLineTests {
    private func progress(_ phase: TransferProgress.Phase, done: UInt64 = 0, total: UInt64? = 1000) -> TransferProgress {
        var progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: total, totalEntries: 1)
        progress.phase = phase
        progress.done = done
        return progress
    }

    @Test("never wider than the terminal", arguments: [20, 40, 60, 80, 200])
    func width(_ columns: Int) {
        var moving = progress(.moving, done: 333_000_000, total: 1_000_000_000)
        moving.rate = 12_345_678
        moving.timeLeft = .seconds(4000)
        for value in [moving, progress(.waiting), progress(.connecting), progress(.finishing), progress(.comparing)] {
            let line = ProgressLine.text("a name that is rather long → somebody", value, columns: columns)
            #expect(TerminalText.width(of: line) < columns, "\(line)")
        }
    }

    @Test func percentAndUnknownTotal() {
        #expect(ProgressLine.text("a", progress(.moving, done: 500), columns: 80).contains("50%"))
        #expect(ProgressLine.text("a", progress(.moving, done: 0, total: 0), columns: 80).contains("100%"))
        #expect(!ProgressLine.text("a", progress(.moving, done: 500, total: nil), columns: 80).contains("%"))
    }
}

@Suite struct FailureTests {
    @Test("every outcome has its exit code")
    func codes() {
        let expected: [(TransferOutcome, NearshareCLI.ExitStatus)] = [
            (.completed, .ok), (.declined(.declined), .declined), (.declined(.noSpace), .noSpace), (.expired, .timedOut),
            (.cancelled(by: .here), .interrupted), (.cancelled(by: .there), .declined), (.interrupted, .peerGone),
            (.failed(.sourceChanged, at: .here), .damaged), (.failed(.noSpace, at: .there), .noSpace),
            (.declined(.identityChanged), .notTrusted),
        ]
        for (outcome, status) in expected { #expect(outcome.status == status, "\(outcome)") }
    }

    @Test("errors of every layer become a sentence and a code")
    func layers() {
        #expect(CommandFailure(NodeError.incompatible("x")).status == .incompatible)
        #expect(CommandFailure(NodeError.identityMismatch("x")).status == .notTrusted)
        #expect(CommandFailure(StorageError(.noSpace, "full")).status == .noSpace)
        #expect(CommandFailure(CancellationError()).status == .interrupted)
        #expect(CommandFailure(PeerLookupError.notFound("anna", nearby: [])).message.contains("doctor"))
    }

    @Test("T1: an ambiguous name is listed with ids, and shown without its tricks")
    func ambiguous() throws {
        let peers = try ["a", "b"].map { tail in
            NearbyPeer(
                id: try #require(PeerID(hex: "000000000000000" + tail)), name: try DisplayName("an\u{1b}[31mna"), addresses: [])
        }
        let message = CommandFailure(PeerLookupError.ambiguous("an", peers)).message
        #expect(message.contains("000000000000000a") && message.contains("000000000000000b"))
        #expect(!message.contains("\u{1b}"))
    }
}
