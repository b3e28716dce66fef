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

    @Test func `codes side by side are as high as the highest`() throws {
        let codes = try [QRCode("a"), QRCode(String(repeating: "a", count: 40))]
        let row = QRCode.row(of: codes, hasColor: false)
        #expect(codes.map(\.rowCount) == [15, 19] && row.lines.count == 19)
        #expect(row.columnCount == 29 + 4 + 37 && row.lines.allSatisfy { $0.count == row.columnCount })
        let right = codes[1].lines(isInverted: true)
        #expect(row.lines.map { String($0.suffix(37)) } == right)
        #expect(row.lines[0].hasPrefix(codes[0].lines(isInverted: true)[0] + "    "))
        #expect(row.lines[18].hasPrefix(String(repeating: " ", count: 33)))
    }

    @Test("texts that fit into no code", arguments: ["", "a\0b", String(repeating: "x", count: 3_000)])
    func unsuitable(_ text: String) {
        #expect(throws: QRCodeError.unsuitableText) { try QRCode(text) }
    }
}
