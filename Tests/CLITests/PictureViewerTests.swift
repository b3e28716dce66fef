import Nearshare
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("pictures on the terminal") struct PictureViewerTests {
    @Test func `chafa draws one still picture within the terminal, from the descriptor that it was passed`() {
        let request = PictureViewer.request(for: TerminalSize(columns: 300, rows: 23))
        #expect(
            PictureViewer.arguments(for: request, usesUTF8: true) == [
                "--animate", "off", "--polite", "on", "--threads", "1", "--size", "300x23", "/proc/self/fd/0",
            ])
        let ascii = PictureViewer.arguments(for: request, usesUTF8: false)
        #expect(Array(ascii.suffix(3)) == ["--symbols", "ascii", "/proc/self/fd/0"])
    }

    @Test(
        "a terminal without a size has one row, and what is no request has the size of a common terminal",
        arguments: [
            (PictureViewer.request(for: TerminalSize(columns: 80, rows: 0)), "80x1"),
            (PictureViewer.request(for: TerminalSize(columns: 100_000, rows: -1)), "65535x1"), ([], "80x24"),
            ([1, 2, 3], "80x24"),
        ] as [([UInt8], String)])
    func size(_ request: [UInt8], _ size: String) {
        #expect(PictureViewer.arguments(for: request, usesUTF8: true)[7] == size)
    }

    @Test func `chafa learns the kind of the terminal and the language, and no other variable`() {
        let variables = [
            "TERM": "xterm-kitty", "LANG": "de_DE.UTF-8", "HOME": "/home/anna", "LD_PRELOAD": "/a", "PATH": "/bin",
        ]
        #expect(PictureViewer.environment { variables[$0] } == ["TERM=xterm-kitty", "LANG=de_DE.UTF-8"])
    }

    @Test func `chafa draws with characters in tmux and screen, whatever the terminal around them is`() {
        for kind in ["screen-256color", "tmux-256color"] {
            let variables = ["TERM": kind, "KONSOLE_VERSION": "220370", "VTE_VERSION": "6003"]
            #expect(PictureViewer.environment { variables[$0] } == ["TERM=\(kind)"])
        }
    }

    @Test func `a drawing is what chafa wrote before it ended well`() throws {
        let picture = try PictureViewer.picture(in: [0x61, 0x0a, 0], of: "a.png", usesUTF8: true)
        #expect(picture.bytes.starts(with: [0x61, 0x0a]))
    }

    @Test(
        "L4, L5: each failure says what the user can do",
        arguments: [
            (nil, "chafa could not draw a.png in time"), ([], "chafa could not draw a.png in time"),
            ([0], "chafa wrote more than a picture"), ([0x1b, 0x5b, 0x36, 0x6e, 0], "chafa wrote more than a picture"),
            ([2], "a.png: it is damaged, too large, or of a format"),
            ([137], "a.png: it is damaged, too large, or of a format"),
            ([125], "a.png is not shown: chafa runs only where it can be confined"),
            ([127], "is not installed (Debian: chafa)"),
        ] as [([UInt8]?, String)])
    func failure(_ output: [UInt8]?, _ words: String) {
        let failure = #expect(throws: CommandFailure.self) {
            try PictureViewer.picture(in: output, of: "a.png", usesUTF8: true)
        }
        #expect(failure?.message.contains(words) == true, "\(failure?.message ?? "")")
    }
}
