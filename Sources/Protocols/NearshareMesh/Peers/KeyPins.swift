internal import NearshareBase
internal import NearshareCrypto

/// The signing key of each peer, kept when the peer leaves: that of a contact, the one that a session has proven, or else the
/// first that was announced (K2).
struct KeyPins: Sendable {
    private struct Pin: Sendable {
        var key: SigningPublicKey
        /// Stated inside a session, so by the owner of the peer's id.
        var isProven: Bool
        /// The link on which it was announced.
        let link: MeshLinkID?
        let number: UInt64
    }

    /// How an announced key relates to the pinned one.
    enum Verdict {
        case accepted
        /// Another key than the peer has proven, or than that of a contact: the announcement is forged.
        case forged
        /// Neither key is proven: one of the two announcements is forged.
        case contested
    }

    private var pins: [PeerID: Pin] = [:]
    private var lastNumber: UInt64 = 0
    /// The signing keys of the user's contacts, who may never have been in range.
    var contacts: [PeerID: SigningPublicKey] = [:]

    var count: Int { pins.count }

    subscript(peer: PeerID) -> SigningPublicKey? { contacts[peer] ?? pins[peer]?.key }

    func isProven(_ peer: PeerID) -> Bool { contacts[peer] != nil || pins[peer]?.isProven == true }

    func verdict(on key: SigningPublicKey, of peer: PeerID) -> Verdict {
        guard let pinned = self[peer], pinned != key else { return .accepted }
        return isProven(peer) ? .forged : .contested
    }

    /// Pins a key, also in place of another.
    /// - Parameter isPresent: peers for which it holds keep their pins.
    mutating func insert(
        _ key: SigningPublicKey, for peer: PeerID, isProven: Bool = false, from link: MeshLinkID? = nil,
        isPresent: (PeerID) -> Bool = { _ in false }
    ) {
        if isProven, contacts[peer] != nil { contacts[peer] = key }
        if let known = pins[peer] {
            pins[peer]?.key = key
            pins[peer]?.isProven = isProven || (known.isProven && known.key == key)
            return
        }
        if pins.count >= Self.capacity { makeRoom(isPresent: isPresent) }
        lastNumber += 1
        pins[peer] = Pin(key: key, isProven: isProven, link: link, number: lastNumber)
    }

    /// Removes the oldest eighth of the pins of the link that brought most, first those that were only announced: all are looked
    /// at once in hundreds of new keys.
    private mutating func makeRoom(isPresent: (PeerID) -> Bool) {
        let absent = Dictionary(grouping: pins.filter { !isPresent($0.key) }, by: \.value.link)
        guard let most = absent.values.max(by: { $0.count < $1.count }) else { return }
        let oldest = most.sorted {
            ($0.value.isProven ? 1 : 0, $0.value.number) < ($1.value.isProven ? 1 : 0, $1.value.number)
        }
        for pin in oldest.prefix(max(1, oldest.count / 8)) { pins[pin.key] = nil }
    }

    /// Limit on pins: more than there are records of peers, so that one without a record can always be removed.
    static let capacity = 4096
}
