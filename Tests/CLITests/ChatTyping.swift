import Nearshare
import NearshareService
import NearshareTerminal

@testable import NearshareCLI

/// A chat screen for the commands that the user types.
struct ChatTyping {
    static let peerID = PeerID(hex: "1a2b3c4d5e6f7081")!

    var screen: ChatScreen
    let now = WallTime(milliseconds: 1_000_000)

    init(_ opening: ChatScreen.Opening = .publicRoom, columns: Int = 100, rows: Int = 40, isPlain: Bool = false) {
        var settings = ChatScreen.Settings { _ in LocalTime(day: "today", clock: "12:00") }
        settings.opening = opening
        (settings.isPlain, settings.hasColor) = (isPlain, !isPlain)
        screen = ChatScreen(settings)
        _ = screen.handle(.resized(TerminalSize(columns: columns, rows: rows)), at: now)
        _ = screen.start(at: now)
    }

    @discardableResult
    mutating func type(_ text: String) -> [ChatScreen.Reaction] {
        screen.recordDrawn()
        if screen.settings.isPlain { return screen.enter(line: text, at: now) }
        return screen.handle(.key(.text(text)), at: now) + screen.handle(.key(.enter), at: now)
    }

    @discardableResult
    mutating func press(_ key: TerminalKey) -> [ChatScreen.Reaction] {
        screen.recordDrawn()
        return screen.handle(.key(key), at: now)
    }

    @discardableResult
    mutating func handle(_ input: ChatScreen.Input) -> [ChatScreen.Reaction] { screen.handle(input, at: now) }

    /// Opens the conversation with ``peerID``.
    mutating func meet(
        _ name: String, status: TrustStatus = .new, software: Contact.Software = .nearshare, isNear: Bool = true
    ) {
        let contact = Contact(
            id: Self.peerID, name: DisplayName(truncating: name)!, trustStatus: status, isNear: isNear, software: software,
            hasKeys: true)
        handle(.event(.contacts([contact])))
        type("/chat \(name)")
        handle(.replied(.lookup(name), .success(.contact(contact))))
    }

    var text: String { screen.render().lines.map(\.plainText).joined(separator: "\n") }
    /// The input line with the prompt of a conversation, also in the public room.
    var inputLine: String {
        (screen.render().lines.last?.plainText ?? "").replacing("to everyone> ", with: "> ", maxReplacements: 1)
    }
}
