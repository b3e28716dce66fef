package import NearshareBase

/// Unencrypted text chat with peers in radio range. Any device in range can read the texts; names and texts are claims.
/// Which of two peers has connected to the other makes no difference.
package protocol ChatRadio: Sendable {
    /// Advertises a name and connects to peers until the sequence is no longer iterated or the radio ends.
    ///
    /// A second call ends the first one's sequence. The buffer of events is bounded; the oldest are dropped.
    func join(as name: DisplayName) -> AsyncStream<ChatRadioEvent>

    /// Blocks until the peer has received the text. A text that is too long for one value arrives as several.
    func send(_ text: String, to peer: LinkAddress) throws(LinkError)

    /// Closes the link to a peer and does not connect to it again for a minute.
    func disconnect(_ peer: LinkAddress)
}

package enum ChatRadioEvent: Sendable, Hashable {
    /// A link is open: texts can be sent both ways.
    case found(LinkAddress, name: DisplayName?)
    /// An untrusted text of at most 512 bytes: escape it with `TerminalText` before it is shown.
    case text(String, from: LinkAddress)
    case gone(LinkAddress)
}
