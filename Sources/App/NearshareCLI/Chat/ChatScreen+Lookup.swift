internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The search for the peer that a name means, and the lines that wait for it.
extension ChatScreen {
    private static let lookupTimeout = Duration.seconds(5)

    /// Looks for a peer. Its conversation is visible at once, so that no line goes to the one before.
    mutating func lookUp(_ name: String, at now: WallTime) -> [Reaction] {
        let index: Int
        if let existing = views.index(ofLookup: name) {
            index = existing
        } else if let visible = views.visibleIndex, let previous = views[visible].lookup, !previous.isRunning,
            previous.lines.isEmpty,
            views[visible].editor.isEmpty
        {
            // A name that was mistyped leaves no tab behind.
            index = visible
        } else if let added = views.add(.lookup(ConversationView.Lookup(name: name, isRunning: false)), isProtected: isFriend) {
            index = added
        } else {
            addNotice("too many conversations are open", at: now)
            return []
        }
        let previous = views[index].lookup
        views.show(index)
        // One lookup of a name at a time: a second one that fails first would drop the lines of the first.
        if let previous, previous.name == name, previous.isRunning { return [] }
        var lookup = ConversationView.Lookup(name: name, peersListedByNode: knownPeers(selectedBy: name))
        if let previous, !previous.lines.isEmpty {
            lookup = previous
            (lookup.isRunning, lookup.isWaiting) = (true, false)
        }
        views[index].setLookup(lookup)
        return [Self.request(name)]
    }

    /// The listed peers that a name selects and that the user knows, or has met in this chat.
    private func knownPeers(selectedBy name: String) -> Set<PeerID> {
        let known = contacts.values.filter { contact in
            Self.isKnown(contact) || announcedPeers.contains(contact.id)
                || views.index(of: .peer(contact.id)).map { views[$0].hasLocalMessages } ?? false
        }
        let selected = NameSelection(of: name, among: known).peers + NameSelection.withIDPrefix(name, amongKnown: known)
        return Set(selected.map(\.id)).union(announcedPeers.peers(named: name))
    }

    /// Whether lines that were written to a name may go to the peer that was found: the user knew the peer under that name, or has
    /// named its whole id. Any peer can take a name later, also a known one (K2).
    static func isExpected(_ contact: Contact, by lookup: ConversationView.Lookup?) -> Bool {
        guard let lookup else { return false }
        // An id names one key.
        if PeerID(hex: lookup.name) == contact.id || lookup.peersListedByNode.contains(contact.id) { return true }
        guard isKnown(contact) else { return false }
        // Without the files, a known peer in the first reply of the node is expected: it has the name since the search began.
        return lookup.peersStoredOnDisk?.contains(contact.id) ?? !lookup.isWaiting
    }

    static func request(_ name: String) -> Reaction {
        .request(.find(name: name, timeout: lookupTimeout), .lookup(name))
    }

    /// Queues a line until its peer is found.
    mutating func queue(_ text: String, at now: WallTime) {
        guard var lookup = views.visible.lookup else { return }
        let name = TerminalText.escaped(lookup.name, columns: 40)
        guard lookup.isOpen else {
            views.visible.editor.recordUnsent(Self.typed(text))
            return addNotice("\(name) was not found; try /chat NAME; \(unsentAdvice)", at: now)
        }
        lookup.lines.append(text)
        views.visible.setLookup(lookup)
        hasWarnedOfQuitting = false
        addNotice("sent when \(name) is found: \(TerminalText.escaped(text, columns: 200))", at: now)
    }

    /// Makes the view of a name the conversation with the peer that was found. Its lines are sent to a peer that the user knew by
    /// that name. For another one, which may have chosen the name that the user mistyped, they are not sent: the first returns to an
    /// empty input line, the others are reached with the Up key (K2).
    /// - Parameter news: a line about the peer; escaped for a terminal.
    mutating func resolve(
        _ name: String, at index: Int, as contact: Contact, news: String? = nil, at now: WallTime
    ) -> [Reaction] {
        let conversation = Conversation.peer(contact.id)
        let lookup = views[index].lookup
        let lines = lookup?.lines ?? []
        let isExpected = Self.isExpected(contact, by: lookup)
        let isVisible = views.visibleIndex == index
        let target = views.resolve(at: index, as: conversation)
        if let news { views[target].addNotice(news, at: now) }
        // An id names one peer.
        if PeerID(hex: name) != nil {
            announcedPeers.suppressSharedNameNotice(for: contact.id)
        } else if let notice = SharedName.notice(for: contact, among: Array(contacts.values)) {
            if !contact.isNear { announcedPeers.suppressSharedNameNotice(for: contact.id) }
            views[target].addNotice(notice, at: now)
        }
        let reactions = isVisible ? showView(target) : []
        if isExpected {
            return reactions + lines.map { .request(.sendLine($0, in: conversation), .sendLine(conversation, $0)) }
        }
        let shown = "\(contact.name.quoted(of: contact.id)) (\(contact.id.hex))"
        let reason = Self.isKnown(contact) ? "was not known by that name" : "is new here"
        // A line may be half typed in the terminal, where the screen does not see it.
        if settings.isPlain, !lines.isEmpty || lookup?.isRunning != true {
            views[target].newPeerSentence = "\(shown) \(reason)"
        }
        guard let first = lines.first else { return reactions }
        announcedPeers.insert(contact.id, named: name)
        let hasDraft = !views[target].editor.isEmpty
        let advice =
            switch (hasDraft, settings.isPlain) {
            case (true, false): "Up shows your lines"
            case (false, false): "Enter sends the line below, Up shows your other lines"
            case (true, true): "Enter your lines again"
            case (false, true) where lines.count == 1: "An empty line sends this one"
            case (false, true): "An empty line sends the first of these; enter the others again"
            }
        views[target].addNotice("\(shown) \(reason); nothing was sent. \(advice)", at: now)
        for line in lines { addUnsent(line, in: target, at: now) }
        // No line can confirm it after the end of the input.
        if !hasDraft, !hasInputEnded { views[target].putBack(Self.typed(first)) }
        return reactions
    }

    /// Keeps the lines for a peer that the node has not found, until it is in range.
    /// - Parameter reason: escaped for a terminal.
    mutating func waitForPeer(_ name: String, because reason: String, at now: WallTime) {
        guard let index = views.index(ofOpenLookup: name), var lookup = views[index].lookup, lookup.isRunning else { return }
        (lookup.isRunning, lookup.isWaiting) = (false, true)
        views[index].setLookup(lookup)
        views[index].addNotice(reason, at: now)
        // The chat ends now.
        if hasInputEnded { return }
        let shown = TerminalText.escaped(name, columns: 40)
        let awaited = name == settings.ownName?.claimed ? "another peer called \(shown)" : shown
        views[index].addNotice("what you write here waits until \(awaited) is near, or this chat ends", at: now)
    }

    /// Drops the lines of the visible view that wait for its peer.
    mutating func dropWaitingLines(at now: WallTime) {
        guard var lookup = views.visible.lookup else { return }
        for line in lookup.lines { views.visible.editor.recordUnsent(Self.typed(line)) }
        lookup.lines = []
        views.visible.setLookup(lookup)
        addNotice("the lines that waited are dropped\(settings.isPlain ? "" : "; Up brings them back")", at: now)
    }

    /// The requests for the peers that the node has not found yet.
    var repeatedRequests: [Reaction] { views.openLookups.filter { !$0.isRunning }.map { Self.request($0.name) } }

    /// Makes the views of names for which no request runs, failed or waiting ones, conversations with the peers that have these
    /// names now.
    mutating func resolvePausedLookups(at now: WallTime) -> [Reaction] {
        var reactions: [Reaction] = []
        for lookup in views.compactMap(\.lookup) where !lookup.isRunning {
            guard let index = views.index(ofLookup: lookup.name), let contact = peerInRange(called: lookup.name) else {
                continue
            }
            // A text that the user is writing never goes to a peer that has just taken the name (K2).
            guard Self.isExpected(contact, by: lookup) || views[index].editor.isEmpty else { continue }
            let shown = "\(contact.name.quoted(of: contact.id)) (\(contact.id.hex))"
            let news = "\(shown) is near now; this is the conversation with that peer"
            reactions += resolve(lookup.name, at: index, as: contact, news: news, at: now)
        }
        return reactions
    }

    /// The only peer with a name, if it is in range: not one that claims the name of another known peer (K2), nor a user
    /// of BlueChat, whose names are not authenticated. The beginning of a name is not enough, because the list lacks known peers
    /// that are away.
    private func peerInRange(called name: String) -> Contact? {
        let wanted = name.lowercased()
        let owners = contacts.values.filter {
            !$0.trustStatus.isBlocked && ($0.id.hex == wanted || $0.name.claimed.lowercased() == wanted)
        }
        guard owners.count == 1, let contact = owners.first, contact.isNear, contact.software != .blueChat else { return nil }
        if case .nameClash = contact.trustStatus, contact.id.hex != wanted { return nil }
        return contact
    }

    /// Ends the lookup of a blocked peer. Its tab, in which nothing could be done, does not stay.
    mutating func endLookup(ofBlocked name: String, at now: WallTime) {
        guard let index = views.index(ofOpenLookup: name) else { return }
        let lines = views[index].lookup?.lines ?? []
        // On plain lines one may be half typed in the terminal: it must not go to the conversation before.
        if views[index].editor.isEmpty, !settings.isPlain {
            views.discard(at: index)
        } else {
            views[index].setLookup(ConversationView.Lookup(name: name, isRunning: false))
        }
        let shown = TerminalText.escaped(name, columns: 40)
        let unsent = lines.map { "; not sent: \(TerminalText.escaped($0, columns: 200))" }.joined()
        // A name that is shown escaped or cut selects no peer.
        let owners = NameSelection(of: name, among: contacts.values.filter(\.trustStatus.isBlocked)).peers
        let selector: String? = shown == name ? name : owners.count == 1 ? owners.first?.id.hex : nil
        let advice = selector.map { "/unblock \($0)" } ?? "/unblock it by its id, which `nearshare peers` lists"
        let notice = "\(shown) is blocked; \(advice)\(unsent)"
        addNotice(notice, at: now)
        if !lines.isEmpty { recordUnsent(notice) }
    }

    private static func isKnown(_ contact: Contact) -> Bool {
        if case .known = contact.trustStatus { true } else { false }
    }
}
