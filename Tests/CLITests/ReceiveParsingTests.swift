import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("command lines of receive") struct ReceiveParsingTests {
    @Test("all options")
    func options() throws {
        let receive: ReceiveCommand = try parse(
            words(
                "receive --inbox /tmp/in --name anna --accept friends --max-size 500MB --max-per-peer 2GiB --port 4000 --once"))
        #expect(receive.receiving.inbox == "/tmp/in")
        #expect(receive.receiving.name?.name.claimed == "anna")
        #expect(receive.receiving.accept == .friends)
        #expect(receive.receiving.maxSize?.bytes == 500_000_000)
        #expect(receive.receiving.maxPerPeer?.bytes == 2 << 30)
        #expect(receive.receiving.port == 4000)
        #expect(receive.once && !receive.output.json && !receive.stdout)
    }

    @Test("every policy", arguments: ["ask", "friends", "all", "none"])
    func policies(_ policy: String) throws {
        let receive: ReceiveCommand = try parse(["receive", "--accept", policy])
        #expect(receive.receiving.accept?.rawValue == policy)
    }

    @Test(
        "invalid combinations and values",
        arguments: [
            "receive --stdout --json", "receive --stdout --inbox /tmp", "receive --accept some", "receive --max-size many",
            "receive --max-size -1", "receive --port 70000", "receive --port x", "receive extra",
        ])
    func invalid(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }

    @Test("a name is visible, and short enough", arguments: ["", " ", "a\nb", "\u{1b}[31m", String(repeating: "x", count: 64)])
    func invalidNames(_ name: String) {
        #expect(usageError(["receive", "--name", name]) != nil)
    }
}
