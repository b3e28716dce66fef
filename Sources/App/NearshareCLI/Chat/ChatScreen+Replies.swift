internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The replies of the node to the requests of the screen.
extension ChatScreen {
    mutating func handle(
        _ result: Result<ControlReply, ControlFailure>, for tag: RequestTag, at now: WallTime
    ) -> [Reaction] {
        switch result {
        case .success(let reply): return succeeded(tag, reply, at: now)
        case .failure(let failure):
            switch tag {
            // Another node may take over; it is asked again then.
            case .lookup where failure.kind == .gone, .contacts where failure.kind == .gone,
                .conversations where failure.kind == .gone:
                return []
            // The node may have stored the line before it ended: a user who is told otherwise sends it twice.
            case .sendLine(let conversation, let text) where failure.kind == .gone:
                returnUnsent(
                    text,
                    "perhaps not sent: the node ended before it replied; if the line does not appear here, \(unsentAdvice)",
                    in: conversation, at: now)
                return []
            case .lookup(let name) where failure.kind == .blocked:
                endLookup(ofBlocked: name, at: now)
                return []
            case .lookup(let name) where failure.kind == .peerNotFound:
                waitForPeer(name, because: TextLayout.sanitized(failure.description), at: now)
                return []
            // A repeated search: the user knows that the peer is waited for.
            case .lookup(let name) where views.openLookups.contains { $0.name == name && !$0.isRunning }: return []
            default: break
            }
            failed(tag, TextLayout.sanitized(failure.description), at: now)
            return []
        }
    }

    private mutating func succeeded(_ tag: RequestTag, _ reply: ControlReply, at now: WallTime) -> [Reaction] {
        switch (tag, reply) {
        case (.contacts, .contacts(let all)): return setContacts(all, at: now)
        case (.conversations, .conversations(let all)): return setConversations(all, at: now)
        case (.history(let conversation), .chatMessages(let messages, let lifetime)):
            guard let index = views.index(of: conversation) else { return [] }
            views[index].lifetime = lifetime
            let isNewest = views[index].history == .loadingNewest
            if settings.isPlain { written.recordUnread(among: messages) }
            // Fewer come also where further ones do not fit into a reply.
            let isShort = messages.reduce(0) { $0 + $1.text.utf8.count } < 64 << 10
            let isLast = messages.isEmpty || messages.count < historyPageCount && isShort
            views[index].endLoading((messages, isLast: isLast))
            // Also lines that an earlier node has sent, and that were removed while this screen had none.
            if let lifetime { views[index].removeExpired(until: lifetime.latestExpired(at: now)) }
            if settings.isPlain, !isLast, messages.min(by: { $0.number < $1.number })?.isUnread == true {
                addNotice("older lines are not shown; --history COUNT shows more", in: conversation, at: now)
            }
            if isNewest, index == views.visibleIndex { showOpenOffers(at: now) }
            guard isNewest, case .peer(let peer) = conversation else { return [] }
            // Later ones were shown as they arrived, also where another node has taken over.
            let opened = views[index].opened ?? now
            views[index].opened = opened
            return [.listFiles(peer, before: opened)]
        case (.lookup(let name), .contact(let contact)):
            // A listed one stays: it may have a name that the node no longer knows, see ``setContacts(_:at:)``.
            if contacts[contact.id] == nil { contacts[contact.id] = contact }
            guard let index = views.index(ofOpenLookup: name) else { return [] }
            // A text that the user is writing never goes to a peer that has just taken the name (K2).
            let lookup = views[index].lookup
            if lookup?.isRunning != true, !Self.isExpected(contact, by: lookup), !views[index].editor.isEmpty { return [] }
            return resolve(name, at: index, as: contact, at: now)
        case (.clear(let conversation), .done):
            if let index = views.index(of: conversation) { views[index].removeAll() }
            addNotice("all lines of this conversation are removed from this machine", in: conversation, at: now)
        case (.lifetime(let conversation), .lifetime(let lifetime)):
            if let index = views.index(of: conversation) { views[index].lifetime = lifetime.current }
            addReply(sentence(about: lifetime, of: conversation), in: conversation, at: now)
        case (.search(let conversation, let text), .chatMessages(let messages, _)):
            showFound(messages, text, in: conversation, at: now)
        case (.setBlocked(let conversation, let isBlocked, let former), .contact(let contact)):
            contacts[contact.id] = contact
            let text = isBlocked ? (former ?? .new).blockedText : TrustStatus.unblockedText
            addReply("\(name(of: contact.id)) is \(text)", in: conversation, at: now)
        case (.setFriend(let conversation, let isFriend), .contact(let contact)):
            contacts[contact.id] = contact
            let text = isFriend ? "is a friend: --accept friends takes its files without a question" : "is no longer a friend"
            addReply("\(name(of: contact.id)) \(text)", in: conversation, at: now)
        case (.ping(let conversation, let peer, let showsPath), .pong(let report)):
            addReply("\(name(of: peer)): \(Self.text(report, showsPath: showsPath))", in: conversation, at: now)
        case (.who(let conversation), .status(let status)): listPeers(status.neighbours, in: conversation, at: now)
        case (.verificationLink(let conversation), .text(let link)): showCode(of: link, in: conversation, at: now)
        case (.verify(let conversation), .contact(let contact)):
            contacts[contact.id] = contact
            addReply("\(name(of: contact.id)) is verified", in: conversation, at: now)
        case (.answer(let answer, let subject, let conversation), .done):
            addNotice("\(answer == .yes ? "accepted" : "declined"): \(subject)", aboutAnswerIn: conversation, at: now)
        default: break
        }
        return []
    }

    /// Shows the failure of a request where the user has made it. Lines that are not sent return to the input line.
    /// - Parameter reason: escaped for a terminal.
    mutating func failed(_ tag: RequestTag, _ reason: String, at now: WallTime) {
        switch tag {
        case .sendLine(let conversation, let text):
            returnUnsent(text, "not sent: \(reason); \(unsentAdvice)", in: conversation, at: now)
        case .history(let conversation):
            if let index = views.index(of: conversation) { views[index].endLoading(nil) }
            addNotice(reason, in: conversation, at: now)
        case .sendFile(let conversation, let path):
            addNotice("\(TerminalText.escaped(path, columns: 200)) could not be sent: \(reason)", in: conversation, at: now)
        case .lookup(let name):
            guard let index = views.index(ofOpenLookup: name) else { return }
            let lines = views[index].lookup?.lines ?? []
            views[index].setLookup(ConversationView.Lookup(name: name, isRunning: false))
            views[index].addNotice(reason, at: now)
            for line in lines {
                addUnsent(line, in: index, at: now)
                views[index].editor.recordUnsent(Self.typed(line))
            }
        case .cancel(let conversation), .clear(let conversation), .lifetime(let conversation), .search(let conversation, _):
            addNotice(reason, in: conversation, at: now)
        case .setBlocked(let conversation, _, _), .setFriend(let conversation, _), .ping(let conversation, _, _):
            addReply(reason, in: conversation, at: now)
        // The peers are known; only their signal strength is not.
        case .who(let conversation): listPeers(in: conversation, at: now)
        case .verificationLink(let conversation): addNotice(reason, in: conversation, at: now)
        case .verify(let conversation): addReply("not verified: \(reason)", in: conversation, at: now)
        case .answer(_, let subject, let conversation):
            addNotice("not answered: \(subject): \(reason)", aboutAnswerIn: conversation, at: now)
        case .contacts, .conversations, .markRead: addNotice(reason, at: now)
        }
    }

    /// Adds a notice about an answer to the visible view, where it was typed, and below the question, which would look open there.
    private mutating func addNotice(_ text: String, aboutAnswerIn conversation: Conversation?, at now: WallTime) {
        let index = conversation.flatMap { views.index(of: $0) }
        // Plain lines show the notices of all conversations.
        if !settings.isPlain || index == nil || index == views.visibleIndex { addNotice(text, at: now) }
        if let index, index != views.visibleIndex { views[index].addNotice(text, at: now) }
    }

    /// Lets the user bring back a line that is not sent, or perhaps not, with the Up key.
    private mutating func returnUnsent(_ text: String, _ notice: String, in conversation: Conversation, at now: WallTime) {
        addNotice(notice, in: conversation, at: now)
        if let index = views.index(of: conversation) { views[index].editor.recordUnsent(Self.typed(text)) }
    }

    /// Records the conversations that the node has stored.
    /// - Parameter summaries: the most recent first. Conversations beyond the limit get no view until a message arrives.
    private mutating func setConversations(_ summaries: [ConversationSummary], at now: WallTime) -> [Reaction] {
        for (rank, summary) in summaries.enumerated() {
            let isOpen = views.index(of: summary.conversation) != nil
            guard isOpen || views.count < ConversationViews.maximumCount, let index = open(summary.conversation) else {
                continue
            }
            if !isOpen { views.orderBehindUsed(index, rank: rank) }
            // The name in a question stays, where the peer has never written.
            let claimedName = summary.peerName ?? (summary.last.isLocal ? nil : summary.last.authorName)
            if let claimedName { views[index].claimedName = claimedName }
            guard !views[index].contains(summary.last.id) else { continue }
            views[index].unreadCount = index == views.visibleIndex ? 0 : summary.unreadCount
        }
        guard settings.opening == .latest, views.visibleIndex == nil, views.visible.editor.isEmpty,
            let newest = summaries.first(where: { $0.conversation != .publicRoom })
        else { return [] }
        return show(newest.conversation, at: now)
    }
}
