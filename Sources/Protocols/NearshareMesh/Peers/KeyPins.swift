internal import NearshareBase
internal import NearshareCrypto

/// The first signing key that each peer announced, kept when the peer leaves: one that returns with another key is an impostor,
/// until a session authenticates it (K2).
struct KeyPins: Sendable {
    private var keys: [PeerID: SigningPublicKey] = [:]
    /// The oldest first.
    private var order: [PeerID] = []

    var count: Int { keys.count }

    subscript(peer: PeerID) -> SigningPublicKey? { keys[peer] }

    /// Pins a key, also in place of another.
    mutating func insert(_ key: SigningPublicKey, for peer: PeerID) {
        guard keys.updateValue(key, forKey: peer) == nil else { return }
        order.append(peer)
        guard order.count > Self.capacity else { return }
        keys[order.removeFirst()] = nil
    }

    static let capacity = 4096
}
