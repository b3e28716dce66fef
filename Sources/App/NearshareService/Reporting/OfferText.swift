package import Nearshare

/// The description of an offer for the user.
package enum OfferText {
    /// Limit on the items that are listed.
    private static let maximumListedItems = 10
    /// Items that are listed on a terminal of any height.
    private static let minimumListedItems = 3
    /// Rows below the question: the prompt, for several open questions one row for each.
    private static let promptRowCount = 7
    /// Columns of a line about an item on a small terminal, beside its number in a list.
    private static let lineColumns = 72
    /// Columns of a name of which some is left out.
    private static let nameColumns = 60
    /// Limit on the items that are named because they can start programs.
    private static let maximumListedStarters = 3
    /// Limit on the items in an outline.
    private static let maximumOutlinedItems = 3

    /// - Parameter size: of the terminal, which the question fits together with its prompt: an item takes one row, and the items
    ///   that find no room are counted.
    static func describe(
        _ invitation: Invitation, from name: DisplayName, digits: ShortAuthenticationDigits?,
        receivedSize: UInt64 = 0, freeSpace: UInt64?,
        warning: String?, refusal: String? = nil, size: (columns: Int, rows: Int)
    ) -> String {
        let peer = invitation.peer
        let offer = invitation.offer
        var text = ""
        if let warning { text += "\(warning)\n" }
        if let mixture = mixture(of: peer) { text += "\(mixture)\n" }
        // Our own words first: no name can imitate them.
        text += "\(describe(peer.trustStatus))\(path(of: peer)), \(peer.id.hex): \(name.quoted(of: peer.id)) offers"
        text += "\(invitation.isForEveryone ? " to everyone" : ""):\n"
        var facts = "  \(totalSize(of: offer))"
        if receivedSize > 0 { facts += ", \(receivedSize.formattedByteCount) of it received earlier" }
        if let freeSpace { facts += ", \(freeSpace.formattedByteCount) free on this machine" }
        facts += "\n"
        if let refusal { facts += "  all of it cannot be accepted: \(refusal)\n" }
        if let warning = starterWarning(of: invitation) { facts += "  \(warning)\n" }
        if let note = unlistedNote(of: invitation) { facts += "  \(note)\n" }
        if let certificate = certificate(of: peer) { facts += "  \(certificate)\n" }
        if let digits { facts += "  \(codeLine(digits, name, peer))\n" }
        let availableRows = size.rows - promptRowCount - rowCount(of: text + facts, columns: size.columns)
        let listedCount = min(offer.items.count, maximumListedItems, max(minimumListedItems, availableRows - 1))
        for (number, item) in offer.items.prefix(listedCount).enumerated() {
            let contents = contents(ofItem: number, of: offer, listed: invitation.contents)
            text += "  \(line(item, contents: contents, columns: size.columns - 2))\n"
        }
        let more = Int(offer.itemCount) - listedCount
        if more > 0 { text += "  … and \(more) more; l lists them\n" }
        return text + facts
    }

    /// Limit on the rows of whole lines that are wrapped at words.
    private static func rowCount(of text: String, columns: Int) -> Int {
        text.split(atScalar: "\n").reduce(0) { sum, line in
            let width = TerminalText.width(of: String(line))
            return sum + (width <= columns ? 1 : width / max(1, columns) + 2)
        }
    }

    /// A warning about items, and what the sender lists in them, that can start programs; nil for none.
    private static func starterWarning(of invitation: Invitation) -> String? {
        let offer = invitation.offer
        var starters = offer.items.filter { ProgramStarter.startsProgram([$0.name], claimedType: $0.mediaType.text) }
            .map { quoted($0.name, columns: nameColumns) }
        for entry in invitation.contents where entry.kind == .file && ProgramStarter.startsProgram(entry.path) {
            // An item that is a file is listed as well.
            if entry.path.count == 1, entry.item < UInt32(clamping: offer.items.count) { continue }
            starters.append(quoted(path(of: entry), columns: nameColumns))
        }
        guard !starters.isEmpty else { return nil }
        let names = starters.prefix(maximumListedStarters).joined(separator: ", ")
        let more = starters.count - min(starters.count, maximumListedStarters)
        return "careful: \(names)\(more > 0 ? " and \(more) more" : "") can start programs when opened"
    }

    /// Says that a folder has contents that the sender does not list, or not all of them; nil where all are listed.
    private static func unlistedNote(of invitation: Invitation) -> String? {
        let offer = invitation.offer
        let isUnlisted = offer.items.indices.contains { number in
            offer.items[number].kind == .folder && contents(ofItem: number, of: offer, listed: invitation.contents) == nil
        }
        return isUnlisted ? "the sender does not list all files of a folder: others can be programs" : nil
    }

    /// A warning about the name of a peer that was never met; nil for none (T9).
    private static func mixture(of peer: Peer) -> String? {
        peer.trustStatus.isKnown || !MixedScripts.isFound(in: peer.name.claimed)
            ? nil : "careful: the \(MixedScripts.note), and may imitate another one"
    }

    private static func path(of peer: Peer) -> String {
        switch peer.foreign?.kind {
        case .web: ", through the page for browsers"
        case .localSend: ", with LocalSend"
        case nil: ""
        }
    }

    /// The certificate that a LocalSend device has shown; nil for other peers.
    private static func certificate(of peer: Peer) -> String? {
        guard let device = peer.foreign, device.kind == .localSend else { return nil }
        if let certificate = device.certificate { return "certificate \(CertificateText.short(certificate))" }
        return "no certificate: any device at \(peer.address?.host ?? "its address") could send this"
    }

    private static func codeLine(_ digits: ShortAuthenticationDigits, _ name: DisplayName, _ peer: Peer) -> String {
        // The name of a browser is this program's, and has the digits of its address.
        let name = peer.foreign?.kind == .web ? name.shown(of: peer.id) : name.besideCode(of: peer.id)
        return "short code \(digits): \(name) should see the same"
    }

    /// The question for front ends that show few lines: what decides comes first.
    static func outline(
        _ invitation: Invitation, from name: DisplayName, digits: ShortAuthenticationDigits?, warning: String?,
        refusal: String?
    ) -> PromptQueue.Outline {
        let (peer, offer) = (invitation.peer, invitation.offer)
        var lines = warning.map { [$0] } ?? []
        if let mixture = mixture(of: peer) { lines.append(mixture) }
        lines.append("\(describe(peer.trustStatus))\(path(of: peer)), \(peer.id.hex)")
        if let certificate = certificate(of: peer) { lines.append(certificate) }
        if let digits { lines.append(codeLine(digits, name, peer)) }
        lines += offer.items.prefix(maximumOutlinedItems).enumerated().map { number, item in
            line(item, contents: contents(ofItem: number, of: offer, listed: invitation.contents))
        }
        let more = Int(clamping: offer.itemCount) - min(offer.items.count, maximumOutlinedItems)
        if more > 0 { lines.append("… and \(more) more") }
        if offer.itemCount > 1 { lines.append(totalSize(of: offer)) }
        if let warning = starterWarning(of: invitation) { lines.append(warning) }
        if let note = unlistedNote(of: invitation) { lines.append(note) }
        if let refusal { lines.append("all of it cannot be accepted: \(refusal)") }
        if invitation.isForEveryone { lines.insert("sent to everyone", at: 0) }
        return PromptQueue.Outline(
            title: "accept from \(name.quoted(of: peer.id))?",
            subject: "\(summary(offer)) from \(name.quoted(of: peer.id))", lines: lines, yes: "Accept", no: "Decline",
            conversation: invitation.conversation, peerName: name)
    }

    /// A component of a path in which a slash is another character, as it is stored: it would look like a folder.
    static func shownComponent(_ name: ClaimedFileName) -> String {
        String(
            String.UnicodeScalarView(
                String(decoding: name.bytes, as: UTF8.self).unicodeScalars.map { $0 == "/" ? "_" : $0 }))
    }

    private static func path(of entry: EntryHeader) -> String { entry.path.map(shownComponent).joined(separator: "/") }

    static func line(_ entry: EntryHeader) -> String {
        let shown = quoted(path(of: entry), columns: nameColumns)
        switch entry.kind {
        case .file: return "\(shown)  \(entry.size?.formattedByteCount ?? "size unknown")"
        case .folder: return "\(shown)/"
        case .link: return "\(shown)  link"
        }
    }

    /// The first item, and the number of the others.
    package static func summary(_ offer: Offer) -> String {
        let first = offer.items.first.map { $0.kind == .text ? "a message" : $0.name.shown } ?? ""
        return offer.itemCount > 1 ? "\(first) and \(offer.itemCount - 1) more" : first
    }

    private static func totalSize(of offer: Offer) -> String {
        offer.totalSize.map { "\($0.formattedByteCount) in total" } ?? "total size unknown"
    }

    /// The numbers of entries of each kind.
    package struct EntryCounts {
        private var files: UInt64 = 0
        private var links: UInt64 = 0
        /// With the outermost one.
        private var folders: UInt64 = 0

        package init() {}

        package mutating func add(_ kind: EntryHeader.Kind) {
            switch kind {
            case .file: files += 1
            case .folder: folders += 1
            case .link: links += 1
            }
        }

        /// Such as "3 files and 1 link in 2 folders".
        package var text: String {
            var parts = files > 0 || links == 0 ? [files == 0 ? "no files" : "\(files) \(files == 1 ? "file" : "files")"] : []
            if links > 0 { parts.append("\(links) \(links == 1 ? "link" : "links")") }
            return parts.joined(separator: " and ") + (folders > 1 ? " in \(folders) folders" : "")
        }
    }

    /// The numbers of files and folders of an item that the sender has listed whole; nil for another one.
    private static func contents(ofItem number: Int, of offer: Offer, listed: [EntryHeader]) -> String? {
        let entries = listed.filter { $0.item == UInt32(number) }
        guard UInt64(entries.count) == offer.items[number].entryCount else { return nil }
        var counts = EntryCounts()
        for entry in entries { counts.add(entry.kind) }
        return counts.text
    }

    /// - Parameters:
    ///   - contents: of a folder; nil where it is not known.
    ///   - columns: limit on the width, from 40 on.
    static func line(_ item: OfferedItem, contents: String? = nil, columns: Int = lineColumns) -> String {
        let size = item.size?.formattedByteCount ?? "size unknown"
        let (name, facts): (String, String)
        switch item.kind {
        case .text: return "a message of \(size)"
        case .file: (name, facts) = (String(decoding: item.name.bytes, as: UTF8.self), "  \(size), ")
        case .folder:
            (name, facts) = (
                String(decoding: item.name.bytes, as: UTF8.self),
                "/  \(size), \(contents ?? "\(item.entryCount) files and folders")"
            )
        }
        let availableColumns = columns - facts.count
        guard item.kind == .file else { return quoted(name, columns: availableColumns) + facts }
        // A long type leaves a part of the row to the name, and the name all to a short one.
        let typeColumns = availableColumns - min(TerminalText.width(of: TerminalText.quoted(name)), columns / 2)
        let type = TerminalText.escaped(item.mediaType.text, columns: max(8, typeColumns))
        return quoted(name, columns: availableColumns - TerminalText.width(of: type)) + facts + type
    }

    private static func quoted(_ name: ClaimedFileName, columns: Int) -> String {
        quoted(String(decoding: name.bytes, as: UTF8.self), columns: columns)
    }

    /// A name in quotation marks, with its middle left out where it is wider.
    private static func quoted(_ name: String, columns: Int) -> String {
        let limit = max(8, columns - 2)
        let shown = TerminalText.quoted(middleCut: name, columns: limit)
        // Quotation marks inside take two columns.
        return TerminalText.width(of: shown) <= limit + 2 ? shown : TerminalText.quoted(middleCut: name, columns: limit / 2)
    }

    package static func describe(_ status: TrustStatus) -> String {
        switch status {
        case .new: "new here"
        case .known(.blocked, _): "blocked"
        case .known(.verified, isFriend: true): "a verified friend"
        case .known(_, isFriend: true): "a friend"
        case .known(.verified, _): "verified"
        case .known(.seen, _): "seen before, not verified"
        case .nameClash: "KNOWN NAME, OTHER KEY"
        }
    }
}
