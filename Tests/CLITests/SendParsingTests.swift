import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("command lines of send") struct SendParsingTests {
    @Test("files, receivers and options")
    func options() throws {
        let send: SendCommand = try parse(
            words("send a b/ --to anna --to ben --links --keep-modes --timeout 2.5 --no-resume --quiet --json"))
        #expect(send.files == ["a", "b/"])
        #expect(send.peers == ["anna", "ben"])
        #expect(send.links && send.keepModes && send.noResume && send.quiet && send.output.json)
        #expect(send.timeout?.duration == .milliseconds(2500))
    }

    @Test("defaults: no receiver, no special treatment")
    func defaults() throws {
        let send: SendCommand = try parse(["send", "a"])
        #expect(send.peers.isEmpty && send.text == nil && send.timeout == nil && send.transport.via == nil)
        #expect(!send.links && !send.keepModes && !send.noResume && !send.quiet && !send.output.json)
    }

    @Test("a repeated receiver is one receiver")
    func unique() throws {
        let send: SendCommand = try parse(words("send a --to anna --to Anna --to anna"))
        #expect(send.peers == ["anna"])
    }

    @Test("standard input has a name and needs a receiver")
    func standardInput() throws {
        let send: SendCommand = try parse(words("send - --as src.tar --to anna"))
        #expect(send.sentName == "src.tar" && send.files == ["-"])
    }

    @Test("patterns that leave nothing out are named, those of a file in one line")
    func unusedPatterns() {
        let ofFile = ["a", " b ", "c", "d\u{1b}"].map { ExclusionPatterns.Unused(pattern: $0, file: "/p") }
        #expect(
            SendCommand.unusedLines([.init(pattern: "x", file: nil)] + ofFile) == [
                "--exclude 'x' leaves nothing out", "--exclude-from /p: 'a', ' b ', 'c' and 1 more leave nothing out",
            ])
        #expect(SendCommand.unusedLines(Array(ofFile.prefix(1))) == ["--exclude-from /p: 'a' leaves nothing out"])
    }

    @Test("text replaces files")
    func text() throws {
        let send: SendCommand = try parse(["send", "--text", "see you at 8", "--to", "anna"])
        #expect(send.text == "see you at 8" && send.files.isEmpty)
    }

    @Test("the transport fits the receivers", arguments: [("lan", Transport.network), ("mesh", .mesh)])
    func transports(_ text: String, _ transport: Transport) throws {
        let send: SendCommand = try parse(["send", "a", "--to", "anna", "--via", text])
        #expect(send.transport.via == transport)
    }

    @Test("addresses are receivers", arguments: ["192.168.1.20:4000", "[fe80::1%eth0]:4000", "anna.local:1"])
    func addresses(_ address: String) throws {
        let send: SendCommand = try parse(["send", "a", "--to", address])
        #expect(send.peers == [address])
    }

    @Test(
        "an address without a port gets the default one",
        arguments: [("10.0.0.1", "10.0.0.1:29742"), ("::1", "[::1]:29742"), ("fe80::1%eth0", "[fe80::1%eth0]:29742")])
    func defaultPort(_ address: String, _ expected: String) throws {
        let send: SendCommand = try parse(["send", "a", "--to", address])
        #expect(send.peers == [expected])
    }

    @Test(
        "invalid combinations",
        arguments: [
            ("send", "nothing to send"), ("send --stdin --to anna", "- for standard input"),
            ("send -- a b --to anna", "there is no file --to; options such as --to go before --"),
            ("send a --text x --to anna", "either files or --text"),
            ("send - b --to anna", "standard input"), ("send a --as x --to anna", "--as"), ("send -", "--to is needed"),
            ("send a --via mesh", "needs --to or --to-everyone"), ("send a --qr --via mesh", "omit --via"),
            ("send a --dialog --via mesh", "omit --via"), ("send a --qr --to b --via mesh", "either --qr or a receiver"),
            ("send a --qr --pin-file p", "do not apply to --qr"),
            ("send a --dialog --allow-unencrypted", "do not apply to --dialog"),
            ("send a --dialog --qr", "either --dialog or --qr"), ("send a --dialog --json", "omit --json"),
            ("send a --dialog --dry-run", "omit --dry-run"), ("send a --dialog --to ben", "picks the receiver; omit --to"),
            ("send --dialog --text x", "omit --text"), ("send - --dialog", "not standard input"),
            ("send a --to 10.0.0.1:5 --via mesh", "is an address"),
            ("send a --timeout 0", "0.1 to 600"), ("send a --timeout 601", "0.1 to 600"), ("send a --timeout x", "0.1 to 600"),
            ("send a --via train", "train"), ("send a --to b --to c --hotspot", "--hotspot is for one receiver"),
            ("send a --to b --via mesh --hotspot", "needs Bluetooth"), ("send - --to b --hotspot", "no --no-resume"),
            ("send a --to b --no-resume --hotspot", "no --no-resume"), ("send a --to b --leave-wifi", "needs --hotspot"),
            ("send a --qr --leave-wifi", "--leave-wifi needs --hotspot"), ("receive --hotspot", "--hotspot needs --qr"),
            ("send a --to b --via bluetooth --interface lo", "--interface is for the network"),
            ("browse --via bluetooth --interface lo", "--interface is for the network"), ("send a --unknown", "unknown"),
        ])
    func invalid(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(message.contains(part), "\(message)")
    }

    @Test("an empty receiver is an error, most often an unset variable", arguments: ["", " ", "\t"])
    func emptyReceiver(_ peer: String) {
        #expect(usageError(["send", "a", "--to", peer]) != nil)
    }
}
