/// The appearance of a piece of text.
package struct TextStyle: Sendable, Hashable {
    /// A foreground colour, by its number in "select graphic rendition" (ECMA-48, section 8.3.117).
    package enum Color: Int, Sendable, Hashable, CaseIterable {
        case red = 31
        case green = 32
        case yellow = 33
        case blue = 34
        case magenta = 35
        case cyan = 36
    }

    package var color: Color?
    package var isBold: Bool
    package var isDim: Bool
    package var isReversed: Bool
    /// Black on white, whatever the terminal's own colours are; without colours, its own.
    package var isBlackOnWhite = false

    package init(color: Color? = nil, isBold: Bool = false, isDim: Bool = false, isReversed: Bool = false) {
        self.color = color
        self.isBold = isBold
        self.isDim = isDim
        self.isReversed = isReversed
    }

    package static let plain = TextStyle()
    package static let dim = TextStyle(isDim: true)
    package static let bold = TextStyle(isBold: true)
    package static let warning = TextStyle(color: .yellow)
    package static let failure = TextStyle(color: .red)
    package static let blackOnWhite: TextStyle = {
        var style = TextStyle()
        style.isBlackOnWhite = true
        return style
    }()

    /// The control sequence that selects this style; empty for plain text.
    /// - Parameter hasColor: whether the terminal shows colours.
    package func sequence(hasColor: Bool) -> String {
        var numbers: [Int] = []
        if isBold { numbers.append(1) }
        if isDim { numbers.append(2) }
        if isReversed { numbers.append(7) }
        if hasColor, let color { numbers.append(color.rawValue) }
        if hasColor, isBlackOnWhite { numbers += [30, 107] }
        return numbers.isEmpty ? "" : "\u{1b}[\(numbers.map { "\($0)" }.joined(separator: ";"))m"
    }
}
