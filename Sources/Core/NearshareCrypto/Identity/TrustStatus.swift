public import NearshareBase

/// The local user's decision about a peer's key.
public enum TrustLevel: String, Sendable, Hashable, Codable {
    /// The key was pinned: at the first accepted transfer in either direction, or because the user imported it.
    case seen
    /// Both users have compared the short authentication string.
    case verified
    /// The user has blocked the key.
    case blocked
}

/// The trust in a peer, looked up by its key and the name that it claims.
public enum TrustStatus: Sendable, Hashable, Codable {
    /// The key is not known.
    case new
    /// The key is known.
    case known(TrustLevel, isFriend: Bool)
    /// The claimed name belongs to another known key. Such a peer is reported, and needs the user's consent (K2).
    case nameClash(knownAs: Fingerprint)

    /// Whether the user has made the peer a friend and has not blocked it.
    public var isFriend: Bool { if case .known(let trust, isFriend: true) = self { trust != .blocked } else { false } }
    /// Whether the user has blocked the key.
    package var isBlocked: Bool { if case .known(.blocked, _) = self { true } else { false } }
    /// Whether the user has met the peer before, and has not blocked it.
    package var isKnown: Bool { if case .known = self { !isBlocked } else { false } }
    /// Whether both users have compared the short authentication string.
    package var isVerified: Bool { if case .known(.verified, _) = self { true } else { false } }

    /// One word for users and JSON events: new, seen, verified, friend, blocked, changed.
    package var label: String {
        switch self {
        case .new: "new"
        case .known(.blocked, _): "blocked"
        case .known(_, isFriend: true): "friend"
        case .known(.verified, _): "verified"
        case .known(.seen, _): "seen"
        case .nameClash: "changed"
        }
    }

    /// The words for lists: the label, and whether a friend is verified.
    package var listText: String { self == .known(.verified, isFriend: true) ? "friend, verified" : label }
}
