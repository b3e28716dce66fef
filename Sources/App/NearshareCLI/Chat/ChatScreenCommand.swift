/// A command of the chat screen. Parsing, /help and Tab completion use this table.
enum ChatScreenCommand: CaseIterable, Sendable {
    case chat, `public`, who, send, cancel, accept, decline, message, block, unblock, befriend, unfriend, verify, ping, trace
    case search, export, clear, disappear, panic, voice, play, show, help, quit

    /// The argument that a command takes.
    enum Argument: Sendable, Hashable {
        /// The command is rejected with an argument.
        case none
        /// Any argument is ignored.
        case ignored
        case file
        /// A peer, whose name may have several words.
        case peer
        /// A peer as one word, and a text.
        case peerAndText
        /// The number of an open offer.
        case offer
        case other
    }

    /// The command with this name or alias.
    init?(_ word: some StringProtocol) {
        guard let command = Self.allCases.first(where: { $0.name == word || $0.aliases.contains(String(word)) }) else {
            return nil
        }
        self = command
    }

    /// The first word of ``usage``.
    var name: String { String(usage.prefix { $0 != " " }) }

    var usage: String { row.usage }
    var aliases: [String] { row.aliases }
    var argument: Argument { row.argument }
    /// The line of /help.
    var help: String { usage + String(repeating: " ", count: Self.usageColumns - usage.count) + row.help }
    /// The text that Tab completes, with the space before an argument.
    var completion: String { [.none, .ignored].contains(argument) ? name : name + " " }

    private static let usageColumns = 2 + (allCases.map(\.usage.count).max() ?? 0)

    private struct Row {
        let usage: String
        var aliases: [String] = []
        let argument: Argument
        let help: String

        init(_ usage: String, aliases: [String] = [], _ argument: Argument, _ help: String) {
            (self.usage, self.aliases, self.argument, self.help) = (usage, aliases, argument, help)
        }
    }

    private var row: Row {
        switch self {
        case .chat: Row("/chat NAME", .peer, "open a conversation: a name, an unambiguous prefix of one, or an id")
        case .public: Row("/public", .none, "the public room, which everyone in range can read")
        case .who: Row("/who", .none, "list the peers nearby, and friends")
        case .send:
            Row("/send FILE", .file, "send a file; /send --allow-unencrypted FILE for an app without encryption")
        case .cancel: Row("/cancel [NAME]", .other, "cancel the file that is being sent; NAME: one of several")
        case .accept: Row("/accept [NUMBER]", .offer, "accept an offer; NUMBER: one of several")
        case .decline: Row("/decline [NUMBER]", .offer, "decline an offer; NUMBER: one of several")
        case .message: Row("/msg NAME TEXT", .peerAndText, "open a conversation, and send a line there")
        case .block: Row("/block [NAME]", .peer, "block a peer; without a name, the one of the conversation")
        case .unblock: Row("/unblock [NAME]", .peer, "no longer block a peer")
        case .befriend: Row("/fav [NAME]", .peer, "make a peer a friend")
        case .unfriend: Row("/unfav [NAME]", .peer, "no longer treat a peer as a friend")
        case .verify:
            Row(
                "/verify [NAME]", .peer,
                "how to verify a peer's key, and this machine's code; /verify LINK verifies a peer by the link of its code")
        case .ping: Row("/ping [NAME]", .peer, "check whether a peer answers")
        case .trace: Row("/trace [NAME]", .peer, "like /ping, and show the route of the answer")
        case .search: Row("/search TEXT", .other, "find lines of this conversation")
        case .export: Row("/export", .none, "write the conversation to a file in the inbox")
        case .clear: Row("/clear", .none, "remove the lines of the conversation")
        case .disappear:
            Row(
                "/disappear [TIME]", .other,
                "remove lines after a TIME such as 10m, 1h or 7d; off or default; without it, show the setting")
        case .panic: Row("/panic", .none, "remove the key, the address book and all conversations of this machine")
        case .voice: Row("/voice", .none, "record and send a voice note")
        case .play: Row("/play [ID]", .other, "play a voice note; without an id, the newest one of the conversation")
        case .show:
            Row("/show [FILE]", .other, "show a received picture; without a name, the newest one of the conversation")
        case .help: Row("/help", aliases: ["/h", "/?"], .ignored, "list the commands")
        case .quit: Row("/quit", aliases: ["/exit", "/q"], .ignored, "quit")
        }
    }
}
