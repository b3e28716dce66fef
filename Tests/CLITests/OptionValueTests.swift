import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("option values") struct OptionValueTests {
    @Test(arguments: [("500MB", 500_000_000), ("2GiB", 2 << 30), ("17", 17), ("0", 0)] as [(String, UInt64)])
    func `a size is a number with a unit, or bytes`(_ text: String, _ bytes: UInt64) {
        #expect(SizeArgument(argument: text)?.bytes == bytes)
    }

    @Test(arguments: ["", "MB", "-1", "1.2.3", "10 parsecs"])
    func `other texts are not sizes`(_ text: String) {
        #expect(SizeArgument(argument: text) == nil)
    }

    @Test(arguments: [("0.1", 100), ("600", 600_000), ("2.25", 2250)] as [(String, Int64)])
    func `a timeout is 0.1 to 600 seconds`(_ text: String, _ milliseconds: Int64) {
        #expect((try? TimeoutArgument(parsing: text))?.duration == .milliseconds(milliseconds))
    }

    @Test(arguments: ["", "0", "0.05", "600.1", "nan", "inf", "-5", "ten"])
    func `other numbers and texts are not timeouts`(_ text: String) {
        #expect((try? TimeoutArgument(parsing: text)) == nil)
    }

    @Test func `an empty text is no path`() throws {
        #expect(throws: ValidationError.self) { try PathArgument.expanded("") }
        #expect(try PathArgument.expanded("in") == "in")
    }

    @Test(arguments: [("6", 6000), ("24", 24_000), ("25.5", 25_500), ("256", 256_000)])
    func `a bit rate is 6 to 256 kbit/s`(_ text: String, _ bitsPerSecond: Int) {
        #expect(BitrateArgument(argument: text)?.bitsPerSecond == bitsPerSecond)
    }

    @Test(arguments: ["", "5.9", "257", "-24", "nan", "inf", "fast"])
    func `other numbers and texts are not bit rates`(_ text: String) {
        #expect(BitrateArgument(argument: text) == nil)
    }

    @Test("names keep what is visible", arguments: ["anna", "Ann-Kathrin Ü.", "漢字", "👩‍🔬 lab", "01234567"])
    func names(_ name: String) {
        #expect(NameArgument(argument: name)?.name.claimed == name)
    }

    @Test(
        "T4, K2: a name with nothing visible, with a line break, or in the form of an id is rejected",
        arguments: ["", " ", "\u{200B}", "\u{2060} ", "a\nb", "0123456789abcdef", "0123456789ABCDEF"])
    func invalidNames(_ name: String) {
        #expect(NameArgument(argument: name) == nil)
    }

    @Test("T8: only the script of bash quotes what a shell would expand in names of items, and no script quotes line breaks")
    func quotableNames() {
        for name in ["a b", "Ü.txt"] {
            #expect(PeerArgument.isQuotable(name, for: .bash) && PeerArgument.isQuotable(name, for: .zsh))
        }
        for name in ["a b;c", "$(touch pwn)", "a`b`\"c\\!", "~a", "Ü*"] {
            #expect(PeerArgument.isQuotable(name, for: .bash))
            for shell in [CompletionShell.zsh, .fish] { #expect(!PeerArgument.isQuotable(name, for: shell)) }
            #expect(!PeerArgument.isQuotable(name, for: nil))
        }
        for name in ["", "-a", " a", "a:b", "a=b", "a\nb", "a\u{1b}b", "a\u{200B}b"] {
            #expect(!PeerArgument.isQuotable(name, for: .bash))
        }
    }

    @Test("verbosity and log level choose the logger's level")
    func logLevels() throws {
        let cases: [(String, String)] = [
            ("send a", "warning"), ("send a -v", "info"), ("send a -v -v", "debug"), ("send a -vvv", "trace"),
            ("send a --log-level info", "info"), ("send a --log-level warning", "warning"),
            ("send a -vvv --log-level error", "error"),
        ]
        for (line, level) in cases {
            let send: SendCommand = try parse(words(line))
            #expect("\(send.global.logger.logLevel)" == level, "\(line)")
        }
        #expect(usageError(words("send a --log-level loud")) != nil)
    }

    @Test("T8: a peer is offered to a shell by its id where no quotation marks keep its name together")
    func completion() throws {
        let id = try #require(PeerID(hex: "0123456789abcdef"))
        for name in ["anna", "Anna's phone", "安娜 2", "Mum & Dad", "e\u{301}va", "Pixel 8 (2)", "☕ bar"] {
            #expect(PeerArgument.words(for: [(try DisplayName(name), id)], TrustStore()) == [name])
        }
        let names = [
            "x$(touch pwned)", "x`id`", "a;b", "a|b", "a>b", "~root", "a*", "a?b", "!1", "\"", "c\\d", "-v", "b\u{1b}[31men",
            "{a,b}", "$HOME", "=ls", "a:b", "a\u{200b}b", "a\u{a0}b",
        ]
        for name in names {
            #expect(
                PeerArgument.words(for: [(try DisplayName(name), id)], TrustStore()) == [id.hex], "\(name.debugDescription)")
        }
    }

    @Test("K2: a name of several peers is offered for the trusted one, and an id for the others")
    func sharedNames() throws {
        let keys = (1...3).map { Fingerprint(bytes: [UInt8](repeating: $0, count: 32))! }
        let ids = keys.map(\.peerID)
        let name = try DisplayName("anna")
        let peers = (ids + ids).map { (name: name, id: $0) }
        var trust = TrustStore()
        #expect(PeerArgument.words(for: peers, trust) == ids.map(\.hex))
        #expect(PeerArgument.words(for: peers, trust, shell: .bash) == ids.map(\.hex))
        #expect(PeerArgument.words(for: peers, trust, shell: .zsh) == ids.map { "\($0.hex):anna" })
        #expect(PeerArgument.words(for: peers, trust, shell: .fish) == ids.map { "\($0.hex)\tanna" })
        _ = trust.introduce(keys[1], claiming: name, as: name, at: WallTime(milliseconds: 0))
        #expect(PeerArgument.words(for: peers, trust) == [ids[0].hex, "anna", ids[2].hex])
        // A peer that is merely seen has no right to the name.
        _ = trust.rename(keys[1], to: nil)
        #expect(PeerArgument.words(for: peers, trust) == ids.map(\.hex))
    }

    @Test("T8: a peer is named in advice by its id where its name is more than a plain word")
    func advice() throws {
        let id = try #require(PeerID(hex: "0123456789abcdef"))
        for plain in ["anna", "Änne-2.home", "安娜", "a_b"] {
            #expect(PeerArgument.wordForAdvice(try DisplayName(plain), id) == plain)
        }
        let names = [
            "x$(touch pwned)", "x`id`", "a b", "a;b", "a|b", "a&b", "a>b", "~root", "a*", "a?b", "!1", "'", "\"", "c\\d", "-v",
            "b\u{1b}[31men", "{a,b}", "a#b", "#", "$HOME", "=ls", "a:b", "e\u{301}",
        ]
        for name in names {
            #expect(PeerArgument.wordForAdvice(try DisplayName(name), id) == id.hex, "\(name.debugDescription)")
        }
    }
}
