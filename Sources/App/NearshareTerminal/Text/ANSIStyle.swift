internal import NearshareBase

/// Styles text with control sequences, or leaves it plain where the output has no colours.
package struct ANSIStyle: Sendable, Hashable {
    package let isEnabled: Bool

    package init(isEnabled: Bool) {
        self.isEnabled = isEnabled
    }

    package func red(_ text: String) -> String { apply(TextStyle(color: .red), to: text) }
    package func green(_ text: String) -> String { apply(TextStyle(color: .green), to: text) }
    package func yellow(_ text: String) -> String { apply(TextStyle(color: .yellow), to: text) }
    package func dim(_ text: String) -> String { apply(.dim, to: text) }
    package func bold(_ text: String) -> String { apply(.bold, to: text) }

    /// The width in terminal columns of text with the sequences of such a style, which take none.
    static func width(of text: String) -> Int {
        guard text.utf8.contains(0x1b) else { return TerminalText.width(of: text) }
        var plain = String.UnicodeScalarView()
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            guard scalar == "\u{1b}", rest.first == "[" else {
                plain.append(scalar)
                continue
            }
            // A control sequence ends with a byte from "@" to "~" (ECMA-48, 5.4).
            rest = rest.dropFirst().drop { !("@"..."~").contains($0) }.dropFirst()
        }
        return TerminalText.width(of: String(plain))
    }

    private func apply(_ style: TextStyle, to text: String) -> String {
        isEnabled && !text.isEmpty ? style.sequence(hasColor: true) + text + "\u{1b}[0m" : text
    }
}
