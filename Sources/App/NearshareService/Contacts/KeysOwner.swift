internal import Nearshare

/// The owner that the user names for the keys in a file.
enum KeysOwner: Equatable {
    /// A known peer with this key.
    case known(TrustStore.Entry)
    /// A name for a new key.
    case new(DisplayName)

    /// The reason why the keys do not belong to the named owner.
    enum Mismatch: Error, Equatable {
        /// The name belongs to another peer, or the id differs.
        case other(PeerID, known: PeerID, as: DisplayName?)
        /// The key is known under another name.
        case knownAs(DisplayName, PeerID)
        case blocked(DisplayName)
        case noName

        func sentence(about file: String) -> String {
            switch self {
            case .other(let id, let known, let name?):
                "\(file) holds the keys of \(id), but \(name.shown) is \(known); if the keys have changed, "
                    + "run `nearshare peers forget \(known)` first"
            case .other(let id, let known, nil): "\(file) holds the keys of \(id), not those of \(known)"
            case .knownAs(let name, let id):
                "\(file) holds the keys of \(name.identified(by: id)); use --for \(id), or rename the peer (`nearshare peers rename`)"
            case .blocked(let name): "\(name.shown) is blocked; `nearshare peers unblock` comes first"
            case .noName: "a new name must have 1 to 63 bytes and a visible character"
            }
        }
    }

    /// - Parameters:
    ///   - text: the owner as named by the user: a name, an id or a fingerprint.
    ///   - fingerprint: the fingerprint of the key in the file.
    ///   - claimed: the name in the file.
    init(
        named text: String, of fingerprint: Fingerprint, claiming claimed: DisplayName, in trust: TrustStore
    ) throws(Mismatch) {
        let id = fingerprint.peerID
        let entry = trust[fingerprint]
        if let entry, entry.trust == .blocked { throw .blocked(entry.name) }
        let name: DisplayName
        if let namedID = PeerID(hex: text) ?? Fingerprint(hex: text)?.peerID {
            guard namedID == id, Fingerprint(hex: text).map({ $0 == fingerprint }) ?? true else {
                throw .other(id, known: namedID, as: nil)
            }
            if let entry {
                self = .known(entry)
                return
            }
            name = claimed
        } else {
            let wanted = text.lowercased()
            let named = trust.entries.filter { $0.value.name.claimed.lowercased() == wanted }
            if let entry, named[fingerprint] != nil {
                self = .known(entry)
                return
            }
            if let other = named.min(by: { $0.key.hex < $1.key.hex }) {
                throw .other(id, known: other.key.peerID, as: other.value.name)
            }
            if let entry { throw .knownAs(entry.name, id) }
            guard let given = try? DisplayName(text) else { throw .noName }
            name = given
        }
        // A name that merely looks like that of another peer is rejected as well.
        if case .nameClash(let owner) = trust.trustStatus(of: fingerprint, claiming: name) {
            throw .other(id, known: owner.peerID, as: trust[owner]?.name ?? name)
        }
        self = .new(name)
    }
}
