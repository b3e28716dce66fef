internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

extension ChatScreen {
    mutating func press(_ key: TerminalKey, at now: WallTime) -> [Effect] {
        switch key {
        case .control("c"): return [.quit]
        case .control("z"): return [.suspend]
        case .control("l"): return [.redraw]
        case .control("d") where active.editor.isEmpty: return [.quit]
        case .control("n"): return step(1)
        case .control("p"): return step(-1)
        case .backTab: return step(-1)
        case .tab: return tab()
        case .alt(let digit):
            if let number = digit.wholeNumberValue, (1...9).contains(number) { return select(number - 1) }
        case .pageUp: return scroll(viewRows - 1)
        case .pageDown: return scroll(1 - viewRows)
        case .enter: return enter(at: now)
        case .text(let text), .paste(let text): insert(text, at: now)
        case .lineBreak: insert("\n", at: now)
        default: active.editor.handle(key)
        }
        return []
    }

    private mutating func insert(_ text: String, at now: WallTime) {
        guard !active.editor.insert(text) else { return }
        note(
            "a message holds at most \(UInt64(ChatMessage.maximumTextByteCount).asByteCount); "
                + "put it into a file, and /send that", at: now)
    }

    private mutating func scroll(_ rows: Int) -> [Effect] {
        move(by: rows)
        if active.position == .end { active.missedCount = 0 }
        return rows > 0 && isAtTop ? loadOlder() : []
    }

    private mutating func enter(at now: WallTime) -> [Effect] {
        var text = active.editor.submit()
        guard text.contains(where: { !$0.isWhitespace }) else { return [] }
        if text.hasPrefix("//") {
            text.removeFirst()
        } else if text.hasPrefix("/") {
            return command(text, at: now)
        }
        guard let conversation = active.conversation else {
            active.editor.replace(with: text)
            note("to whom? /chat NAME begins a conversation, /who tells who is near", at: now)
            return []
        }
        active.position = .end
        active.missedCount = 0
        return [.ask(.say(text, in: conversation), .say(conversation, text))]
    }

    // MARK: Commands

    private mutating func command(_ line: String, at now: WallTime) -> [Effect] {
        let parts = line.split(maxSplits: 1, whereSeparator: \.isWhitespace)
        let argument = parts.count > 1 ? Self.trimmed(parts[1]) : ""
        switch parts[0] {
        case "/quit", "/exit", "/q": return [.quit]
        case "/help", "/h", "/?": for line in Self.help { note(line, at: now) }
        case "/who": who(at: now)
        case "/verify": verify(at: now)
        case "/public": return open(.everybody)
        case "/chat":
            if argument.isEmpty {
                note("whom? /chat NAME; /who tells who is near", at: now)
            } else {
                return find(argument, at: now)
            }
        case "/send":
            let path = Self.unquoted(argument)
            guard !path.isEmpty else {
                note("which file? /send FILE; Tab completes its name", at: now)
                return []
            }
            guard let peer = requirePeer("a file", at: now) else { return [] }
            return [.sendFile(path, peer, .sendFile(.peer(peer), path))]
        case "/voice":
            guard let peer = requirePeer("a voice note", at: now) else { return [] }
            return [.record(peer, name: name(of: peer))]
        default:
            active.editor.replace(with: line)
            note(
                "there is no \(TerminalText.escaped(String(parts[0]), columns: 30)); /help lists what there is. "
                    + "A text that begins with / is written with //", at: now)
        }
        return []
    }

    private mutating func requirePeer(_ what: String, at now: WallTime) -> PeerID? {
        if case .peer(let peer)? = active.conversation { return peer }
        note(
            active.conversation == nil
                ? "to whom? /chat NAME begins a conversation" : "\(what) goes to one person; /chat NAME talks to one", at: now)
        return nil
    }

    static let help = [
        "/chat NAME     talk to somebody: a name, the beginning of one, or an id",
        "/public        everybody's room; whoever is reached can read it",
        "/who           who is near, and friends",
        "/send FILE     send a file; Tab completes its name",
        "/voice         record a voice note, and send it",
        "/verify        how to be sure whose key it is",
        "/quit          as Ctrl-C",
        "//TEXT         a text that begins with /",
        "Tab, Shift-Tab, Alt-1 to 9: other conversations; Page Up, Page Down: what was said before;",
        "Alt-Enter: a new line in a text; Up, Down: what was written before",
    ]

    private mutating func who(at now: WallTime) {
        let all = listed
        if all.isEmpty { note("nobody is near", at: now) }
        for person in all {
            let software =
                switch person.software {
                case .nearshare: ", nearshare"
                case .phone: ", bitchat"
                case .blueChat: ", BlueChat"
                case .unknown: ""
                }
            let trustStatus =
                person.isFriend && person.trustStatus.isVerified ? "friend, verified" : person.trustStatus.label
            note(
                "\(name(of: person.id))  \(person.id.hex)  \(person.isNear ? "near" : "away")\(software), "
                    + TerminalText.escaped(trustStatus, columns: 40), at: now)
        }
    }

    private mutating func verify(at now: WallTime) {
        guard case .peer(let peer)? = active.conversation else {
            note("whose key? /chat NAME, then /verify", at: now)
            return
        }
        let name = name(of: peer)
        if people[peer]?.software == .blueChat {
            note("\(name) has no key: nothing proves who that is, and anybody in range can read what is said", at: now)
        } else if people[peer]?.trustStatus.isVerified == true {
            note("the key of \(name), \(peer.hex), is verified: its short code was compared", at: now)
        } else {
            note(
                "the key of \(name), \(peer.hex), could be anybody's who calls themselves so. To be sure, in another terminal:",
                at: now)
            note("    nearshare peers verify \(peer.hex)", at: now)
            note(
                "while they run nearshare receive. Both of you see eight digits; compare them by voice, or look at both screens",
                at: now)
        }
    }

    // MARK: Completion

    /// Completes a command; where there is nothing to complete, the next conversation.
    private mutating func tab() -> [Effect] {
        let text = active.editor.text
        guard text.hasPrefix("/"), active.editor.isAtEnd else { return active.editor.isEmpty ? step(1) : [] }
        if text.hasPrefix("/send ") { return [.listPaths(String(text.dropFirst(6)))] }
        if text.hasPrefix("/chat ") {
            let names = people.values.map(\.name).filter { $0.shown == $0.claimed }.map(\.claimed).sorted()
            complete(String(text.dropFirst(6)), with: names, after: "/chat ")
        } else if !text.contains(" ") {
            complete(text, with: Self.commands, after: "")
        }
        return []
    }

    private static let commands = ["/chat ", "/help", "/public", "/quit", "/send ", "/verify", "/voice", "/who"]

    mutating func complete(_ path: String, with candidates: [String]) {
        // Somebody has typed on meanwhile.
        guard active.editor.text == "/send " + path else { return }
        complete(path, with: candidates, after: "/send ")
    }

    private mutating func complete(_ begun: String, with candidates: [String], after prefix: String) {
        let fitting = candidates.filter { $0.lowercased().hasPrefix(begun.lowercased()) }
        guard var common = fitting.first else { return }
        for other in fitting.dropFirst() { common = String(zip(common, other).prefix { $0 == $1 }.map { $0.0 }) }
        if common.count >= begun.count { active.editor.replace(with: prefix + common) }
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    /// As terminals write the path of a file that is dropped on them.
    private static func unquoted(_ path: String) -> String {
        for quote in ["'", "\""] where path.count > 1 && path.hasPrefix(quote) && path.hasSuffix(quote) {
            return String(path.dropFirst().dropLast())
        }
        return path
    }
}
