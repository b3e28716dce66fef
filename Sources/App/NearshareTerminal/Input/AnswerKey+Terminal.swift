package import NearshareBase

extension AnswerKey {
    /// The key of a terminal as one of an answer; nil for keys that have no meaning there.
    package init?(_ key: TerminalKey) {
        switch key {
        case .text(let text), .paste(let text): self = .text(text)
        case .backspace: self = .backspace
        case .control("w"): self = .deleteWord
        case .control("u"): self = .deleteLine
        case .enter, .lineBreak: self = .enter
        case .control("l"): self = .redraw
        default: return nil
        }
    }
}
