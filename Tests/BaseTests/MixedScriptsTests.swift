import NearshareBase
import Testing

@Suite("names that mix scripts") struct MixedScriptsTests {
    @Test(
        "T9: a word with letters of two scripts is found",
        arguments: [
            "\u{430}nna", "ann\u{430}", "\u{391}nna", "an\u{200b}n\u{430}", "a\u{301}nn\u{430}", "Nice Or\u{430}nge",
            "\u{3b1}\u{430}", "p\u{430}ypal", "\u{ff41}nn\u{430}", "\u{212a}\u{438}\u{442}", "x\u{5d0}\u{430}",
            // Armenian, Cherokee, Coptic and Lisu letters that look like "o", "A", "o" and "A".
            "b\u{585}b", "\u{13aa}nna", "b\u{2c9f}b", "\u{a4ee}nna", "\u{585}\u{43e}",
        ])
    func mixed(name: String) { #expect(MixedScripts.isFound(in: name)) }

    @Test(
        "T9: names of one script, and words of several, are not annotated",
        arguments: [
            "", "anna", "\u{410}\u{43d}\u{43d}\u{430}", "\u{391}\u{3bd}\u{3bd}\u{3b1}", "\u{410}\u{43d}\u{43d}\u{430}-PC",
            "iPhone (\u{410}\u{43d}\u{43d}\u{430})", "\u{5b89}\u{5a1c} Anna", "Anna\u{5b89}\u{5a1c}", "Ångström", "Zoë 2",
            "\u{b5}Torrent", "\u{531}\u{576}\u{576}\u{561}", "\u{13e3}\u{13b3}\u{13a9}", "\u{2c81}\u{2c9b}\u{2c9b}\u{2c81}",
            "\u{a4ee}\u{a4e0}", "\u{531}\u{576}\u{576}\u{561}-PC", "😀 anna", "Jürgen's Büro",
        ])
    func single(name: String) { #expect(!MixedScripts.isFound(in: name)) }

    @Test("T9: a text of any length takes bounded time")
    func bounded() {
        let text = String(repeating: "\u{301}", count: 1_000_000) + "\u{430}a"
        #expect(!MixedScripts.isFound(in: text))
    }
}
