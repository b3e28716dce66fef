internal import Nearshare

/// Finds among those who are known whom a person means: by id, by fingerprint, by a name.
enum PeerSelection {
    typealias Known = (fingerprint: Fingerprint, entry: TrustStore.Entry)

    static func find(_ text: String, in book: TrustStore) throws -> Known {
        if let found = try findIfKnown(text, in: book) { return found }
        throw CommandFailure(
            .peerNotFound, "\(TerminalText.escaped(text)) is not among the known peers; `nearshare peers` lists them")
    }

    /// - Returns: nil when nobody is meant; it throws when several may be.
    static func findIfKnown(_ text: String, in book: TrustStore) throws -> Known? {
        try matches(text, among: book.entries.map { ($0.key, $0.value.name) }).map { ($0.fingerprint, book[$0.fingerprint]!) }
    }

    /// - Parameter otherwise: said when nobody is meant.
    static func choose(
        _ text: String, among known: [(Fingerprint, DisplayName)], otherwise: String
    ) throws -> (fingerprint: Fingerprint, name: DisplayName) {
        guard let found = try matches(text, among: known) else { throw CommandFailure(.peerNotFound, otherwise) }
        return found
    }

    private static func matches(
        _ text: String, among known: [(Fingerprint, DisplayName)]
    ) throws -> (fingerprint: Fingerprint, name: DisplayName)? {
        let wanted = text.lowercased()
        // The beginning of every name.
        guard !wanted.allSatisfy(\.isWhitespace) else { return nil }
        if let found = known.first(where: { $0.0.hex == wanted || $0.0.peerID.hex == wanted }) { return found }
        var found = known.filter { $0.1.claimed.lowercased() == wanted }
        if found.isEmpty { found = known.filter { $0.1.claimed.lowercased().hasPrefix(wanted) } }
        guard found.count > 1 else { return found.first }
        let list = found.map { "\n  \($0.1.shown)  \($0.0.peerID)" }.sorted().joined()
        throw CommandFailure(
            .peerNotFound, "\(TerminalText.escaped(text)) can mean several peers; say which by its id:\(list)")
    }
}
