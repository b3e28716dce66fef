import Testing

@testable import NearshareTerminal

@Suite("pictures drawn by a program") struct DrawnPictureTests {
    @Test(
        "characters, and the graphics of three protocols, are a picture",
        arguments: [
            "\u{1b}[0m\u{1b}[38;2;5;28;128;48;2;5;7;128m▄▄\u{1b}[0m\n", "ab\u{1b}[7b\r\n\n",
            "\u{1b}P0;1;0q\"1;1;128;48#0;2;5;1;50!7!112?$-\u{1b}\\\n",
            "\u{1b}_Ga=T,f=32,s=128,v=48,c=16,r=6,m=1\u{1b}\\\u{1b}_Gm=1;AACA/w==\u{1b}\\\u{1b}_Gm=0\u{1b}\\\n",
            "\u{1b}]1337;File=inline=1;width=16;height=6;preserveAspectRatio=0:SUkqAA==\u{7}\n",
        ])
    func picture(_ text: String) {
        #expect(DrawnPicture(Array(text.utf8), usesUTF8: true)?.bytes == Array((text + "\u{1b}[0m").utf8))
    }

    @Test func `a picture ends with the default colours and a line break`() {
        #expect(DrawnPicture(Array("ab".utf8), usesUTF8: true)?.bytes == Array("ab\u{1b}[0m\n".utf8))
    }

    @Test("L5: a terminal with another encoding than UTF-8 gets ASCII, as other bytes may be control characters there")
    func encoding() {
        // U+06DB ends with 9B, a control sequence introducer in ISO 8859.
        #expect(DrawnPicture(Array("\u{6db}6n".utf8), usesUTF8: false) == nil)
        #expect(DrawnPicture(Array("\u{1b}[31mab\n".utf8), usesUTF8: false) != nil)
    }

    @Test(
        "L5: a sequence that asks the terminal, names a file or changes settings is no part of a picture",
        arguments: [
            "", "\u{7}", "a\u{8}", "\u{7f}", "\u{9b}6n", "\u{1b}", "\u{1b}c", "\u{1b}[", "\u{1b}[6n", "\u{1b}[c", "\u{1b}[>1m",
            "\u{1b}[21t", "\u{1b}[?1049h", "\u{1b}[?1000h", "\u{1b}[?25l", "\u{1b}[A", "\u{1b}[1;1H", "a\u{1b}[123456b",
            "\u{1b}[5i", "\u{1b}P$qm\u{1b}\\", "\u{1b}P+q544e\u{1b}\\",
            "\u{1b}Pq~", "\u{1b}Pq~\u{7}",
            "\u{1b}P1$tx\u{1b}\\", "\u{1b}Pq\u{1b}[6n\u{1b}\\", "\u{1b}_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\u{1b}\\",
            "\u{1b}_Ga=T,i=1,f=32,s=1,v=1;AAAAAA==\u{1b}\\", "\u{1b}_Ga=T,f=100;iVBORw0=\u{1b}\\",
            "\u{1b}_Ga=T,o=z;eJw=\u{1b}\\",
            "\u{1b}_Ga=q,i=1\u{1b}\\", "\u{1b}_Ga=d\u{1b}\\", "\u{1b}_Xa\u{1b}\\", "\u{1b}]0;title\u{7}", "\u{1b}]52;c;?\u{7}",
            "\u{1b}]1337;File=name=YQ==:QQ==\u{7}", "\u{1b}]1337;File=inline=1;inline=0;name=YQ==:SUkqAA==\u{7}",
            "\u{1b}]1337;File=inline=1;width=9:iVBORw0=\u{7}", "\u{1b}]8;;https://example.org\u{7}", "\u{1b}^x\u{1b}\\",
        ])
    func others(_ text: String) { #expect(DrawnPicture(Array(text.utf8), usesUTF8: true) == nil) }

    @Test("L5: bytes that are no UTF-8 could be control characters", arguments: [[0x9b, 0x36, 0x6e], [0x61, 0xff], [0xc2]])
    func invalid(_ bytes: [UInt8]) { #expect(DrawnPicture(bytes, usesUTF8: true) == nil) }
}
