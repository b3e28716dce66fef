internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

extension ChatScreen {
    mutating func handle(_ key: TerminalKey, at now: WallTime) -> [Reaction] {
        if views.visible.editor.isEmpty {
            let hidden = offers.open.filter(isAskedElsewhere)
            // When a plain line was begun is not known, so that each answer there needs a number (R4).
            let isPlain = settings.isPlain
            offers.beginLine(at: now) { !isPlain && !hidden.contains($0) }
        }
        switch key {
        case .control("c"): return quit(at: now)
        case .control("z"): return [.suspend]
        case .control("l"): return [.redraw]
        case .control("d") where views.visible.editor.isEmpty: return quit(at: now)
        case .control("n"): return step(1)
        case .control("p"): return step(-1)
        case .backTab: return step(-1)
        case .tab: return tab(at: now)
        case .alt(let digit):
            if let number = digit.wholeNumberValue, (1...9).contains(number) { return showView(number - 1) }
        case .pageUp: return scroll(viewRows - 1)
        case .pageDown: return scroll(1 - viewRows)
        case .enter: return enter(at: now)
        case .text(let text), .paste(let text): insert(text, at: now)
        case .lineBreak: insert("\n", at: now)
        default: views.visible.editor.handle(key)
        }
        return []
    }

    private mutating func insert(_ text: String, at now: WallTime) {
        guard !views.visible.editor.insert(text) else { return }
        addNotice(
            "a message holds at most \(UInt64(ChatMessage.maximumTextByteCount).formattedByteCount); "
                + "save it as a file, and use /send", at: now)
    }

    private mutating func scroll(_ rows: Int) -> [Reaction] {
        move(by: rows)
        return rows > 0 && isAtTop ? loadOlder() : []
    }

    /// Limit on the bytes of a line that is typed as a whole: the terminal drops the rest in silence.
    static let typedLineByteCount = 4_095

    /// Enters a line that was typed as a whole. It replaces a line that was held back; an empty line confirms that one, and so does
    /// an equal line, except to a new peer: that line may have been begun before the peer got the name (K2).
    mutating func enter(line: String, at now: WallTime) -> [Reaction] {
        guard !line.isEmpty else { return handle(.key(.enter), at: now) }
        if let held = views.visible.heldLine, held != line || views.visible.newPeerSentence != nil {
            _ = views.visible.removeHeldLine()
            if held != line {
                addNotice("the line that was held back is dropped: \(TerminalText.escaped(held, columns: 200))", at: now)
            }
        }
        let reactions = handle(.key(.control("u")), at: now) + handle(.key(.paste(line)), at: now)
        if line.utf8.count >= Self.typedLineByteCount, views.visible.heldLine != line, !views.visible.editor.isEmpty {
            let end = TerminalText.escaped(String(line.suffix(20)), columns: 40)
            addNotice(
                "the terminal may have cut this line, which ends with: \(end). An empty line sends it; use a pipe or /send for a "
                    + "longer text", at: now)
            // That is confirmed in the same way, and says for what.
            if views.visible.newPeerSentence == nil {
                views.visible.putBack(line)
                return reactions
            }
        }
        return reactions + handle(.key(.enter), at: now)
    }

    /// Holds a line back that was begun, and not entered.
    mutating func hold(_ line: String) { views.visible.putBack(line) }

    /// Whether a line goes to the peer of the conversation, or makes it a friend.
    private static func concernsPeer(_ line: String) -> Bool {
        guard line.hasPrefix("/"), !line.hasPrefix("//") else { return true }
        let command = ChatScreenCommand(line.prefix { !$0.isWhitespace })
        return command == .send || command == .befriend
    }

    private mutating func enter(at now: WallTime) -> [Reaction] {
        var text = views.visible.editor.submit()
        if let unconfirmed, unconfirmed.command != text { self.unconfirmed = nil }
        guard text.contains(where: { !$0.isWhitespace }) else { return [] }
        let held = views.visible.removeHeldLine()
        if let held, text != held, text.contains(held) {
            views.visible.putBack(text)
            addNotice("the line that was held back is in front of this: press Enter again to send both as one", at: now)
            return []
        }
        if hasNodeEnded, !text.hasPrefix("/") || text.hasPrefix("//") {
            addNotice("not sent: \(Self.nodeEndedNotice); \(unsentAdvice)", at: now)
            return []
        }
        if let sentence = views.visible.newPeerSentence, Self.concernsPeer(text) {
            guard text == held else {
                views.visible.putBack(text)
                addNotice("\(sentence), and was found meanwhile: press Enter again to send this line", at: now)
                return []
            }
            views.visible.newPeerSentence = nil
        }
        if text.hasPrefix("//") {
            text.removeFirst()
        } else if text.hasPrefix("/") {
            let reactions = command(text, at: now)
            for case .request(_, let tag) in reactions where tag.isCommand { pendingCommands.append((text, tag)) }
            return reactions
        } else if let command = offers.command(for: text), unconfirmed == nil {
            unconfirmed = (text, views.visible.conversation)
            views.visible.putBack(text)
            let verb = command.answer == .yes ? "accept" : "decline"
            addNotice("write \(command.name) to \(verb) the offer; press Enter again to send this as a text", at: now)
            return []
        }
        unconfirmed = nil
        guard views.visible.lookup == nil else {
            queue(text, at: now)
            return []
        }
        guard let conversation = views.visible.conversation else {
            addNotice("\(Self.noConversation), /who lists peers; \(unsentAdvice)", at: now)
            return []
        }
        guard canSend else {
            views.visible.putBack(Self.typed(text))
            addNotice("everyone in range can read this: press Enter again to send it", at: now)
            return []
        }
        if let refusal = refusalOfBlocked(conversation) {
            views.visible.editor.recordUnsent(Self.typed(text))
            addNotice("not sent: \(refusal); \(unsentAdvice)", at: now)
            return []
        }
        views.visible.position = .end
        if case .peer(let peer) = conversation { announcedPeers.insert(peer) }
        return [.request(.sendLine(text, in: conversation), .sendLine(conversation, text))]
    }

    /// The sentence for what the user sends to a blocked peer; nil for a conversation with another one.
    private func refusalOfBlocked(_ conversation: Conversation?) -> String? {
        guard case .peer(let peer)? = conversation, contacts[peer]?.trustStatus.isBlocked == true else { return nil }
        return "\(name(of: peer)) is blocked; /unblock"
    }

    /// The line that sends a text: a second slash tells a text from a command.
    static func typed(_ text: String) -> String { text.hasPrefix("/") ? "/" + text : text }

    // MARK: Commands

    private mutating func command(_ line: String, at now: WallTime) -> [Reaction] {
        let parts = line.split(maxSplits: 1, whereSeparator: \.isWhitespace)
        let argument = parts.count > 1 ? Self.trimmed(parts[1]) : ""
        let conversation = views.visible.conversation
        guard let command = ChatScreenCommand(parts[0]) else {
            let word = String(parts[0])
            let nearest = CommandSuggestion.nearest(to: word, among: ChatScreenCommand.allCases.map(\.name))
            addNotice(
                "unknown command \(TerminalText.escaped(word, columns: 30)); "
                    + (nearest.map { "did you mean \($0)? " } ?? "") + "/help lists all commands. "
                    + "Type // to send a text that starts with /", at: now)
            return []
        }
        if !argument.isEmpty, command.argument == .none {
            addNotice("\(command.name) takes no argument: enter it alone", at: now)
            return []
        }
        switch command {
        case .quit: return quit(at: now)
        case .help: for line in help { addNotice(line, at: now) }
        case .who: return who(at: now)
        case .verify: return verify(argument, at: now)
        case .public: return show(.publicRoom, at: now)
        case .chat:
            if argument.isEmpty {
                addNotice("missing name: /chat NAME; /who lists peers", at: now)
            } else {
                return lookUp(argument, at: now)
            }
        case .send: return send(argument, at: now)
        case .block:
            return withPeer(argument, at: now) { [contacts] peer in
                [.request(.block(peer), .setBlocked(conversation, true, former: contacts[peer]?.trustStatus))]
            }
        // Blocked peers are in no list.
        case .unblock where !argument.isEmpty: return [.request(.unblock(name: argument), .setBlocked(conversation, false))]
        case .unblock:
            return withPeer("", at: now) { [.request(.unblock(name: $0.hex), .setBlocked(conversation, false))] }
        case .befriend, .unfriend:
            let isFriend = command == .befriend
            return withPeer(argument, at: now) { [.request(.setFriend($0, isFriend), .setFriend(conversation, isFriend))] }
        case .ping, .trace:
            let showsPath = command == .trace
            return withPeer(argument, at: now) { [.request(.ping($0), .ping(conversation, $0, showsPath: showsPath))] }
        case .message: return message(argument, at: now)
        case .accept, .decline:
            let answer: PromptAnswer = command == .accept ? .yes : .no
            switch offers.choose(argument, for: command.name, at: now) {
            case .offer(let number):
                let question = offers.answer(number)
                let subject = question.map { Self.subject(of: $0) } ?? "number \(number)"
                let tag = RequestTag.answer(answer, subject: subject, in: question?.conversation)
                return [.request(.answer(offers.nodeNumber(of: number), answer), tag)]
            case .hint(let hint): addNotice(hint, at: now)
            }
        case .cancel: return cancel(argument, at: now)
        case .clear where views.visible.lookup?.lines.isEmpty == false: dropWaitingLines(at: now)
        case .clear:
            guard let conversation = requireConversation(at: now),
                isConfirmed("/clear", "all lines of this conversation are removed from this machine", at: now)
            else { return [] }
            return [.request(.clear(conversation), .clear(conversation))]
        case .disappear: return disappear(argument, line, at: now)
        case .search:
            guard let conversation = requireConversation(at: now) else { return [] }
            guard !argument.isEmpty else {
                addNotice("missing text: /search TEXT", at: now)
                return []
            }
            return [
                .request(.search(argument, in: conversation, limit: Self.maximumFoundCount), .search(conversation, argument))
            ]
        case .export:
            guard let conversation = requireConversation(at: now) else { return [] }
            return [.export(conversation, name: title(of: conversation))]
        case .panic:
            let consequence = "the key of this machine, the address book and all conversations are removed, and the node stops"
            return isConfirmed("/panic", consequence, at: now) ? [.erase] : []
        case .voice:
            guard let peer = requireReceiver("a voice note", at: now) else { return [] }
            return [.record(peer, name: name(of: peer))]
        case .play: return [.play(note: argument.isEmpty ? nil : argument, in: conversation)]
        case .show: return [.showPicture(argument.isEmpty ? nil : Self.unquoted(argument), in: conversation)]
        }
        return []
    }

    /// The reactions for a contact that the user names, or for the peer of the conversation.
    private mutating func withPeer(_ name: String, at now: WallTime, _ body: (PeerID) -> [Reaction]) -> [Reaction] {
        peer(named: name, at: now).map(body) ?? []
    }

    /// The contact that the user names, or the peer of the conversation; nil, with a notice, where there is none.
    private mutating func peer(named name: String, at now: WallTime) -> PeerID? {
        guard !name.isEmpty else { return requirePeer("this", at: now) }
        // A blocked peer, which no list shows, does not make another peer's name ambiguous.
        let shown = contacts.values.filter { !$0.trustStatus.isBlocked }
        let begun = NameSelection.withIDPrefix(name, amongKnown: shown.filter(\.trustStatus.isKnown))
        if begun.count == 1 { return begun[0].id }
        switch begun.isEmpty ? NameSelection(of: name, among: shown) : .several(begun) {
        case .one(let contact, _): return contact.id
        case .several(let several): addNotice(NameSelection.ambiguity(of: name, several), at: now)
        case .none:
            if let id = PeerID(hex: name) { return id }
            addNotice("\(TerminalText.escaped(name, columns: 40)) is not in the list of /who; use the id", at: now)
        }
        return nil
    }

    /// Cancels files that are being sent in the conversation.
    /// - Parameter name: a name, or the beginning of several; empty for the only one.
    private mutating func cancel(_ name: String, at now: WallTime) -> [Reaction] {
        guard let conversation = requireConversation(at: now) else { return [] }
        let running = views.visible.runningTransfers
        let named = running.filter { $0.name.lowercased() == name.lowercased() }
        let wanted = named.isEmpty ? running.filter { $0.name.lowercased().hasPrefix(name.lowercased()) } : named
        if wanted.isEmpty {
            addNotice(running.isEmpty ? "no file is being sent here" : "no file of this name is being sent", at: now)
        } else if name.isEmpty, wanted.count > 1 {
            let names = wanted.map { NameText.shown($0.name) }.joined(separator: ", ")
            addNotice("which one? /cancel NAME: \(names)", at: now)
            return []
        }
        return wanted.map { .request(.cancelTransfer($0.id), .cancel(conversation)) }
    }

    /// Opens the conversation with a peer, and sends a line there.
    private mutating func message(_ argument: String, at now: WallTime) -> [Reaction] {
        guard let (name, text) = splitReceiver(argument) else {
            addNotice("missing name or text: /msg NAME TEXT", at: now)
            return []
        }
        let reactions = lookUp(name, at: now)
        // Without room for another conversation nothing was opened.
        if views.visible.lookup?.name == name { queue(text, at: now) }
        return reactions
    }

    /// The receiver's name and the text of a message: a name in quotation marks, the longest one of a known peer that the line
    /// begins with, or else one word. A new peer could choose a name that takes the beginning of the text (K2).
    private func splitReceiver(_ line: String) -> (name: String, text: String)? {
        func split(_ count: Int, droppingMark: Bool = false) -> (name: String, text: String)? {
            let rest = line.dropFirst(count + (droppingMark ? 2 : 0))
            guard count > 0, rest.first?.isWhitespace == true else { return nil }
            let text = Self.trimmed(rest)
            return text.isEmpty ? nil : (String(line.dropFirst(droppingMark ? 1 : 0).prefix(count)), text)
        }
        if line.first == "\"", let end = line.dropFirst().firstIndex(of: "\"") {
            return split(line.distance(from: line.startIndex, to: end) - 1, droppingMark: true)
        }
        let known = contacts.values.filter(\.trustStatus.isKnown).map(\.name.claimed).filter {
            line.lowercased().hasPrefix($0.lowercased() + " ")
        }
        let word = line.prefix { !$0.isWhitespace }.count
        return split(max(known.map(\.count).max() ?? 0, word))
    }

    private mutating func requireConversation(at now: WallTime) -> Conversation? {
        if let conversation = views.visible.conversation { return conversation }
        addNotice(Self.noConversation, at: now)
        return nil
    }

    private static let noConversation = "no conversation is open: /chat NAME opens one"

    /// Whether the user has entered a command twice, one after the other, in one conversation.
    private mutating func isConfirmed(_ command: String, _ consequence: String, at now: WallTime) -> Bool {
        if let unconfirmed, unconfirmed == (command, views.visible.conversation) {
            self.unconfirmed = nil
            return true
        }
        unconfirmed = (command, views.visible.conversation)
        views.visible.editor.replace(with: command)
        addNotice("\(consequence); press Enter again to do it", at: now)
        return false
    }

    /// Shows or sets the lifetime of the lines of the conversation. Setting one is confirmed: older lines are removed at once.
    /// - Parameter line: the whole command.
    private mutating func disappear(_ argument: String, _ line: String, at now: WallTime) -> [Reaction] {
        guard let conversation = requireConversation(at: now) else { return [] }
        guard !argument.isEmpty else { return [.request(.lifetime(conversation), .lifetime(conversation))] }
        guard let setting = LifetimeSetting(argument) else {
            addNotice(
                "no valid time: enter /disappear TIME, such as 10m, 1h or 7d, from 1m to 365d; or off, or default", at: now)
            return []
        }
        var consequence: String?
        switch setting {
        case .limited(let lifetime): consequence = "\(Self.sentence(about: lifetime)), older ones now"
        case .standard:
            consequence = "where message-lifetime of the configuration is set, lines older than that are removed now"
        case .unlimited: break
        }
        if let consequence, !isConfirmed(line, consequence, at: now) { return [] }
        return [.request(.setLifetime(conversation, setting), .lifetime(conversation))]
    }

    private static func sentence(about lifetime: MessageLifetime) -> String {
        "lines of this conversation are removed from this machine \(lifetime.words) after they were written or received"
    }

    /// The reply about the lifetime of the lines of a conversation; escaped for a terminal.
    func sentence(about lifetime: ConversationLifetime, of conversation: Conversation) -> String {
        let origin = lifetime.setting == .standard ? " (the default)" : ""
        guard let current = lifetime.current else {
            return "lines of this conversation stay on this machine\(origin); /disappear TIME removes them after that time"
        }
        var owner = "others keep their copies"
        if case .peer(let peer) = conversation { owner = "\(name(of: peer)) keeps its copies" }
        return "\(Self.sentence(about: current))\(origin); \(owner), and received files stay in the inbox"
    }

    private func title(of conversation: Conversation) -> String {
        if case .peer(let peer) = conversation { name(of: peer) } else { "everyone" }
    }

    /// Limit on the lines that a search shows.
    private static let maximumFoundCount = 50

    mutating func showFound(_ messages: [ChatMessage], _ text: String, in conversation: Conversation, at now: WallTime) {
        let wanted = TerminalText.escaped(text, columns: 40)
        let count =
            switch messages.count {
            case 1: "1 line contains"
            case Self.maximumFoundCount: "the newest \(messages.count) lines that contain"
            default: "\(messages.count) lines contain"
            }
        addNotice("\(messages.isEmpty ? "no line contains" : count) \(wanted)", in: conversation, at: now)
        for message in messages {
            let day = settings.localTime(message.when)
            let author = message.author.map { name(of: $0) } ?? "you"
            let words = message.text.lines.map { TextLayout.escaped($0) }.joined(separator: " ")
            addNotice(
                "\(day.day) \(day.clock) \(author): \(TextLayout.truncated(words, to: 200))", in: conversation, at: now)
        }
    }

    static func text(_ report: PingReport, showsPath: Bool) -> String {
        let hops = report.hops == 1 ? "1 hop" : "\(report.hops) hops"
        let answer = "answer after \(report.milliseconds) ms over \(hops)"
        guard showsPath else { return answer }
        return
            "\(answer), \(report.nextHop.map { "through \($0.name.quoted(of: $0.id)) (\($0.id.hex))" } ?? "from a neighbour")"
    }

    private mutating func send(_ argument: String, at now: WallTime) -> [Reaction] {
        let (path, isEncrypted) = Self.file(of: argument)
        guard !path.isEmpty else {
            addNotice("missing file: /send FILE\(settings.isPlain ? "" : "; Tab completes its name")", at: now)
            return []
        }
        if views.visible.conversation == .publicRoom {
            guard canSend else {
                views.visible.putBack("/send \(argument)")
                addNotice("everyone in range can read this: press Enter again to send it", at: now)
                return []
            }
            return [.sendFile(path, .everyone, .sendFile(.publicRoom, path))]
        }
        guard let peer = requireReceiver("a file", at: now) else { return [] }
        return [.sendFile(path, peer, isEncrypted: isEncrypted, .sendFile(.peer(peer), path))]
    }

    /// By this option, before or after the file, the user agrees that all relays can read it.
    private static let unencryptedOption = "--allow-unencrypted"

    /// The path in the argument of /send, and whether the file is sent sealed. In quotation marks, the option is part of the path.
    private static func file(of argument: String) -> (path: String, isEncrypted: Bool) {
        if argument == unencryptedOption { return ("", false) }
        let rest = argument.dropFirst(unencryptedOption.count)
        if argument.hasPrefix(unencryptedOption), rest.first?.isWhitespace == true { return (unquoted(trimmed(rest)), false) }
        let path = argument.dropLast(unencryptedOption.count)
        if argument.hasSuffix(unencryptedOption), path.last?.isWhitespace == true { return (unquoted(trimmed(path)), false) }
        return (unquoted(argument), true)
    }

    private mutating func requireReceiver(_ what: String, at now: WallTime) -> PeerID? {
        if let refusal = refusalOfBlocked(views.visible.conversation) {
            addNotice("not sent: \(refusal)", at: now)
            return nil
        }
        return requirePeer(what, at: now)
    }

    private mutating func requirePeer(_ what: String, at now: WallTime) -> PeerID? {
        if case .peer(let peer)? = views.visible.conversation { return peer }
        if let name = views.visible.lookup?.name {
            addNotice("\(TerminalText.escaped(name, columns: 40)) has not been found yet", at: now)
            return nil
        }
        addNotice(
            views.visible.conversation == nil
                ? Self.noConversation
                : "\(what) needs a single receiver: /chat NAME opens a conversation", at: now)
        return nil
    }

    /// The lines of /help. A terminal of plain lines neither records nor plays, shows no pictures, and has no keys but Enter.
    private var help: [String] {
        let commands = ChatScreenCommand.allCases.filter { !settings.isPlain || ![.voice, .play, .show].contains($0) }
        return commands.map(\.help) + ["//TEXT: send a text that starts with /"] + (settings.isPlain ? [] : Self.keyHelp)
    }

    private static let keyHelp = [
        "Tab, Shift-Tab, Alt-1 to 9: other conversations; Page Up, Page Down: older messages;",
        "Alt-Enter: a line break in a text; Up, Down: texts and commands entered before;",
        "Tab behind the beginning of a command, name or file: the rest; Ctrl-C: quit",
    ]

    /// Lists the peers, at once where none is a neighbour: only of neighbours the node may know a signal strength.
    private mutating func who(at now: WallTime) -> [Reaction] {
        let conversation = views.visible.conversation
        guard !hasNodeEnded, listed.contains(where: { $0.hops == 1 }) else {
            listPeers(in: conversation, at: now)
            return []
        }
        return [.request(.status, .who(conversation))]
    }

    /// Lists the peers nearby, and friends.
    /// - Parameters:
    ///   - neighbours: as the node has just described them; empty where it has not.
    ///   - conversation: that in which the user has typed the command.
    mutating func listPeers(
        _ neighbours: [NodeStatus.Neighbour] = [], in conversation: Conversation?, at now: WallTime
    ) {
        let all = listed
        if all.isEmpty { addReply("no peers nearby", in: conversation, at: now) }
        for contact in all {
            let signal = neighbours.first(where: { $0.contact.id == contact.id })?.signal
            let software =
                switch contact.software {
                case .nearshare: ", nearshare"
                case .phone: ", bitchat"
                case .blueChat: ", BlueChat"
                case .unknown: ""
                }
            let place =
                "\(contact.isNear ? "near" : "away")\(Self.distance(of: contact))"
                + (signal.map { ", \($0.text)" } ?? "")
            addReply(
                "\(name(of: contact.id))  \(contact.id.hex)  \(place)\(software), "
                    + TerminalText.escaped(contact.trustStatus.listText, columns: 40), in: conversation, at: now)
        }
    }

    private static func distance(of contact: Contact) -> String {
        contact.hops.map { $0 == 1 ? ", 1 hop" : ", \($0) hops" } ?? ""
    }

    /// - Parameter argument: the link of a peer's verification code, or the name of a peer; empty for the one of the conversation.
    private mutating func verify(_ argument: String, at now: WallTime) -> [Reaction] {
        let conversation = views.visible.conversation
        if argument.hasPrefix("bitchat:") || argument.contains("://") {
            // A link that was copied from several rows.
            let link = argument.filter { !$0.isWhitespace }
            addNotice("asking the owner of the link to prove the key…", at: now)
            return [.request(.verify(link: link), .verify(conversation))]
        }
        var isPeerNamed = !argument.isEmpty
        if case .peer? = conversation { isPeerNamed = true }
        if isPeerNamed {
            guard let peer = peer(named: argument, at: now) else { return [] }
            let (text, isVerifiable) = verificationText(for: peer)
            addNotice(text, at: now)
            guard isVerifiable else { return [] }
        }
        return [.request(.verificationLink, .verificationLink(conversation))]
    }

    /// How to verify a peer, and whether it can be verified.
    private func verificationText(for peer: PeerID) -> (String, isVerifiable: Bool) {
        let (contact, name) = (contacts[peer], name(of: peer))
        if contact?.software == .blueChat {
            let text =
                "\(name) cannot be verified: BlueChat has no keys. Any other person can use the name, and everyone in range can "
                + "read this conversation"
            return (text, false)
        }
        var text: String
        switch contact?.trustStatus {
        case .known(.blocked, _)?: return ("\(name) is blocked, and cannot be verified before /unblock", false)
        case .known(.verified, _)?: return ("\(name) is verified: the key \(peer.hex) was checked", true)
        case .nameClash(let known)?:
            text =
                "WARNING: \(name) is known with another key, \(known.peerID.hex). This key, \(peer.hex), is that of a new device, or "
                + "of another person who uses the name. Verify it before you trust it:"
        default: text = "\(name) is not verified: another person may use this name. To verify the key \(peer.hex):"
        }
        if contact?.software == .phone {
            text += "\n- enter /verify LINK, with the link of the verification code in bitchat there"
        } else {
            text +=
                "\n- enter /verify LINK, with the link that /verify shows in the chat there;"
                + "\n- or run nearshare receive there, and here, in another terminal:"
                + "\n      nearshare peers verify \(peer.hex)"
                + "\n  Both screens show eight digits; compare them by voice, or side by side."
        }
        if contact?.isNear != true { text += "\n\(name) is away: the key can be verified when the peer is near." }
        return (text, true)
    }

    /// Draws this node's verification code.
    mutating func showCode(of link: String, in conversation: Conversation?, at now: WallTime) {
        addNotice(
            "the verification code of this machine, for the next five minutes: others enter /verify with the link, or scan the "
                + "code with bitchat. Hand it over so that no other person can change it, such as side by side:",
            in: conversation, at: now)
        // The link precedes the code, so that the whole code is visible at the end of the conversation.
        addNotice(link, in: conversation, at: now)
        do throws(QRCodeError) {
            guard settings.hasUTF8 else { throw .needsUTF8 }
            let code = try QRCode(link)
            let needed = terminalSize(for: code)
            guard columns >= needed.columns, rows >= needed.rows else {
                throw .needsRoom(
                    columns: needed.columns, rows: needed.rows, advice: "enlarge it, and enter /verify again")
            }
            if let index = conversation.flatMap(views.index(of:)) {
                views[index].addQRCode(code.lines(isInverted: !settings.hasColor), at: now)
            } else {
                views.visible.addQRCode(code.lines(isInverted: !settings.hasColor), at: now)
            }
        } catch {
            addNotice(error.description, in: conversation, at: now)
        }
    }

    // MARK: Completion

    /// Completes a command; on an empty line, switches to the next conversation.
    private mutating func tab(at now: WallTime) -> [Reaction] {
        let text = views.visible.editor.text
        guard text.hasPrefix("/"), views.visible.editor.isAtEnd else { return views.visible.editor.isEmpty ? step(1) : [] }
        if let prefix = Self.filePrefixes.first(where: { text.hasPrefix($0) }) {
            return [.listPaths(String(text.dropFirst(prefix.count)))]
        }
        guard let space = text.firstIndex(of: " ") else {
            complete(text, with: ChatScreenCommand.allCases.map(\.completion), after: "", at: now)
            return []
        }
        guard let command = ChatScreenCommand(text[..<space]) else { return [] }
        let (prefix, begun) = (String(text[...space]), String(text[text.index(after: space)...]))
        let peers = contacts.values.filter {
            $0.trustStatus.isBlocked == (command == .unblock) && TerminalText.escaped($0.name.claimed) == $0.name.claimed
        }.sorted { $0.name.claimed < $1.name.claimed }
        switch command.argument {
        case .peer: complete(begun, with: peers.map { selector(of: $0) }, after: prefix, at: now)
        case .peerAndText: completeWord(begun, for: peers, after: prefix, at: now)
        case .offer:
            complete(
                begun, with: offers.open.map { "\($0.number)" },
                listed: offers.open.map { "\($0.number): \(Self.subject(of: $0))" }, after: prefix, at: now)
        case .none, .ignored, .file, .other: break
        }
        return []
    }

    /// Completes a peer as one word: its id where its name has several words.
    private mutating func completeWord(_ begun: String, for peers: [Contact], after prefix: String, at now: WallTime) {
        guard !begun.contains(" ") else { return }
        let fitting = peers.filter { selector(of: $0).lowercased().hasPrefix(begun.lowercased()) }
        if fitting.count == 1 {
            let name = selector(of: fitting[0])
            let word = name.contains(where: \.isWhitespace) ? fitting[0].id.hex : name
            return views.visible.editor.replace(with: "\(prefix)\(word) ")
        }
        let names = fitting.map { selector(of: $0) }
        complete(begun, with: names.map { String($0.prefix { !$0.isWhitespace }) }, listed: names, after: prefix, at: now)
    }

    /// The text that selects a peer in a command: its name, with the tag of its key where another contact has the name.
    private func selector(of contact: Contact) -> String {
        let isShared = contacts.values.contains { $0.id != contact.id && SharedName.areEqual($0.name, contact.name) }
        guard isShared else { return contact.name.claimed }
        return "\(contact.name.claimed)#\(contact.id.hex.prefix(TaggedName.minimumDigitCount))"
    }

    /// The beginnings of lines behind which Tab completes the name of a file.
    private static let filePrefixes = ["/send \(unencryptedOption) ", "/send "]

    mutating func completePath(_ path: String, with candidates: [String], at now: WallTime) {
        // The user may have typed more in the meantime.
        let text = views.visible.editor.text
        guard let prefix = Self.filePrefixes.first(where: { text == $0 + path }) else { return }
        let names = candidates.map { $0.nameInParent.isEmpty ? "\($0.dropLast().nameInParent)/" : $0.nameInParent }
        complete(path, with: candidates, listed: names, after: prefix, at: now)
    }

    /// Completes the common beginning of the candidates, or lists them where it is typed already.
    /// - Parameter names: the candidates as they are listed, in their order; nil for themselves.
    private mutating func complete(
        _ begun: String, with candidates: [String], listed names: [String]? = nil, after prefix: String, at now: WallTime
    ) {
        let fitting = zip(candidates, names ?? candidates).filter { $0.0.lowercased().hasPrefix(begun.lowercased()) }
        guard var common = fitting.first?.0 else { return }
        for (other, _) in fitting.dropFirst() {
            common = String(zip(common, other).prefix { $0.lowercased() == $1.lowercased() }.map { $0.0 })
        }
        if common.count >= begun.count { views.visible.editor.replace(with: prefix + common) }
        if fitting.count > 1, common.count <= begun.count { list(fitting.map(\.1), at: now) }
    }

    /// Limit on the rows that list candidates.
    private static let maximumCandidateRows = 4

    /// - Parameter candidates: escaped for a terminal.
    private mutating func list(_ candidates: [String], at now: WallTime) {
        var room = Self.maximumCandidateRows * max(8, columns - 16)
        let shown = candidates.prefix { candidate in
            room -= TerminalText.width(of: candidate) + 2
            return room >= 0
        }
        let more = candidates.count - shown.count
        let names = shown.map { $0.last == " " ? String($0.dropLast()) : $0 } + (more > 0 ? ["and \(more) more"] : [])
        let notice = names.joined(separator: ", ")
        // Pressed again, Tab does not repeat it.
        if views.visible.items.last?.content == .notice(notice) { return }
        addNotice(notice, at: now)
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
