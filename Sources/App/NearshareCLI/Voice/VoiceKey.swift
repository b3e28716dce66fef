internal import NearshareTerminal

/// A command of the recorder, the player or the review of a voice note.
enum VoiceKey: Sendable, Hashable {
    case space, enter, left, right
    case letter(Character)

    /// The commands in one event of the keyboard, which may hold several characters typed fast.
    static func all(in key: TerminalKey) -> [VoiceKey] {
        switch key {
        case .enter, .lineBreak: [.enter]
        case .left, .wordLeft: [.left]
        case .right, .wordRight: [.right]
        case .text(let text):
            text.compactMap { character in
                guard character.isASCII else { return nil }
                return character == " " ? .space : .letter(Character(character.lowercased()))
            }
        default: []
        }
    }
}
