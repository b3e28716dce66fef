package import NearshareBase

/// Short texts to and from those in range, over a radio and in the clear: anybody may read them, claim any name, and say anything.
/// Which of two has connected to the other is of no concern here.
package protocol ChatRadio: Sendable {
    /// Is found under a name, finds others, and links to them, until the sequence is no longer iterated or the radio ends.
    ///
    /// There is one at a time: a second call ends the first one's sequence. Of events that nobody takes, the latest are kept.
    func join(as name: DisplayName) -> AsyncStream<ChatRadioEvent>

    /// Blocks until the other side has it. What is too long for one text arrives as several.
    func send(_ text: String, to peer: LinkAddress) throws(LinkError)

    /// Ends the link to a peer, and does not link to it for a minute.
    func disconnect(_ peer: LinkAddress)
}

package enum ChatRadioEvent: Sendable, Hashable {
    /// Linked: texts can go both ways.
    case found(LinkAddress, name: DisplayName?)
    /// A stranger's, of at most 512 bytes, with anything in it: shown through `TerminalText`.
    case text(String, from: LinkAddress)
    case gone(LinkAddress)
}
