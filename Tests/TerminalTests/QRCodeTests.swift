import NearshareBase
import Testing

@testable import NearshareTerminal

/// The script test of verification reads a drawn code with another program.
@Suite("QR codes") struct QRCodeTests {
    @Test("the drawing has finder patterns and a quiet zone, and both drawings are complements")
    func drawing() throws {
        let code = try QRCode("nearshare")
        // Version 1 has 21 modules in a row.
        #expect(code.moduleCount == 21 && code.columns == 29)
        let lines = code.lines(isInverted: false)
        #expect(lines.count == 15 && lines.allSatisfy { $0.count == 29 })
        #expect(lines[0].allSatisfy { $0 == " " } && lines[1].allSatisfy { $0 == " " })
        #expect(lines[2].hasPrefix("    █▀▀▀▀▀█ "))
        let complement: [Character: Character] = ["█": " ", " ": "█", "▀": "▄", "▄": "▀"]
        #expect(code.lines(isInverted: true) == lines.map { String($0.compactMap { complement[$0] }) })
        #expect(code.text(hasColor: false) == code.lines(isInverted: true))
        #expect(code.text(hasColor: true)[2] == "\u{1b}[30;107m\(lines[2])\u{1b}[0m")
    }

    @Test("texts that fit into no code", arguments: ["", "a\0b", String(repeating: "x", count: 3_000)])
    func unsuitable(_ text: String) {
        #expect(throws: QRCodeError.unsuitableText) { try QRCode(text) }
    }
}
