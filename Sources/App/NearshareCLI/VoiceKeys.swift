internal import Nearshare
internal import Synchronization

/// What a person presses while a note is recorded, heard or thought about.
enum VoiceKey: Sendable, Hashable {
    case space, enter, left, right
    case letter(Character)

    /// The keys in what one reading of the terminal has brought: somebody may type fast.
    static func all(in bytes: [UInt8]) -> [VoiceKey] {
        var keys: [VoiceKey] = []
        var rest = bytes[...]
        while let byte = rest.popFirst() {
            switch byte {
            case 0x20: keys.append(.space)
            case 0x0d, 0x0a: keys.append(.enter)
            case 0x1b:
                // A cursor key: ESC, "[" or "O", and a letter. Of others, what follows ESC is passed over.
                let sequence = rest.prefix { $0 == 0x5b || $0 == 0x4f || (0x30...0x3f).contains($0) }
                rest = rest.dropFirst(sequence.count)
                switch rest.popFirst() {
                case 0x44: keys.append(.left)
                case 0x43: keys.append(.right)
                default: break
                }
            case 0x21...0x7e: keys.append(.letter(Character(UnicodeScalar(byte).properties.lowercaseMapping)))
            default: break
            }
        }
        return keys
    }
}

/// The keyboard, for as long as a command needs single keys, handed from one screen to the next: the terminal is put into raw
/// mode once and back once.
final class VoiceKeyboard: Sendable {
    private let listener = Mutex<AsyncStream<VoiceKey>.Continuation?>(nil)
    private let terminal: TerminalDevice

    init(_ terminal: TerminalDevice) {
        self.terminal = terminal
    }

    /// Reads keys until the task is cancelled or the terminal is closed.
    func run() async {
        for await bytes in terminal.keys() {
            for key in VoiceKey.all(in: bytes) { _ = listener.withLock { $0?.yield(key) } }
        }
        listener.withLock { $0?.finish() }
    }

    /// Keys pressed from now on; whoever listened before hears no more.
    func keys() -> AsyncStream<VoiceKey> {
        AsyncStream { continuation in
            listener.withLock { listener in
                listener?.finish()
                listener = continuation
            }
        }
    }
}
