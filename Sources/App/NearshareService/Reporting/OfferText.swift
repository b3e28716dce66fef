package import Nearshare

/// The description of an offer for the user.
package enum OfferText {
    /// Limit on the items that are listed.
    private static let maximumListedItems = 10

    static func describe(
        _ invitation: Invitation, from name: DisplayName, digits: ShortAuthenticationDigits?, freeSpace: UInt64?,
        warning: String?
    ) -> String {
        let peer = invitation.peer
        let offer = invitation.offer
        var text = ""
        if let warning { text += "\(warning)\n" }
        // Our own words first: no name can imitate them.
        text += "\(describe(peer.trustStatus)), \(peer.id.hex): \(name.quoted(of: peer.id)) offers:\n"
        for item in offer.items.prefix(maximumListedItems) {
            text += "  \(line(item))\n"
        }
        let more = Int(offer.itemCount) - min(offer.items.count, maximumListedItems)
        if more > 0 { text += "  … and \(more) more\n" }
        var total = "  in all \(offer.totalSize?.asByteCount ?? "an unknown amount")"
        if let freeSpace { total += ", \(freeSpace.asByteCount) free on this machine" }
        text += total + "\n"
        let starters = offer.items.filter { ProgramStarter.isStarter($0.name, claimedType: $0.mediaType.text) }
        if !starters.isEmpty {
            let names = starters.prefix(maximumListedItems).map { quoted($0.name) }.joined(separator: ", ")
            let more = starters.count - min(starters.count, maximumListedItems)
            text += "  careful: \(names)\(more > 0 ? " and \(more) more" : "") can start programs when opened\n"
        }
        if let digits { text += "  short code \(digits): \(name.shown(of: peer.id)) should see the same\n" }
        return text
    }

    /// The lines that fit on a small terminal with the question below them.
    private static let maximumListedEntries = 18

    /// The first entries of the items; nil where the description names all of them.
    static func list(_ offer: Offer, _ contents: [EntryHeader]) -> String? {
        let lines =
            contents.isEmpty
            ? (offer.itemCount > maximumListedItems ? offer.items.prefix(maximumListedEntries).map(line) : [])
            : contents.prefix(maximumListedEntries).map(line)
        guard !lines.isEmpty else { return nil }
        let more = offer.entryCount - min(offer.entryCount, UInt64(lines.count))
        return lines.map { "  \($0)\n" }.joined() + (more > 0 ? "  … and \(more) more\n" : "")
    }

    private static func line(_ entry: EntryHeader) -> String {
        // A slash in a name would look like a folder; it is stored as another character, too.
        let path = entry.path.map { name in
            String(
                String.UnicodeScalarView(
                    String(decoding: name.bytes, as: UTF8.self).unicodeScalars.map { $0 == "/" ? "_" : $0 }))
        }.joined(separator: "/")
        let shown = TerminalText.quoted(path, columns: 58)
        switch entry.kind {
        case .file: return "\(shown)  \(entry.size?.asByteCount ?? "size unknown")"
        case .folder: return "\(shown)/"
        case .link: return "\(shown)  link"
        }
    }

    /// The first item, and the number of the others.
    package static func summary(_ offer: Offer) -> String {
        let first = offer.items.first.map { $0.kind == .text ? "a message" : $0.name.shown } ?? ""
        return offer.itemCount > 1 ? "\(first) and \(offer.itemCount - 1) more" : first
    }

    private static func line(_ item: OfferedItem) -> String {
        let size = item.size?.asByteCount ?? "size unknown"
        switch item.kind {
        case .file: return "\(quoted(item.name))  \(size), \(TerminalText.escaped(item.mediaType.text))"
        case .folder: return "\(quoted(item.name))/  \(size) in \(item.entryCount) entries"
        case .text: return "a message of \(size)"
        }
    }

    private static func quoted(_ name: ClaimedFileName) -> String {
        TerminalText.quoted(String(decoding: name.bytes, as: UTF8.self))
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
