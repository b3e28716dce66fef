internal import NearshareBase
internal import NearshareCrypto

/// The first signing key that each peer announced, kept beyond its going: whoever comes back with another is somebody else,
/// until a session proves otherwise (K2).
struct KeyPins {
    private static let capacity = 4096

    private var keys: [PeerID: SigningPublicKey] = [:]
    /// The oldest first.
    private var order: [PeerID] = []

    var count: Int { keys.count }

    subscript(peer: PeerID) -> SigningPublicKey? { keys[peer] }

    /// Keeps the key in place of another that may be there.
    mutating func insert(_ key: SigningPublicKey, of peer: PeerID) {
        guard keys.updateValue(key, forKey: peer) == nil else { return }
        order.append(peer)
        guard order.count > Self.capacity else { return }
        keys[order.removeFirst()] = nil
    }
}
