internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

extension ChatScreen {
    /// Rows and columns of the parts of the screen.
    private struct Layout {
        var hasBar: Bool
        var hasNearbyLine: Bool
        var hasStatus: Bool
        /// Size of the conversation.
        var columns: Int
        var rows: Int
        /// Columns of the list beside it; 0 without one.
        var sideColumns: Int
    }

    private static let maximumSideColumns = 24
    private static let columnsForSide = 100
    private static let maximumNameColumns = 20
    /// Number of columns from which each item shows its time.
    private static let columnsForTime = 30
    /// Number of columns from which the state of the conversation is a sentence.
    private static let columnsForSentence = 64

    private func layout(inputRows: Int) -> Layout {
        let sideColumns = columns >= Self.columnsForSide ? Self.maximumSideColumns : 0
        var layout = Layout(
            hasBar: rows >= 3, hasNearbyLine: sideColumns == 0 && rows >= 10, hasStatus: rows >= 4,
            columns: columns - sideColumns, rows: 0, sideColumns: sideColumns)
        layout.rows = max(
            0, rows - inputRows - (layout.hasBar ? 1 : 0) - (layout.hasNearbyLine ? 1 : 0) - (layout.hasStatus ? 1 : 0))
        return layout
    }

    /// Number of rows by which a page is reckoned: the visible ones of the conversation, at least 2, so that a page moves.
    var viewRows: Int { max(2, layout(inputRows: input().rows.count).rows) }

    /// The size of a terminal that shows all of a QR code, with the other parts of the screen around it.
    func terminalSize(for code: QRCode) -> TerminalSize {
        let inputRows = input().rows.count
        let sideColumns = max(columns, code.columns) >= Self.columnsForSide ? Self.maximumSideColumns : 0
        let barRows = sideColumns == 0 ? 3 : 2
        return TerminalSize(columns: code.columns + sideColumns, rows: code.rowCount + barRows + inputRows)
    }

    func render() -> ScreenFrame {
        let input = input()
        let layout = layout(inputRows: input.rows.count)
        var lines: [StyledLine] = []
        if layout.hasBar { lines.append(bar()) }
        if layout.hasNearbyLine { lines.append(nearbyLine()) }
        var visible = visibleRows(layout.rows, columns: layout.columns)
        // A short conversation is aligned to the bottom.
        visible = Array(repeating: StyledLine(), count: layout.rows - visible.count) + visible
        if layout.sideColumns > 0 {
            let near = nearbyColumn(rows: layout.rows, columns: layout.sideColumns)
            for index in visible.indices { visible[index].append(near[index], at: layout.columns) }
        }
        lines += visible
        if layout.hasStatus { lines.append(statusLine()) }
        let inputStart = lines.count
        lines += input.rows
        lines = lines.prefix(rows).map { $0.truncated(to: columns) }
        lines += Array(repeating: StyledLine(), count: rows - lines.count)
        return ScreenFrame(
            lines: lines, cursorRow: min(rows - 1, inputStart + input.cursor.row),
            cursorColumn: min(columns - 1, input.cursor.column))
    }

    // MARK: Names

    /// The shown name of a peer, escaped for a terminal.
    func name(of peer: PeerID, columns: Int = maximumNameColumns) -> String {
        // A contact without a name has its id.
        let known = contacts[peer].flatMap { $0.name.claimed == peer.hex ? nil : $0.name }
        guard let claimed = known ?? latestClaimedName(of: peer) else { return peer.hex }
        // Any peer, also a trusted one, may claim the user's own name: its id is shown then. Compared as the user sees both.
        if let own = settings.ownName, own.shown.lowercased() == claimed.shown.lowercased() {
            return claimed.shown(of: peer, columns: columns, isTagged: true)
        }
        return SharedName.shown(claimed, of: peer, among: contacts.values, columns: columns)
    }

    private func latestClaimedName(of peer: PeerID) -> DisplayName? {
        let view = views.view(of: .peer(peer))
        for item in view?.items.reversed() ?? [] {
            if case .message(let message) = item.content, message.author == peer, let name = message.authorName { return name }
        }
        return view?.claimedName
    }

    func title(of view: ConversationView) -> String {
        switch view.conversation {
        case .peer(let peer)?: name(of: peer)
        case .publicRoom?: "everyone"
        case nil: view.lookup.map { "\(TerminalText.escaped($0.name, columns: Self.maximumNameColumns))?" } ?? "nearshare chat"
        }
    }

    /// Peers nearby and friends: peers nearby first, sorted by name.
    var listed: [Contact] {
        contacts.values.filter { ($0.isNear || $0.isFriend) && !$0.trustStatus.isBlocked }.sorted {
            ($0.isNear ? 0 : 1, $0.name.claimed.lowercased(), $0.id.hex) < (
                $1.isNear ? 0 : 1, $1.name.claimed.lowercased(), $1.id.hex
            )
        }
    }

    // MARK: Bars

    /// The tabs of the conversations. When not all fit, the tabs around the visible one.
    private func bar() -> StyledLine {
        var tabs = views.indices.map { index -> StyledLine in
            let view = views[index]
            var text = "\(index + 1) \(title(of: view))"
            if view.unreadCount > 0 { text += " (\(view.unreadCount))" }
            let style =
                index == views.visibleIndex
                ? TextStyle(isBold: true, isReversed: true)
                : view.unreadCount > 0 ? TextStyle(color: .yellow, isBold: true) : .plain
            return StyledLine(index == views.visibleIndex ? "[\(text)]" : " \(text) ", style)
        }
        if views.visibleIndex == nil {
            tabs.insert(StyledLine("[\(title(of: views.visible))]", TextStyle(isBold: true, isReversed: true)), at: 0)
        }
        let chosen = views.visibleIndex ?? 0
        var first = chosen
        var last = chosen
        var width = tabs[chosen].width
        // One column at each end is left for a sign that there are more.
        while true {
            if last + 1 < tabs.count, width + tabs[last + 1].width <= columns - 2 {
                last += 1
                width += tabs[last].width
            } else if first > 0, width + tabs[first - 1].width <= columns - 2 {
                first -= 1
                width += tabs[first].width
            } else {
                break
            }
        }
        var line = StyledLine()
        if first > 0 { line.append("<", .warning) }
        for tab in tabs[first...last] { line.append(tab) }
        // A hidden conversation may have unread lines.
        if last < tabs.count - 1 { line.append(">", .warning) }
        return line
    }

    private func nearbyLine() -> StyledLine {
        let near = listed.filter(\.isNear)
        guard !near.isEmpty else {
            return network == .absent
                ? StyledLine("this machine has no network", .warning) : StyledLine("no peers nearby", .dim)
        }
        var line = StyledLine("nearby: ", .dim)
        for (index, contact) in near.enumerated() {
            let name = (index > 0 ? ", " : "") + self.name(of: contact.id)
            let left = near.count - index
            // 10 columns are left for the number of those that do not fit.
            guard line.width + TerminalText.width(of: name) + 10 <= columns || left == 1 else {
                line.append("\(index > 0 ? ", " : "")\(left) more", .dim)
                break
            }
            line.append(name, Self.style(of: contact))
        }
        return line
    }

    private func nearbyColumn(rows: Int, columns: Int) -> [StyledLine] {
        let all = listed
        let near = all.filter(\.isNear).map {
            StyledLine(TextLayout.truncated(name(of: $0.id), to: columns - 2), Self.style(of: $0))
        }
        let away = all.filter { !$0.isNear }.map { StyledLine(name(of: $0.id), .dim) }
        let nobody = network == .absent ? StyledLine("no network", .warning) : StyledLine("no peers", .dim)
        var lines = [StyledLine("nearby", .bold)] + (near.isEmpty ? [nobody] : near)
        if !away.isEmpty { lines += [StyledLine(), StyledLine("friends away", .dim)] + away }
        if lines.count > rows, rows > 0 {
            // Neither a heading nor the blank row counts as a peer.
            let awayCount = min(away.count, lines.count - rows + 1)
            let nearCount = max(0, near.count - max(0, rows - 2))
            lines = lines.prefix(rows - 1) + [StyledLine("\(awayCount + nearCount) more", .dim)]
        }
        lines += Array(repeating: StyledLine(), count: max(0, rows - lines.count))
        return lines.map { line in
            var beside = StyledLine(settings.hasUTF8 ? "│ " : "| ", .dim)
            beside.append(line.truncated(to: columns - 2))
            return beside
        }
    }

    private static func style(of contact: Contact) -> TextStyle {
        switch contact.trustStatus {
        case .nameClash: .failure
        case .known(.verified, _): TextStyle(color: .green)
        default: .plain
        }
    }

    private func statusLine() -> StyledLine {
        var line = StyledLine()
        let view = views.visible
        let isNarrow = columns < Self.columnsForSentence
        switch view.conversation {
        case nil where view.lookup?.isRunning == true:
            let name = TerminalText.escaped(view.lookup?.name ?? "", columns: 40)
            line.append("looking for \(name)…", .warning)
            if !isNarrow { line.append(" messages wait until the peer is found", .warning) }
        case nil where view.lookup?.isWaiting == true:
            line.append("\(TerminalText.escaped(view.lookup?.name ?? "", columns: isNarrow ? 20 : 40)) is not near", .warning)
            line.append(isNarrow ? ": lines wait" : ": messages wait until the peer is found", .warning)
        case nil where view.lookup != nil: line.append("not found; try /chat NAME", .warning)
        case nil:
            let commands = "/chat NAME opens a conversation, /help lists commands, Ctrl-C quits"
            line.append(isNarrow ? "/chat NAME, /help; Ctrl-C quits" : commands, .dim)
        case .publicRoom?: line.append("everyone in range can read this", .warning)
        case .peer(let peer)?:
            let contact = contacts[peer]
            let nameColumns = isNarrow ? max(4, min(columns / 3, Self.maximumNameColumns)) : Self.maximumNameColumns
            line.append(name(of: peer, columns: nameColumns), .bold)
            // Before the rest, because the end of the line may be cut off.
            if case .nameClash? = contact?.trustStatus {
                line.append(
                    isNarrow ? "  KEY CHANGED: /verify " : "  THE KEY HAS CHANGED, compare it first: /verify ",
                    TextStyle(color: .red, isBold: true))
            }
            if contact?.trustStatus.isBlocked == true {
                line.append(isNarrow ? " is blocked" : " is blocked: nothing is sent or received before /unblock", .failure)
            } else if contact?.isNear == true {
                line.append(" is near", TextStyle(color: .green))
            } else {
                line.append(isNarrow ? " is away" : " is away: messages wait until the peer is near", .warning)
            }
            switch contact?.trustStatus {
            case .known(.verified, let isFriend)?:
                let text = "  verified friend"
                let isWhole = isFriend && line.width + TerminalText.width(of: text) <= columns
                line.append(isWhole ? text : "  verified", TextStyle(color: .green))
            case .known(.seen, isFriend: true)?: line.append("  friend", TextStyle(color: .green))
            default: break
            }
        }
        if let lifetime = view.lifetime {
            let text = "  lines stay \(lifetime.text)"
            if line.width + TerminalText.width(of: text) <= columns { line.append(text, .dim) }
        }
        if view.position != .end {
            let isAsked = offers.open.contains { view.offersBelow.contains($0.number) }
            let news = view.newBelowCount > 0 ? "\(view.newBelowCount) new below" : "Page Down for newer"
            let more = isAsked ? "a question below" : news
            let text = "  [\(more)]"
            let width = TerminalText.width(of: text)
            line = line.truncated(to: max(0, columns - width))
            line.append(text, TextStyle(isBold: true, isReversed: true))
        } else if let question = offers.open.first(where: { isAskedElsewhere($0) }),
            let index = question.conversation.flatMap(views.index(of:))
        {
            let text = "  [a question in \(index + 1) \(title(of: views[index]))]"
            line = line.truncated(to: max(0, columns - TerminalText.width(of: text)))
            line.append(text, TextStyle(isBold: true, isReversed: true))
        } else if isCodeExplanationHidden {
            let text = "  [Page Up: the link, and what to do]"
            line = line.truncated(to: max(0, columns - TerminalText.width(of: text)))
            line.append(text, TextStyle(isBold: true, isReversed: true))
        } else if view.history.isLoading {
            line.append("  …", .dim)
        }
        return line
    }

    /// Whether a QR code at the end of the visible view leaves no room for the two notices before it, which explain it.
    private var isCodeExplanationHidden: Bool {
        let view = views.visible
        guard view.position == .end, case .qrCode? = view.items.last?.content else { return false }
        let layout = layout(inputRows: input().rows.count)
        guard let top = rowsAbove(from: .end, layout.rows, columns: layout.columns).last else { return false }
        let explanation = view.items.count - 3
        return top.item > explanation || (top.item == explanation && top.index > 0)
    }

    /// Whether a question belongs to a conversation that is not visible. The start page has those of all.
    func isAskedElsewhere(_ question: OpenPrompt) -> Bool {
        views.visibleIndex != nil && question.conversation != nil && question.conversation != views.visible.conversation
    }

    // MARK: Input line

    private func input() -> (rows: [StyledLine], cursor: (row: Int, column: Int)) {
        // The public room has a prompt of its own, so that the user does not write there by mistake.
        let prompt = views.visible.conversation == .publicRoom && columns >= 24 ? "to everyone> " : "> "
        let width = max(2, columns - prompt.count - 1)
        var rows = [""]
        var used = 0
        var cursor = (row: 0, column: 0)
        let editor = views.visible.editor
        for (index, character) in editor.characters.enumerated() {
            if index == editor.cursor { cursor = (rows.count - 1, used) }
            if character == "\n" {
                rows.append("")
                used = 0
                continue
            }
            let shown = character == "\\" ? "\\" : TerminalText.escaped(String(character), columns: width)
            let columns = TerminalText.width(of: shown)
            if used + columns > width {
                rows.append("")
                used = 0
                if index == editor.cursor { cursor = (rows.count - 1, 0) }
            }
            rows[rows.count - 1] += shown
            used += columns
        }
        if editor.cursor == editor.characters.count { cursor = (rows.count - 1, used) }
        let height = max(1, min(6, self.rows / 3))
        let first = max(0, min(cursor.row - height / 2, rows.count - height))
        let lines = rows.indices.dropFirst(first).prefix(height).map { index in
            var line = StyledLine(index == 0 ? prompt : String(repeating: " ", count: prompt.count), .bold)
            line.append(rows[index])
            return line
        }
        return (Array(lines), (cursor.row - first, cursor.column + prompt.count))
    }

    // MARK: Items

    /// The rows at the scroll position, at most `count`.
    private func visibleRows(_ count: Int, columns: Int) -> [StyledLine] {
        rowsAbove(from: views.visible.position, count, columns: columns).reversed().map(\.line)
    }

    /// A row of the screen: the index of its item in the view, and its own in the item.
    private struct Row {
        var item: Int
        var index: Int
        var line: StyledLine
    }

    /// The rows from a position upwards, the lowest first.
    private func rowsAbove(from position: ConversationView.Position, _ count: Int, columns: Int) -> [Row] {
        let view = views.visible
        var found: [Row] = []
        var item = view.items.count - 1
        var limit = Int.max
        if case .row(let serial, let index) = position, let place = view.items.firstIndex(where: { $0.serial == serial }) {
            item = place
            limit = index + 1
        }
        while item >= 0, found.count < count {
            let lines = lines(of: item, in: view, columns: columns).prefix(limit)
            limit = .max
            for index in lines.indices.reversed() where found.count < count {
                found.append(Row(item: item, index: index, line: lines[index]))
            }
            item -= 1
        }
        return found
    }

    /// Scrolls up by a number of rows, or down by a negative number; the screen stays full.
    mutating func move(by distance: Int) {
        let layout = layout(inputRows: input().rows.count)
        let view = views.visible
        if distance > 0 {
            let above = rowsAbove(from: view.position, distance + layout.rows, columns: layout.columns)
            let moved = min(distance, above.count - layout.rows)
            guard moved > 0, moved < above.count else { return }
            views.visible.position = .row(serial: view.items[above[moved].item].serial, index: above[moved].index)
        } else if case .row(let serial, let index) = view.position {
            var left = -distance
            var row = index
            guard var item = view.items.firstIndex(where: { $0.serial == serial }) else {
                views.visible.position = .end
                return
            }
            // The terminal may have become wider since, and the item lower.
            row = max(0, min(row, lines(of: item, in: view, columns: layout.columns).count - 1))
            while true {
                let last = lines(of: item, in: view, columns: layout.columns).count - 1
                if row + left <= last {
                    let isEnd = item == view.items.count - 1 && row + left == last
                    views.visible.position = isEnd ? .end : .row(serial: view.items[item].serial, index: row + left)
                    return
                }
                left -= last - row + 1
                row = 0
                item += 1
                guard item < view.items.count else {
                    views.visible.position = .end
                    return
                }
            }
        }
    }

    /// Whether the first row is visible.
    var isAtTop: Bool {
        let layout = layout(inputRows: input().rows.count)
        return rowsAbove(from: views.visible.position, layout.rows + 1, columns: layout.columns).count <= layout.rows
    }

    /// The rows of an item, below a row with its day where the item before is of another day, or there is none.
    func lines(of index: Int, in view: ConversationView, columns: Int) -> [StyledLine] {
        let item = view.items[index]
        let time = settings.localTime(item.when)
        var lines: [StyledLine] = []
        if index == 0 || settings.localTime(view.items[index - 1].when).day != time.day {
            let rule = settings.hasUTF8 ? "──" : "--"
            lines.append(StyledLine("\(rule) \(time.day) \(rule)", .dim))
        }
        switch item.content {
        case .message(let message): lines += messageLines(message, time, view, columns: columns)
        case .notice(let text, _): lines += noticeLines(text, time, columns: columns)
        case .file(let file): lines += noticeLines(file.sentence, time, columns: columns)
        case .qrCode(let rows):
            lines += rows.map { StyledLine($0, settings.hasColor ? .blackOnWhite : .plain) }
        case .transfer(let transfer):
            let head = StyledLine("\(time.clock) ", .dim)
            lines += block(head, Self.sentence(transfer), isEscaped: true, .dim, columns: columns)
        }
        return lines
    }

    private func noticeLines(_ text: String, _ time: LocalTime, columns: Int) -> [StyledLine] {
        // A narrow screen has no room for the time.
        let head = StyledLine(columns >= Self.columnsForTime ? "\(time.clock) * " : "* ", .dim)
        return block(head, text, isEscaped: true, .dim, columns: columns)
    }

    private func messageLines(
        _ message: ChatMessage, _ time: LocalTime, _ view: ConversationView, columns: Int
    ) -> [StyledLine] {
        var head = StyledLine()
        if columns >= Self.columnsForTime { head.append("\(time.clock) ", .dim) }
        if let author = message.author {
            let limit = columns < 40 ? max(4, columns / 3) : Self.maximumNameColumns
            let name =
                message.conversation == .publicRoom
                ? nickname(message, author, columns: limit) : self.name(of: author, columns: limit)
            head.append("\(name): ", TextStyle(color: Self.color(of: author), isBold: true))
        } else {
            head.append("you: ", .bold)
        }
        var lines = block(head, message.text, .plain, columns: columns)
        if let written = message.written {
            let words = settings.localTime(written).text(of: "written", beside: time)
            append(mark: StyledLine("(\(words))", .dim), to: &lines, columns: columns)
        }
        if message.isLocal { append(mark: deliveryMark(message, view), to: &lines, columns: columns) }
        return lines
    }

    /// The name with a prefix of the key's id: in the public room any peer can claim any name.
    private func nickname(_ message: ChatMessage, _ author: PeerID, columns: Int) -> String {
        let claimed = message.authorName ?? contacts[author]?.name
        return claimed?.shown(of: author, columns: columns, isTagged: true) ?? "unknown#\(author.hex.prefix(4))"
    }

    private static func color(of peer: PeerID) -> TextStyle.Color {
        // Green means verified.
        let colors: [TextStyle.Color] = [.cyan, .magenta, .blue]
        return colors[Int(peer.bytes[0]) % colors.count]
    }

    /// The delivery mark of a message.
    func deliveryMark(_ message: ChatMessage, _ view: ConversationView) -> StyledLine {
        let usesSigns = settings.hasUTF8 && settings.hasColor
        let reason = view.reasons[message.id].map { ": " + TerminalText.sanitized($0, columns: 200) } ?? ""
        switch message.status {
        case .waiting: return StyledLine((usesSigns && reason.isEmpty ? "·" : "waiting") + reason, .dim)
        case .sent: return StyledLine(usesSigns ? "✓" : "sent", .dim)
        case .delivered: return StyledLine(usesSigns ? "✓✓" : "delivered", .dim)
        case .read: return StyledLine(usesSigns ? "✓✓" : "read", TextStyle(color: .cyan, isBold: usesSigns))
        case .failed: return StyledLine("not sent\(reason)", .failure)
        }
    }

    /// Appends a mark to the last row, or below it where it does not fit.
    private func append(mark: StyledLine, to lines: inout [StyledLine], columns: Int) {
        guard let last = lines.last, let span = mark.spans.first else { return }
        if last.width + 1 + mark.width <= columns {
            lines[lines.count - 1].append(" ")
            lines[lines.count - 1].append(span.text, span.style)
        } else {
            for row in TextLayout.wrap(span.text, firstColumns: max(2, columns - 6), columns: max(2, columns - 6)) {
                var line = StyledLine(String(repeating: " ", count: min(6, max(0, columns - 8))))
                line.append(row, span.style)
                lines.append(line)
            }
        }
    }

    /// A text behind a heading, with further rows indented.
    private func block(
        _ head: StyledLine, _ text: String, isEscaped: Bool = false, _ style: TextStyle, columns: Int
    ) -> [StyledLine] {
        let indent = columns < 30 ? 2 : min(6, head.width)
        let room = columns - head.width
        // A heading that leaves no room gets a row of its own.
        let isAlone = room < 8 && head.width > indent
        let rest = max(2, columns - indent)
        let rows = TextLayout.rows(
            of: text, isEscaped: isEscaped, firstColumns: isAlone ? rest : max(2, room), columns: rest)
        var lines: [StyledLine] = isAlone ? [head] : []
        for (index, row) in rows.enumerated() {
            var line = index == 0 && !isAlone ? head : StyledLine(String(repeating: " ", count: indent))
            line.append(row, style)
            lines.append(line)
        }
        return lines
    }

    /// The state of a transfer, escaped for a terminal.
    static func sentence(_ transfer: TransferStatus) -> String {
        let name = NameText.shown(transfer.name)
        let size = transfer.total.map { " of \($0.formattedByteCount)" } ?? ""
        let what = transfer.isIncoming ? "receiving \(name)" : "sending \(name)"
        switch transfer.outcome {
        case nil:
            guard transfer.done > 0 else { return "\(what)…" + (transfer.detail.map { " (\($0))" } ?? "") }
            let percentage = transfer.total.map { ProgressText.percentage(transfer.done, of: $0) }
            return "\(what): \(ProgressText.byteCounts(transfer.done, of: transfer.total))"
                + (percentage.map { ", \($0)%" } ?? "")
        case .completed?:
            let detail = transfer.detail.map { "; \($0)" } ?? ""
            return transfer.isIncoming ? "received \(name)\(size)" : "sent \(name)\(size)\(detail)"
        case UnsealedConfirmation.missingEncryption? where !transfer.isIncoming:
            return "\(name): the app takes no private files; `/send --allow-unencrypted` sends it readable by all who relay it"
        case let outcome?:
            // The description of an interruption is advice for the sender.
            let reason = transfer.detail ?? (outcome == .interrupted ? outcome.word : outcome.description)
            return "not \(transfer.isIncoming ? "received" : "sent"): \(name): \(reason)"
        }
    }
}
