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

    private func apply(_ style: TextStyle, to text: String) -> String {
        isEnabled && !text.isEmpty ? style.sequence(hasColor: true) + text + "\u{1b}[0m" : text
    }
}
