internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

extension TransferLabel {
    /// Columns that each of both names keeps beside the other one.
    private static let minimumNameColumns = 6
    /// Columns of the content and of the peer's name in ``desiredWidth``.
    private static let desiredColumns = (content: 10, peer: 20)

    var width: Int { TerminalText.width(of: text) }

    /// Width up to which facts other than the percentage are left out in favour of the label.
    var desiredWidth: Int {
        let contentWidth = min(TerminalText.width(of: content), Self.desiredColumns.content)
        guard let peer else { return contentWidth }
        return contentWidth + TerminalText.width(of: Self.arrow)
            + min(TerminalText.width(of: peer), Self.desiredColumns.peer)
    }

    /// The label of at most a width. The content is cut first, down to half of the label, then the peer's name, and at last the
    /// content is left out.
    func fitted(to columns: Int) -> String {
        guard width > columns else { return text }
        guard let peer else { return TextLayout.middleCut(content, to: columns) }
        let availableColumns = columns - TerminalText.width(of: Self.arrow)
        let contentMinimum = min(TerminalText.width(of: content), max(Self.minimumNameColumns, availableColumns / 2))
        guard availableColumns - contentMinimum >= min(TerminalText.width(of: peer), Self.minimumNameColumns) else {
            return TextLayout.truncated(peer, to: columns)
        }
        let shownPeer = TextLayout.truncated(peer, to: availableColumns - contentMinimum)
        let shownContent = TextLayout.middleCut(content, to: availableColumns - TerminalText.width(of: shownPeer))
        return isIncoming ? shownPeer + Self.arrow + shownContent : shownContent + Self.arrow + shownPeer
    }
}
