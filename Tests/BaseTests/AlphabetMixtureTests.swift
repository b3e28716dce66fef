import NearshareBase
import Testing

@Suite("names that mix alphabets") struct AlphabetMixtureTests {
    @Test(
        "T9: a word with letters of two alphabets is found",
        arguments: [
            "\u{430}nna", "ann\u{430}", "\u{391}nna", "an\u{200b}n\u{430}", "a\u{301}nn\u{430}", "Nice Or\u{430}nge",
            "\u{3b1}\u{430}", "p\u{430}ypal", "\u{ff41}nn\u{430}", "\u{212a}\u{438}\u{442}", "x\u{5d0}\u{430}",
        ])
    func mixed(name: String) { #expect(AlphabetMixture.isFound(in: name)) }

    @Test(
        "T9: names of one alphabet, and words of several, are not annotated",
        arguments: [
            "", "anna", "\u{410}\u{43d}\u{43d}\u{430}", "\u{391}\u{3bd}\u{3bd}\u{3b1}", "\u{410}\u{43d}\u{43d}\u{430}-PC",
            "iPhone (\u{410}\u{43d}\u{43d}\u{430})", "\u{5b89}\u{5a1c} Anna", "Anna\u{5b89}\u{5a1c}", "Ångström", "Zoë 2",
            "\u{b5}Torrent", "😀 anna", "Jürgen's Büro",
        ])
    func single(name: String) { #expect(!AlphabetMixture.isFound(in: name)) }

    @Test("T9: a text of any length takes bounded time")
    func bounded() {
        let text = String(repeating: "\u{301}", count: 1_000_000) + "\u{430}a"
        #expect(!AlphabetMixture.isFound(in: text))
    }
}
