internal import Nearshare

/// This machine, under the texts by which a user may name it. It is none of its own peers, and has no entry among them.
struct OwnPeer: Sendable {
    private let name: DisplayName
    /// nil before this machine has a key.
    private let id: PeerID?

    init(_ node: Node) { (name, id) = (node.name, node.id) }

    /// Reads the files, and generates no key.
    init(of machine: LocalMachine) throws {
        name = try machine.name()
        id = machine.state.hasIdentity ? try machine.state.identity().peerID : nil
    }

    /// Whether the text is the id or the fingerprint of this machine.
    func hasKey(_ text: String) -> Bool {
        let digits = text.lowercased()
        guard let id, let meant = PeerID(hex: digits) ?? Fingerprint(hex: digits)?.peerID else { return false }
        return meant == id
    }

    /// Whether the text is the name of this machine, also with the tag of its key. Another peer may have the name as well.
    private func hasName(_ text: String) -> Bool {
        text == name.claimed || id.map { TaggedName(text)?.matches(name, $0) == true } ?? false
    }

    /// The message about a text that names this machine; nil for another text.
    func message(about text: String) -> String? {
        guard hasKey(text) || hasName(text) else { return nil }
        return "\(TerminalText.escaped(text)) is this machine itself; `nearshare browse` lists others"
    }
}
