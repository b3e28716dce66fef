internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

extension ChatScreen {
    mutating func handle(_ key: TerminalKey, at now: WallTime) -> [Reaction] {
        switch key {
        case .control("c"): return quit(at: now)
        case .control("z"): return [.suspend]
        case .control("l"): return [.redraw]
        case .control("d") where visibleView.editor.isEmpty: return quit(at: now)
        case .control("n"): return step(1)
        case .control("p"): return step(-1)
        case .backTab: return step(-1)
        case .tab: return tab()
        case .alt(let digit):
            if let number = digit.wholeNumberValue, (1...9).contains(number) { return showView(number - 1) }
        case .pageUp: return scroll(viewRows - 1)
        case .pageDown: return scroll(1 - viewRows)
        case .enter: return enter(at: now)
        case .text(let text), .paste(let text): insert(text, at: now)
        case .lineBreak: insert("\n", at: now)
        default: visibleView.editor.handle(key)
        }
        return []
    }

    private mutating func insert(_ text: String, at now: WallTime) {
        guard !visibleView.editor.insert(text) else { return }
        addNotice(
            "a message holds at most \(UInt64(ChatMessage.maximumTextByteCount).asByteCount); "
                + "save it as a file, and use /send", at: now)
    }

    private mutating func scroll(_ rows: Int) -> [Reaction] {
        move(by: rows)
        return rows > 0 && isAtTop ? loadOlder() : []
    }

    private mutating func enter(at now: WallTime) -> [Reaction] {
        var text = visibleView.editor.submit()
        guard text.contains(where: { !$0.isWhitespace }) else { return [] }
        if text.hasPrefix("//") {
            text.removeFirst()
        } else if text.hasPrefix("/") {
            return command(text, at: now)
        }
        guard visibleView.lookup == nil else {
            queue(text, at: now)
            return []
        }
        guard let conversation = visibleView.conversation else {
            visibleView.editor.replace(with: text)
            addNotice("no conversation is open: /chat NAME opens one, /who lists peers", at: now)
            return []
        }
        guard canSend else {
            visibleView.editor.replace(with: text)
            addNotice("everyone in reach can read this: press Enter again to send it", at: now)
            return []
        }
        visibleView.position = .end
        return [.request(.say(text, in: conversation), .say(conversation, text))]
    }

    // MARK: Commands

    private mutating func command(_ line: String, at now: WallTime) -> [Reaction] {
        let parts = line.split(maxSplits: 1, whereSeparator: \.isWhitespace)
        let argument = parts.count > 1 ? Self.trimmed(parts[1]) : ""
        switch parts[0] {
        case "/quit", "/exit", "/q": return quit(at: now)
        case "/help", "/h", "/?": for line in Self.help { addNotice(line, at: now) }
        case "/who": who(at: now)
        case "/verify": return verify(argument, at: now)
        case "/public": return show(.publicRoom, at: now)
        case "/chat":
            if argument.isEmpty {
                addNotice("missing name: /chat NAME; /who lists peers", at: now)
            } else {
                return find(argument, at: now)
            }
        case "/send":
            let path = Self.unquoted(argument)
            guard !path.isEmpty else {
                addNotice("missing file: /send FILE; Tab completes its name", at: now)
                return []
            }
            guard let peer = requirePeer("a file", at: now) else { return [] }
            return [.sendFile(path, peer, .sendFile(.peer(peer), path))]
        case "/voice":
            guard let peer = requirePeer("a voice note", at: now) else { return [] }
            return [.record(peer, name: name(of: peer))]
        default:
            visibleView.editor.replace(with: line)
            addNotice(
                "unknown command \(TerminalText.escaped(String(parts[0]), columns: 30)); /help lists all commands. "
                    + "Type // to send a text that starts with /", at: now)
        }
        return []
    }

    private mutating func requirePeer(_ what: String, at now: WallTime) -> PeerID? {
        if case .peer(let peer)? = visibleView.conversation { return peer }
        if let name = visibleView.lookup?.name {
            addNotice("\(TerminalText.escaped(name, columns: 40)) has not been found yet", at: now)
            return nil
        }
        addNotice(
            visibleView.conversation == nil
                ? "no conversation is open: /chat NAME opens one"
                : "\(what) needs a single receiver: /chat NAME opens a conversation", at: now)
        return nil
    }

    static let help = [
        "/chat NAME     open a conversation: a name, an unambiguous prefix of one, or an id",
        "/public        the public room, which everyone in reach can read",
        "/who           list the peers nearby, and friends",
        "/send FILE     send a file; Tab completes its name",
        "/voice         record and send a voice note",
        "/verify        how to verify the peer's key, and a QR code for the peer to scan",
        "/verify LINK   verify a peer by the link of its QR code",
        "/quit          quit, like Ctrl-C",
        "//TEXT         send a text that starts with /",
        "Tab, Shift-Tab, Alt-1 to 9: other conversations; Page Up, Page Down: older messages;",
        "Alt-Enter: a line break in a text; Up, Down: texts sent before",
    ]

    private mutating func who(at now: WallTime) {
        let all = listed
        if all.isEmpty { addNotice("no peers nearby", at: now) }
        for contact in all {
            let software =
                switch contact.software {
                case .nearshare: ", nearshare"
                case .phone: ", bitchat"
                case .blueChat: ", BlueChat"
                case .unknown: ""
                }
            let trustStatus =
                contact.isFriend && contact.trustStatus.isVerified ? "friend, verified" : contact.trustStatus.label
            addNotice(
                "\(name(of: contact.id))  \(contact.id.hex)  \(contact.isNear ? "near" : "away")\(software), "
                    + TerminalText.escaped(trustStatus, columns: 40), at: now)
        }
    }

    /// - Parameter link: of the peer's verification code; empty for this node's own.
    private mutating func verify(_ link: String, at now: WallTime) -> [Reaction] {
        let conversation = visibleView.conversation
        guard link.isEmpty else {
            addNotice("asking the peer of the link to prove that it holds its keys…", at: now)
            return [.request(.verify(link: link), .verify(conversation))]
        }
        guard case .peer(let peer)? = conversation else {
            return [.request(.verificationLink, .verificationLink(conversation))]
        }
        let name = name(of: peer)
        if contacts[peer]?.software == .blueChat {
            addNotice("\(name) has no key: the name proves nothing, and everyone in range can read the conversation", at: now)
            return []
        }
        if contacts[peer]?.trustStatus.isVerified == true {
            addNotice("the key of \(name), \(peer.hex), is verified", at: now)
        } else {
            addNotice(
                "the key of \(name), \(peer.hex), is not verified: any peer may use the name. To verify it, paste the link of the "
                    + "QR code on the peer's screen, /verify LINK, or run in another terminal:", at: now)
            addNotice("    nearshare peers verify \(peer.hex)", at: now)
            addNotice(
                "while the peer runs nearshare receive. Both screens show eight digits: compare them by voice, or side by side",
                at: now)
        }
        return [.request(.verificationLink, .verificationLink(conversation))]
    }

    /// Draws this node's verification code.
    mutating func showCode(of link: String, in conversation: Conversation?, at now: WallTime) {
        addNotice(
            "for the peer to scan within five minutes, or paste; only by a way that nobody else can change:", in: conversation,
            at: now)
        do throws(QRCodeError) {
            let code = try QRCode(link)
            if !settings.hasUTF8 || columns < code.columns {
                addNotice("the QR code needs UTF-8 and \(code.columns) columns", in: conversation, at: now)
            } else if let index = views.firstIndex(where: { $0.conversation == conversation }) {
                views[index].addQRCode(code.lines(isInverted: !settings.hasColor), at: now)
            } else {
                visibleView.addQRCode(code.lines(isInverted: !settings.hasColor), at: now)
            }
        } catch {
            addNotice(error.description, in: conversation, at: now)
        }
        addNotice(link, in: conversation, at: now)
    }

    // MARK: Completion

    /// Completes a command; on an empty line, switches to the next conversation.
    private mutating func tab() -> [Reaction] {
        let text = visibleView.editor.text
        guard text.hasPrefix("/"), visibleView.editor.isAtEnd else { return visibleView.editor.isEmpty ? step(1) : [] }
        if text.hasPrefix("/send ") { return [.listPaths(String(text.dropFirst(6)))] }
        if text.hasPrefix("/chat ") {
            let names = contacts.values.map(\.name).map(\.claimed).filter { TerminalText.escaped($0) == $0 }.sorted()
            complete(String(text.dropFirst(6)), with: names, after: "/chat ")
        } else if !text.contains(" ") {
            complete(text, with: Self.commands, after: "")
        }
        return []
    }

    private static let commands = ["/chat ", "/help", "/public", "/quit", "/send ", "/verify", "/voice", "/who"]

    mutating func complete(_ path: String, with candidates: [String]) {
        // The user may have typed more in the meantime.
        guard visibleView.editor.text == "/send " + path else { return }
        complete(path, with: candidates, after: "/send ")
    }

    private mutating func complete(_ begun: String, with candidates: [String], after prefix: String) {
        let fitting = candidates.filter { $0.lowercased().hasPrefix(begun.lowercased()) }
        guard var common = fitting.first else { return }
        for other in fitting.dropFirst() { common = String(zip(common, other).prefix { $0 == $1 }.map { $0.0 }) }
        if common.count >= begun.count { visibleView.editor.replace(with: prefix + common) }
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    /// Removes the quotes that terminals put around the path of a dropped file.
    private static func unquoted(_ path: String) -> String {
        for quote in ["'", "\""] where path.count > 1 && path.hasPrefix(quote) && path.hasSuffix(quote) {
            return String(path.dropFirst().dropLast())
        }
        return path
    }
}
