internal import Nearshare

/// Finds in the trust book whom a person means: by id, by fingerprint, by a name.
enum PeerSelection {
    static func find(_ text: String, in book: TrustBook) throws -> (fingerprint: Fingerprint, entry: TrustBook.Entry) {
        let wanted = text.lowercased()
        let all = book.entries.map { (fingerprint: $0.key, entry: $0.value) }
        let byKey = all.filter { $0.fingerprint.hex == wanted || $0.fingerprint.peerID.hex == wanted }
        if let found = byKey.first { return found }
        func matches(_ test: (String) -> Bool) -> [(fingerprint: Fingerprint, entry: TrustBook.Entry)] {
            all.filter { test($0.entry.name.claimed.lowercased()) }
        }
        var found = matches { $0 == wanted }
        if found.isEmpty { found = matches { $0.hasPrefix(wanted) } }
        if found.count == 1 { return found[0] }
        let shown = TerminalText.escaped(text)
        guard !found.isEmpty else {
            throw CommandFailure(.peerNotFound, "\(shown) is not among the known peers; `nearshare peers` lists them")
        }
        let list = found.map { "\n  \($0.entry.name.shown)  \($0.fingerprint.peerID)" }.sorted().joined()
        throw CommandFailure(.peerNotFound, "\(shown) can mean several peers; say which by its id:\(list)")
    }
}
