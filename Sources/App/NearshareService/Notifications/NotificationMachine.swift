package import Nearshare

/// Decides which notifications are shown, replaced and closed, and what the user's reaction to them means. One instance serves
/// one connection to a node and one notification server.
package struct NotificationMachine: Sendable {
    package enum Reaction: Sendable, Hashable {
        /// The server's id comes with ``NotificationMachine/shown(_:as:)``.
        case show(DesktopNotification, token: Int)
        case close(UInt32)
        case answer(number: Int, PromptAnswer)
        case open(path: String)
        case openFolder(path: String)
        case showInFolder(path: String)
        case play(path: String)
        case reply(String, to: PeerID)
    }

    private enum Subject: Hashable {
        case prompt(Int)
        case transfer(TransferID)
        case arrival(String)
        case chat(PeerID)
        case notice
    }

    private struct Entry {
        var subject: Subject
        var token: Int
        /// nil until the server has replied.
        var id: UInt32?
        /// Whether it is to be closed as soon as its id is known.
        var hasEnded = false
        /// The actions that it has.
        var keys: [String]
    }

    private struct RunningTransfer {
        var label: String
        var started: MonotonicInstant
        var lastShown: MonotonicInstant?
    }

    private struct ArrivedItems {
        let first: Arrival
        var count = 1
        var byteCount: UInt64
        /// Whether one of them can start programs when it is opened.
        var startsPrograms: Bool

        init(_ arrival: Arrival) {
            (first, byteCount, startsPrograms) = (arrival, arrival.size, arrival.startsPrograms)
        }

        mutating func add(_ arrival: Arrival) {
            count += 1
            byteCount = byteCount.addingClamped(arrival.size)
            startsPrograms = startsPrograms || arrival.startsPrograms
        }
    }

    private var entries: [Entry] = []
    private var lastToken = 0
    private var running: [TransferID: RunningTransfer] = [:]
    /// The items that have arrived so far, of each running transfer.
    private var arrived: [TransferID: ArrivedItems] = [:]
    private var names: [PeerID: Contact] = [:]
    private var rate = RateWindow()
    private var peerRates: [PeerID: RateWindow] = [:]
    private var overflow = RateWindow()

    /// Limit on the notifications whose actions are remembered. Beyond it the oldest one that is no question is forgotten.
    static let maximumEntryCount = 64
    /// Limit on the transfers whose progress is shown.
    static let maximumTransferCount = 16
    /// Limits on arrivals and messages that are shown (R11). The node limits its questions itself.
    static let maximumCount = 20
    static let maximumCountPerPeer = 8
    static let interval = Duration.seconds(60)
    /// A transfer that ends within this time shows no progress.
    static let progressDelay = Duration.seconds(2)
    static let progressInterval = Duration.seconds(1)
    private static let maximumPeerCount = 256
    private static let maximumTextLines = 5
    /// Limit on a reply, in bytes: that of a line of the chat.
    private static let maximumReplyByteCount = ChatMessage.maximumTextByteCount

    package init() {}

    // MARK: The node

    package mutating func handle(_ event: ControlEvent, now: MonotonicInstant) -> [Reaction] {
        switch event {
        case .receiving(let event): handle(event, now: now)
        case .chatMessage(let message, _): show(message, now: now)
        case .contacts(let contacts): handle(contacts)
        case .messageChanged, .received, .chatMessageChanged, .lifetimeChanged, .messagesExpired, .transfer, .notice: []
        }
    }

    /// Learns names and trust.
    private mutating func handle(_ contacts: [Contact]) -> [Reaction] {
        names = Dictionary(contacts.prefix(Self.maximumPeerCount).map { ($0.id, $0) }) { first, _ in first }
        return []
    }

    private mutating func handle(_ event: ReceiveEvent, now: MonotonicInstant) -> [Reaction] {
        switch event {
        case .prompt(let prompt):
            var notification = DesktopNotification(prompt.title, prompt.lines, category: "transfer")
            notification.actions = [.init(key: Self.yesKey, label: prompt.yes), .init(key: Self.noKey, label: prompt.no)]
            notification.staysOpen = true
            return show(notification, about: .prompt(prompt.number))
        case .promptEnded(let number): return close(.prompt(number))
        case .started(let id, let label):
            guard running.count < Self.maximumTransferCount else { return [] }
            running[id] = RunningTransfer(label: label, started: now)
            return []
        case .progress(let id, let done, let total): return showProgress(of: id, done: done, total: total, now: now)
        case .arrived(let arrival, let id?) where arrived[id] != nil || arrived.count < Self.maximumTransferCount:
            if arrived[id]?.add(arrival) == nil { arrived[id] = ArrivedItems(arrival) }
            return []
        case .arrived(let arrival, _): return show(ArrivedItems(arrival), of: nil, now: now)
        case .ended(let id, let failure):
            let wasRunning = running.removeValue(forKey: id) != nil
            if let items = arrived.removeValue(forKey: id) { return show(items, of: id, now: now) }
            guard let failure, wasRunning else { return close(.transfer(id)) }
            return show(
                DesktopNotification("not complete", [failure], category: "transfer.error"), about: .transfer(id))
        }
    }

    private mutating func showProgress(
        of id: TransferID, done: UInt64, total: UInt64?, now: MonotonicInstant
    ) -> [Reaction] {
        guard let transfer = running[id], now - transfer.started >= Self.progressDelay,
            transfer.lastShown.map({ now - $0 >= Self.progressInterval }) ?? true
        else { return [] }
        running[id]?.lastShown = now
        var notification = DesktopNotification(
            transfer.label, [ProgressText.byteCounts(done, of: total)], category: "transfer")
        notification.progress = total.map { Int32(ProgressText.percentage(done, of: $0)) }
        notification.urgency = .low
        return show(notification, about: .transfer(id))
    }

    private mutating func show(
        _ items: ArrivedItems, of transfer: TransferID?, now: MonotonicInstant
    ) -> [Reaction] {
        let (arrival, count, byteCount) = (items.first, items.count, items.byteCount)
        guard admit(arrival.sender, now: now) else {
            return (transfer.map { close(.transfer($0)) } ?? []) + showOverflow(now: now)
        }
        let sender =
            (count > 1 ? " and \(count - 1) more" : "") + (arrival.senderName.isEmpty ? "" : " from \(arrival.senderName)")
        var notification: DesktopNotification
        switch arrival.kind {
        case .text(let beginning):
            notification = DesktopNotification("message\(sender)", [beginning], category: "im.received")
        case .voiceNote(let duration):
            notification = DesktopNotification("voice note\(sender)", [duration.asClock], category: "transfer.complete")
            notification.actions = [.init(key: Self.playKey, label: "Play"), .init(key: Self.folderKey, label: "Open folder")]
        case .file(let startsPrograms):
            notification = DesktopNotification(
                "received \(arrival.name)\(sender)", [byteCount.formattedByteCount], category: "transfer.complete")
            notification.actions = [.init(key: Self.folderKey, label: "Open folder")]
            if !startsPrograms { notification.actions.insert(.init(key: Self.openKey, label: "Open"), at: 0) }
        case .folder:
            notification = DesktopNotification(
                "received \(arrival.name)\(sender)", [byteCount.formattedByteCount], category: "transfer.complete")
            notification.actions = [.init(key: Self.folderKey, label: "Open folder")]
        }
        if items.startsPrograms {
            notification.lines.append("careful: \(count > 1 ? "one" : "it") can start programs when opened")
        }
        if arrival.path.isEmpty {
            notification.actions = []
            notification.lines.append("it waits until the inbox is available")
        }
        // Replaces the notification of the progress.
        let replaced = transfer.flatMap { id in index(of: .transfer(id)) }.flatMap { entries.remove(at: $0).id }
        return show(notification, about: .arrival(arrival.path), replacing: replaced)
    }

    private mutating func show(_ message: ChatMessage, now: MonotonicInstant) -> [Reaction] {
        // The public room is open to all in range.
        guard let author = message.author, case .peer(let peer) = message.conversation else { return [] }
        guard admit(peer, now: now) else { return showOverflow(now: now) }
        let contact = names[peer]
        let name = (contact?.name ?? message.authorName)?.quoted(of: author) ?? author.hex
        let lines = message.text.lines
        let more = lines.count > Self.maximumTextLines ? ["…"] : []
        let trust = contact.map { $0.isFriend ? "" : ", \(OfferText.describe($0.trustStatus))" } ?? ""
        var notification = DesktopNotification(
            "message from \(name)\(trust)",
            lines.prefix(Self.maximumTextLines).map { TerminalText.escaped(String($0), columns: 240) } + more,
            category: "im.received")
        notification.actions = [.init(key: DesktopNotification.replyKey, label: "Reply")]
        return show(notification, about: .chat(peer))
    }

    /// Counts an arrival or a message.
    private mutating func admit(_ peer: PeerID?, now: MonotonicInstant) -> Bool {
        if let peer {
            if peerRates.count >= Self.maximumPeerCount, peerRates[peer] == nil {
                peerRates = peerRates.filter { !$0.value.isEmpty(within: Self.interval, now: now) }
                guard peerRates.count < Self.maximumPeerCount else { return false }
            }
            let isAdmitted = peerRates[peer, default: RateWindow()]
                .admit(atMost: Self.maximumCountPerPeer, within: Self.interval, now: now)
            guard isAdmitted else { return false }
        }
        return rate.admit(atMost: Self.maximumCount, within: Self.interval, now: now)
    }

    private mutating func showOverflow(now: MonotonicInstant) -> [Reaction] {
        guard overflow.admit(atMost: 1, within: Self.interval, now: now) else { return [] }
        return show(
            DesktopNotification(
                "more has arrived", ["`nearshare inbox` and `nearshare chat` show it"], category: "transfer.complete"),
            about: .notice)
    }

    // MARK: Notifications

    private static let yesKey = "yes"
    private static let noKey = "no"
    private static let openKey = "open"
    private static let folderKey = "folder"
    private static let playKey = "play"

    private func index(of subject: Subject) -> Int? { entries.firstIndex { $0.subject == subject } }

    private mutating func show(
        _ notification: DesktopNotification, about subject: Subject, replacing replaced: UInt32? = nil
    ) -> [Reaction] {
        var notification = notification
        let earlier = index(of: subject)
        notification.replacedID = replaced ?? earlier.flatMap { entries[$0].id } ?? 0
        // A reply of the server to an earlier call finds no entry then, and a second notification stays until it expires.
        if let earlier { entries.remove(at: earlier) }
        if entries.count >= Self.maximumEntryCount {
            entries.remove(
                at: entries.firstIndex { if case .prompt = $0.subject { false } else { true } } ?? entries.startIndex)
        }
        lastToken += 1
        entries.append(
            Entry(
                subject: subject, token: lastToken, id: notification.replacedID == 0 ? nil : notification.replacedID,
                keys: notification.actions.map(\.key)))
        return [.show(notification, token: lastToken)]
    }

    private mutating func close(_ subject: Subject) -> [Reaction] {
        guard let index = index(of: subject) else { return [] }
        guard let id = entries[index].id else {
            entries[index].hasEnded = true
            return []
        }
        entries.remove(at: index)
        return [.close(id)]
    }

    /// The server has shown a notification.
    package mutating func shown(_ id: UInt32, as token: Int) -> [Reaction] {
        // A server that gives one id to two notifications has replaced the first: a button belongs to the second.
        entries.removeAll { $0.id == id && $0.token != token }
        guard let index = entries.firstIndex(where: { $0.token == token }) else { return [] }
        guard !entries[index].hasEnded else {
            entries.remove(at: index)
            return [.close(id)]
        }
        entries[index].id = id
        return []
    }

    /// The user has closed it, or it has expired: an open question can still be answered elsewhere.
    package mutating func closed(_ id: UInt32) { entries.removeAll { $0.id == id } }

    /// The user has pressed a button.
    package mutating func invoked(_ key: String, of id: UInt32) -> [Reaction] {
        guard let entry = entries.first(where: { $0.id == id }), entry.keys.contains(key), !entry.hasEnded else { return [] }
        switch (entry.subject, key) {
        case (.prompt(let number), Self.yesKey): return [.answer(number: number, .yes)]
        case (.prompt(let number), Self.noKey): return [.answer(number: number, .no)]
        case (.arrival(let path), Self.openKey): return [.open(path: path)]
        case (.arrival(let path), Self.folderKey): return [.showInFolder(path: path)]
        case (.arrival(let path), Self.playKey): return [.play(path: path)]
        default: return []
        }
    }

    /// The user has written an answer.
    package mutating func replied(_ text: String, to id: UInt32) -> [Reaction] {
        guard case .chat(let peer)? = entries.first(where: { $0.id == id })?.subject, !text.isEmpty,
            text.utf8.count <= Self.maximumReplyByteCount
        else { return [] }
        return [.reply(text, to: peer)]
    }

    /// The notifications that are shown are to be closed, because nothing answers them any more.
    package mutating func end() -> [Reaction] {
        defer { (entries, running, arrived) = ([], [:], [:]) }
        return entries.compactMap { entry in
            guard let id = entry.id else { return nil }
            switch entry.subject {
            case .prompt, .transfer: return .close(id)
            case .arrival, .chat, .notice: return nil
            }
        }
    }
}

extension Arrival {
    /// Whether opening the item can start a program.
    fileprivate var startsPrograms: Bool { kind == .file(startsPrograms: true) }
}
