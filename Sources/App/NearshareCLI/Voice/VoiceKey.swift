internal import NearshareTerminal

/// A key of the screens that record, play or review a voice note.
enum VoiceKey: Sendable, Hashable {
    case space, enter, left, right
    case character(Character)

    /// The keys in one event of the keyboard, which may hold several characters typed fast.
    static func all(in key: TerminalKey) -> [VoiceKey] {
        switch key {
        case .enter, .lineBreak: [.enter]
        case .left, .wordLeft: [.left]
        case .right, .wordRight: [.right]
        case .text(let text):
            text.compactMap { character in
                guard character.isASCII else { return nil }
                return character == " " ? .space : .character(Character(character.lowercased()))
            }
        default: []
        }
    }
}
