import NearshareBase
import NearshareTesting
import Testing

@Suite("untrusted names, made safe")
struct SafeFileNameTests {
    private func safe(_ text: String, mayBeHidden: Bool = false) -> String {
        SafeFileName(ClaimedFileName(text)!, mayBeHidden: mayBeHidden).text
    }

    @Test(
        "a harmless name stays as it is",
        arguments: [
            "photo.jpg", "a", "Ünïcödé.txt", "日本語.png", "with space.txt", "a.b.c", "x-y_z", "_x", "(1)", "a'b", "100%", "#1",
            "é",
        ])
    func harmless(name: String) {
        #expect(safe(name) == name)
    }

    @Test(
        "P1: separators and dots never make a path",
        arguments: [
            ("../x", "_._x"), ("a/../../x", "a_.._.._x"), ("/etc/x", "_etc_x"), ("..\\x", "_._x"), ("C:\\x", "C__x"),
            ("\\\\h\\s\\x", "__h_s_x"), ("//x", "__x"), ("", "unnamed"), (".", "unnamed"), ("..", "unnamed"), ("x/", "x_"),
            ("a\0b", "a_b"), ("...", "unnamed"), ("/", "unnamed"), ("./", "unnamed"),
        ])
    func paths(claimed: String, stored: String) {
        #expect(safe(claimed) == stored)
    }

    @Test(
        "P5: nothing is hidden, unless it lies in a folder that is not",
        arguments: [
            (".bashrc", "_bashrc", ".bashrc"), (".ssh", "_ssh", ".ssh"), ("..x", "_.x", "..x"), (".", "unnamed", "unnamed"),
            ("..", "unnamed", "unnamed"), ("...", "unnamed", "unnamed"), (". .", "unnamed", "unnamed"), (".-x", "_-x", ".-x"),
        ])
    func hidden(claimed: String, outside: String, inside: String) {
        #expect(safe(claimed) == outside)
        #expect(safe(claimed, mayBeHidden: true) == inside)
    }

    @Test(
        "P8: what Windows, shells and people stumble over",
        arguments: [
            ("CON", "_CON"), ("con", "_con"), ("NUL.txt", "_NUL.txt"), ("nul.tar.gz", "_nul.tar.gz"), ("AUX .txt", "_AUX .txt"),
            ("COM1", "_COM1"), ("com¹.txt", "_com¹.txt"), ("LPT9.x", "_LPT9.x"), ("CONIN$", "_CONIN$"), ("COM", "COM"),
            ("COM10", "COM10"), ("console", "console"), ("dot.", "dot"), ("space ", "space"), ("mixed . .", "mixed"),
            ("a:b", "a_b"), ("-rf", "_rf"), ("~root", "_root"), ("*?\"<>|", "unnamed"), ("two\nlines", "two_lines"),
            (" lead", "_lead"), ("tab\tbed", "tab_bed"),
        ])
    func awkward(claimed: String, stored: String) {
        #expect(safe(claimed) == stored)
    }

    private func inside(_ text: String) -> String {
        SafeFileName(ClaimedFileName(text)!, mayBeHidden: true, rules: .linux).text
    }

    @Test(
        "inside a folder, a file system of Linux keeps what it can hold",
        arguments: [
            "a:b", "a?b", "a*b", "\"a\" <b>|c", "CON", "aux.c", "nul.txt", "Acme Inc.", "etc...", ".bashrc", "_", "__", "..x",
            "...", ".. .", ". .", "....",
            String(repeating: "x", count: 255), String(repeating: "ü", count: 127),
        ])
    func kept(name: String) {
        #expect(inside(name) == name)
    }

    @Test(
        "P2, P8, P11: what protects people is changed inside a folder, too",
        arguments: [
            ("../x", ".._x"), ("..\\x", ".._x"), ("C:\\x", "C:_x"), ("\\\\h\\s", "__h_s"), ("", "unnamed"), (".", "unnamed"),
            ("..", "unnamed"), (".. ", "unnamed"), (" ", "unnamed"), ("a\0b", "a_b"), ("-rf", "_rf"), ("~root", "_root"),
            (" lead", "_lead"), ("space ", "space"), ("two\nlines", "two_lines"), ("photo\u{202e}gpj.exe", "photo_gpj.exe"),
            ("a\u{200b}b", "a_b"), ("\u{301}x", "_\u{301}x"), ("\u{fffd}", "_"),
        ])
    func changedInside(claimed: String, stored: String) {
        #expect(inside(claimed) == stored)
    }

    @Test("P9: a number fits behind the longest name")
    func longNumbered() throws {
        for text in [String(repeating: "x", count: 251) + ".jpg", "a." + String(repeating: "y", count: 253)] {
            let name = SafeFileName(try #require(ClaimedFileName(text)), mayBeHidden: true, rules: .linux)
            #expect(name.text == text)
            let numbered = name.numbered(999).text
            #expect(numbered.utf8.count <= 255 && numbered.contains(" (999)"))
        }
        let photo = try #require(ClaimedFileName(String(repeating: "x", count: 251) + ".jpg"))
        #expect(SafeFileName(photo, mayBeHidden: true, rules: .linux).numbered(2).text.hasSuffix("x (2).jpg"))
    }

    @Test("the rules follow the type of the file system; an unknown one holds less")
    func rules() {
        // ext4, btrfs, XFS, tmpfs, overlayfs; FAT, exFAT, NTFS, FUSE, SMB.
        let linux: [UInt32] = [0xef53, 0x9123_683e, 0x5846_5342, 0x0102_1994, 0x794c_7630]
        let windows: [UInt32] = [0x4d44, 0x2011_bab0, 0x5346_544e, 0x7366_746e, 0x6573_5546, 0xfe53_4d42]
        #expect(linux.allSatisfy { FileNameRules(filesystemType: $0) == .linux })
        #expect(windows.allSatisfy { FileNameRules(filesystemType: $0) == .windows })
        #expect(FileNameRules(filesystemType: nil) == .windows)
    }

    @Test(
        "P8: too long a name is cut in front of its extension, between characters", arguments: ["a", "ü", "日", "👩‍👩‍👧", "e\u{301}"])
    func long(letter: String) throws {
        for suffix in ["", ".jpg", ".tar.gz", "." + String(repeating: "x", count: 100)] {
            let room = 255 - suffix.utf8.count
            let stem = String(repeating: letter, count: max(1, room / letter.utf8.count))
            guard let claimed = ClaimedFileName(stem + suffix) else { continue }
            let text = SafeFileName(claimed).text
            #expect(text.utf8.count <= SafeFileName.maximumByteCount)
            #expect(text.utf8.count > SafeFileName.maximumByteCount - 30 || claimed.bytes.count <= 200)
            if suffix.utf8.count <= 32 { #expect(text.hasSuffix(suffix)) }
            #expect(SafeFileName(claimed).numbered(9999).text.utf8.count <= 255)
        }
        // One character of very many scalars is no way around the limit.
        let tower = "a" + String(repeating: "\u{300}", count: 120)
        #expect(safe(tower).utf8.count <= SafeFileName.maximumByteCount)
    }

    @Test(
        "P11: bytes that are no text, and characters that are not what they seem",
        arguments: [
            [0xff, 0xfe], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0x80], [0xe2, 0x82],
        ] as [[UInt8]])
    func notText(bytes: [UInt8]) {
        #expect(SafeFileName(ClaimedFileName(bytes: [0x61] + bytes + [0x62])!).text.wholeMatch(of: /a_+b/) != nil)
        #expect(SafeFileName(ClaimedFileName(bytes: bytes)!).text == "unnamed")
    }

    @Test(
        "P11: bidirectional, zero-width and other invisible characters",
        arguments: [
            "\u{202e}", "\u{2066}", "\u{200b}", "\u{200d}", "\u{feff}", "\u{2028}", "\u{2029}", "\u{ad}", "\u{34f}", "\u{115f}",
            "\u{3164}", "\u{2800}", "\u{e0041}", "\u{180e}", "\u{85}", "\u{9b}", "\u{7f}", "\u{a0}", "\u{3000}", "\u{e000}",
        ])
    func invisible(character: String) {
        #expect(safe("photo\(character)gpj.exe") == "photo_gpj.exe")
        #expect(safe(character) == "unnamed")
    }

    @Test("a mark does not stand at the beginning, where it would be drawn over something else")
    func leadingMark() {
        #expect(safe("\u{301}x") == "_\u{301}x")
    }

    @Test(
        "numbers stand in front of the extension",
        arguments: [
            ("photo.jpg", "photo (2).jpg"), ("archive.tar.gz", "archive (2).tar.gz"), ("ARCHIVE.TAR.XZ", "ARCHIVE (2).TAR.XZ"),
            ("noext", "noext (2)"), (".tar.gz", "_tar (2).gz"), ("a.b.c", "a.b (2).c"),
        ])
    func numbers(claimed: String, numbered: String) {
        #expect(SafeFileName(ClaimedFileName(claimed)!).numbered(2).text == numbered)
    }

    @Test("whatever is claimed, what comes out is one safe component, and stays so when it is cleaned again")
    func anything() {
        var generator = SeededRandom(seed: 20_261)
        let pieces = [
            "/", "..", ".", " ", "\\", "\0", "é", "\u{202e}", "a", "Z", "CON", "-", "~", "\u{301}", "日", "\u{1b}", ".tar", "😀",
        ]
        for round in 0..<20_000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0...12, using: &generator) {
                if Bool.random(using: &generator) {
                    bytes += Array(pieces.randomElement(using: &generator)!.utf8)
                } else {
                    bytes.append(UInt8.random(in: 0...255, using: &generator))
                }
            }
            let claimed = ClaimedFileName(bytes: bytes)!
            for mayBeHidden in [false, true] {
                let text = SafeFileName(claimed, mayBeHidden: mayBeHidden).text
                let isSafe =
                    !text.isEmpty && text.utf8.count <= SafeFileName.maximumByteCount && text != "." && text != ".."
                    && !text.unicodeScalars.contains { $0.value < 0x20 || "/\\:*?\"<>|\u{202e}".unicodeScalars.contains($0) }
                    && !text.hasSuffix(".") && !text.hasSuffix(" ") && !text.hasPrefix("-") && !text.hasPrefix("~")
                    && (mayBeHidden || !text.hasPrefix("."))
                #expect(isSafe, "seed 20261, round \(round): \(bytes) gave \(text)")
                let again = SafeFileName(ClaimedFileName(text)!, mayBeHidden: mayBeHidden).text
                #expect(again == text, "seed 20261, round \(round): \(bytes)")
            }
            let text = SafeFileName(claimed, mayBeHidden: true, rules: .linux).text
            let isSafe =
                !text.isEmpty && text.utf8.count <= 255 && text != "." && text != ".."
                && !text.unicodeScalars.contains { $0.value < 0x20 || "/\\\u{202e}\u{fffd}".unicodeScalars.contains($0) }
                && !text.hasSuffix(" ") && !text.hasPrefix("-") && !text.hasPrefix("~")
            #expect(isSafe, "seed 20261, round \(round): \(bytes) gave \(text)")
            #expect(inside(text) == text, "seed 20261, round \(round): \(bytes)")
        }
    }

    @Test("P8: no way of shortening a long name makes an unsafe one", arguments: seeds(1...10))
    func shortenedNames(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let starts = ["CON", "aux", "lpt1", "..", "x", "-", "é", "...tar", "a.tar"]
        let fillings = [" ", ".", "_", "日", "\u{301}", ". ", "e\u{301}"]
        let endings = ["x.txt", ".tar.gz", "x", "." + String(repeating: "y", count: 33), " .", ".a b"]
        for round in 0..<300 {
            let start = starts.randomElement(using: &random) ?? ""
            let filling = fillings.randomElement(using: &random) ?? ""
            let ending = endings.randomElement(using: &random) ?? ""
            let room = Int.random(in: 180...250, using: &random) - start.utf8.count - ending.utf8.count
            let text = start + String(repeating: filling, count: max(0, room / filling.utf8.count)) + ending
            guard let claimed = ClaimedFileName(text) else { continue }
            for mayBeHidden in [false, true] {
                let name = SafeFileName(claimed, mayBeHidden: mayBeHidden).text
                #expect(name.utf8.count <= SafeFileName.maximumByteCount, "seed \(seed), round \(round): \(text)")
                #expect(
                    ClaimedFileName(name).map { SafeFileName($0, mayBeHidden: mayBeHidden).text } == name,
                    "seed \(seed), round \(round): \(text)")
            }
        }
    }

    @Test("a claimed name has at most 255 bytes")
    func bounds() {
        #expect(ClaimedFileName(String(repeating: "x", count: 255)) != nil)
        #expect(ClaimedFileName(String(repeating: "x", count: 256)) == nil)
        #expect(ClaimedFileName(bytes: []) != nil)
    }

    @Test("T1: a claimed name is shown escaped")
    func shown() {
        #expect(ClaimedFileName("a\u{1b}[31m")!.shown == "\"a\\u{1b}[31m\"")
        #expect(ClaimedFileName(bytes: [0xff])!.shown == "\"\u{fffd}\"")
        #expect("\(ClaimedFileName("a\nb")!)" == "\"a\\u{a}b\"")
    }
}

@Suite("untrusted text, displayed")
struct TerminalTextTests {
    @Test("T1: every control character is made visible")
    func controls() {
        for value in Array(0...0x1f) + [0x7f] as [UInt32] {
            let text = TerminalText.escaped("a\(Unicode.Scalar(value)!)b")
            #expect(text == "a\\u{\(String(value, radix: 16))}b")
        }
    }

    @Test("T2: every C1 control character is made visible, as a code point and as a raw byte")
    func secondSet() {
        for value in UInt32(0x80)...0x9f {
            #expect(TerminalText.escaped("\(Unicode.Scalar(value)!)") == "\\u{\(String(value, radix: 16))}")
        }
        // The raw byte is not UTF-8, and is shown as such.
        #expect(TerminalText.escaped(String(decoding: [0x9b, 0x33, 0x31, 0x6d], as: UTF8.self)) == "\u{fffd}31m")
    }

    @Test(
        "T3: commands to the terminal lose their first byte",
        arguments: [
            "\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}", "\u{1b}]52;c;aGk=\u{7}", "\u{1b}]0;title\u{1b}\\",
            "\u{1b}P$q\u{1b}\\",
            "\u{9d}0;t\u{9c}", "\u{90}x\u{9c}", "\u{1b}[2J", "\u{1b}c",
        ])
    func commands(text: String) {
        let shown = TerminalText.escaped(text)
        #expect(shown.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value < 0x7f })
    }

    @Test(
        "T4: bidirectional, zero-width, blank and overlong characters are made visible",
        arguments: [
            0x202e, 0x2066, 0x2069, 0x200b, 0x200e, 0x200d, 0xfeff, 0xad, 0x34f, 0x61c, 0x3164, 0x2800, 0xe0041, 0xe000,
            0x10ffff,
            0x2028, 0x2029, 0x0378, 0xfdfd, 0x2e3b, 0x12031,
        ] as [UInt32])
    func invisible(value: UInt32) {
        #expect(TerminalText.escaped("a\(Unicode.Scalar(value)!)b") == "a\\u{\(String(value, radix: 16))}b")
    }

    @Test("T4: marks beyond the second, and those without a base, are made visible")
    func marks() {
        #expect(TerminalText.escaped("e\u{301}") == "e\u{301}")
        #expect(TerminalText.escaped("e\u{301}\u{302}") == "e\u{301}\u{302}")
        #expect(TerminalText.escaped("e\u{301}\u{302}\u{303}\u{304}") == "e\u{301}\u{302}\\u{303}\\u{304}")
        #expect(TerminalText.escaped("\u{301}e") == "\\u{301}e")
        // Hangul vowels and finals have no width of their own, either.
        #expect(TerminalText.escaped("\u{1112}\u{1161}\u{11ab}\u{11ab}") == "\u{1112}\u{1161}\u{11ab}\\u{11ab}")
        for mark in ["\u{301}", "\u{1161}", "\u{d7b0}"] {
            let flood = TerminalText.escaped("e" + String(repeating: mark, count: 100_000))
            #expect(TerminalText.width(of: flood) <= 120 && flood.unicodeScalars.count <= 130)
        }
    }

    @Test(
        "T4: what is too wide is cut by columns",
        arguments: [
            ("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…"), ("日本語", 6, "日本語"), ("日本語x", 6, "日本…"), ("", 6, ""),
            ("abcde\u{1b}", 6, "abcde…"), ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"), ("ab", 1, "…"),
        ])
    func cut(text: String, columns: Int, shown: String) {
        #expect(Array(TerminalText.escaped(text, columns: columns).unicodeScalars) == Array(shown.unicodeScalars))
        #expect(TerminalText.width(of: shown) <= columns)
    }

    @Test(
        "T4: columns are counted as terminals draw",
        arguments: [
            ("e\u{301}", 1), ("✓", 1), ("·", 1), ("✅", 2), ("⏰", 2), ("🎉", 2), ("🌡", 1), ("❤\u{fe0f}", 1), ("🇩🇪", 2), ("🈶", 2),
            ("漢", 2), ("ﾊ", 1), ("Ａ", 2), ("", 0), ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", 4),
        ])
    func columns(text: String, count: Int) {
        #expect(TerminalText.width(of: text) == count)
        #expect(text.unicodeScalars.reduce(0) { $0 + TerminalText.width(of: $1) } == count)
    }

    @Test("T4: a name of 100 kB costs a line")
    func huge() {
        let shown = TerminalText.escaped(String(repeating: "x", count: 100_000))
        #expect(shown.unicodeScalars.count == 120 && shown.hasSuffix("…"))
    }

    @Test(
        "T5: no text breaks a line",
        arguments: ["a\nb", "a\r\nb", "a\u{b}b", "a\u{c}b", "a\u{85}b", "a\u{2028}b", "a\u{2029}b"])
    func lines(text: String) {
        #expect(!TerminalText.escaped(text).contains { $0.isNewline })
    }

    @Test("an escape cannot be forged")
    func forged() {
        #expect(TerminalText.escaped("\\u{1b}") == "\\\\u{1b}")
        #expect(TerminalText.escaped("\u{1b}") == "\\u{1b}")
    }

    @Test(
        "ordinary text of any script stays as it is",
        arguments: [
            "photo.jpg", "Grüße, Jürgen", "привет", "שלום", "مرحبا", "日本語", "😀", "❤️", "naïve “quotes”", "a b",
        ])
    func ordinary(text: String) {
        #expect(TerminalText.escaped(text) == text)
    }

    @Test(
        "T4: a blank name is replaced, and spaces imitate no columns",
        arguments: [
            (" ", "unnamed"), ("\u{3000}\u{a0}\u{200b}", "unnamed"), ("  anna     verified ", "\"anna verified\""),
            ("an\u{2002}\u{2003}na", "\"an na\""), ("漢 字", "漢 字"), ("a\tb", "\"a\\u{9}b\""),
        ])
    func blankNames(_ claimed: String, _ shown: String) throws {
        #expect(try DisplayName(claimed).shown == shown)
    }

    @Test("T1: a sentence that was escaped before is not escaped again, and passes no control character")
    func sanitized() throws {
        let once = "not found: " + TerminalText.escaped("a\u{1b}\\b")
        #expect(TerminalText.sanitized(once) == once)
        #expect(TerminalText.sanitized("x\u{1b}[2J\u{202e}") == "x\\u{1b}[2J\\u{202e}")
    }

    @Test("T4: a quoted name cannot pass for the words around it")
    func quotedNames() throws {
        #expect(try DisplayName("anna\" (a verified friend, 4f1d)").quoted == "\"anna\\\" (a verified friend, 4f1d)\"")
        #expect(try DisplayName("a\\").quoted == "\"a\\\\\"")
        // A quotation mark with a mark that draws nothing is another character, and looks the same.
        #expect(try DisplayName("a\"\u{fe0e}b").quoted.unicodeScalars.starts(with: "\"a\\\"".unicodeScalars))
        #expect(TerminalText.quoted("x\"\u{ff9e}").unicodeScalars.starts(with: "\"x\\\"\u{ff9e}\"".unicodeScalars))
        let hebrew = try DisplayName("אנה").quoted
        #expect(hebrew == "\"\u{2068}אנה\u{2069}\"" && TerminalText.width(of: hebrew) == 5)
    }

    @Test(
        "P5: files that start programs are recognised by name or claimed type",
        arguments: [
            "cat.desktop", "CAT.DESKTOP", ".envrc", ".bashrc", ".zprofile", "x.sh", "x.AppImage", "x.sh. .", "Makefile",
            "setup.exe", "photo.jpg.desktop", "budget.xlsb", "slides.ppsm", "plugin.vim", ".mailcap",
        ])
    func starters(_ name: String) throws {
        #expect(ProgramStarter.startsProgram([ClaimedFileName(name)!]))
    }

    @Test(
        "P5: programs are recognised by their claimed type",
        arguments: [
            "application/x-sh", "Application/X-CSH; charset=utf-8", "application/x-msi", "application/x-msdos-program",
            "text/x-python",
        ])
    func starters(ofType type: String) throws {
        #expect(ProgramStarter.startsProgram([ClaimedFileName("note")!], claimedType: type))
        #expect(!ProgramStarter.startsProgram([ClaimedFileName("note")!], claimedType: "text/plain"))
    }

    @Test(
        "P5: files that start programs where they are are recognised by their path",
        arguments: [
            "repo/.git/config", ".git/hooks/pre-commit", "x/.GIT/Config", ".hg/hgrc", "p/.vscode/tasks.json", ".ssh/config",
            ".cargo/config.toml", ".config/autostart/x", "p/package.json", "CMakeLists.txt",
        ])
    func startersInFolders(_ path: String) {
        #expect(ProgramStarter.startsProgram(path.split(separator: "/").map { ClaimedFileName(String($0))! }))
    }

    @Test(
        "P5: files of these names elsewhere are not",
        arguments: ["config", "photos/config", "git/config", "hooks", "a/hooks"])
    func documentsInFolders(_ path: String) {
        #expect(!ProgramStarter.startsProgram(path.split(separator: "/").map { ClaimedFileName(String($0))! }))
    }

    @Test("T4: a path is quoted where it could pass for the facts behind it, and isolated where it runs from right to left")
    func paths() {
        #expect(TerminalText.path("/inbox/photo (2).jpg") == "/inbox/photo (2).jpg")
        #expect(TerminalText.path("/inbox/a  (1 B).jpg") == "\"/inbox/a  (1 B).jpg\"")
        #expect(TerminalText.path("/inbox/(2) א.jpg") == "\"\u{2068}/inbox/(2) א.jpg\u{2069}\"")
    }

    @Test(
        "P5: other files are not",
        arguments: ["photo.jpg", "notes.txt", "sh", "desktop", "archive.tar.gz", "bashrc.txt", "firmware.bin", "run.out"])
    func documents(_ name: String) throws {
        #expect(!ProgramStarter.startsProgram([ClaimedFileName(name)!], claimedType: "image/jpeg"))
        #expect(ProgramStarter.startsProgram([ClaimedFileName(name)!], claimedType: "text/x-shellscript"))
    }

    @Test(
        "T4: a plain name stands as it is, any other in quotation marks",
        arguments: ["anna", "Anna Schmidt", "Anna-Maria O'Neil 2", "Ünïcödé", "日本語", "アンナー", "IMG_2024.jpg", "v1.2"],
        [
            "anna: hi", "anna#9dcb", "anna＃9dcb", "anna to everyone", "a.txt from anna", "anna\"", "anna (verified)", "a, b",
            "annaː hi", "you", "Everyone", "nobody", "f814714e96c43b24", "אנה", "a\u{1b}[8m", " anna", "a  b",
            "a;b", "a→b", "x\u{2028}y",
        ])
    func names(plain: String, other: String) throws {
        #expect(NameText.shown(plain) == plain)
        #expect(NameText.shown(other) == TerminalText.quoted(other))
    }

    @Test("K2: beside a code a name is quoted, and one that could pass for a code is not shown")
    func besideCode() throws {
        let id = try #require(PeerID(hex: "c78e4d5e6f708192"))
        #expect(try DisplayName("anna").besideCode(of: id) == "\"anna\"")
        #expect(try DisplayName("nobody").besideCode(of: id) == "\"nobody\"")
        for name in ["4848 4510", "48484510", "4848-4510 anna", "\u{ff14}848 4510"] {
            #expect(try DisplayName(name).besideCode(of: id) == "the other device")
        }
    }

    @Test("T4: a name that looks tagged is followed by the tag of its key")
    func tags() throws {
        let id = try #require(PeerID(hex: "c78e4d5e6f708192"))
        let (anna, eve) = (try DisplayName("anna"), try DisplayName("anna#9dcb"))
        #expect(anna.tagged(id) == "anna#c78e" && anna.shown(of: id) == "anna" && anna.quoted(of: id) == "\"anna\"")
        #expect(anna.identified(by: id) == "anna (\(id.hex))")
        for shown in [eve.tagged(id), eve.shown(of: id), eve.quoted(of: id)] { #expect(shown == "\"anna#9dcb\"#c78e") }
        #expect(eve.shown(of: id, columns: 6, isTagged: false) == "\"anna#…\"#c78e")
    }

    @Test("T1: a display name is shown escaped, whatever it claims")
    func displayName() throws {
        #expect(try DisplayName("anna\u{1b}[8m").shown == "\"anna\\u{1b}[8m\"")
        #expect(throws: InvalidName.self) { try DisplayName("") }
        #expect(throws: InvalidName.self) { try DisplayName(String(repeating: "x", count: 64)) }
        #expect(throws: InvalidName.self) { try DisplayName(utf8: [0xff]) }
        #expect(DisplayName(truncating: String(repeating: "ü", count: 40))?.claimed.utf8.count == 62)
        #expect(DisplayName(truncating: "") == nil)
    }
}
