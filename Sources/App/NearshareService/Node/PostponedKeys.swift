internal import Nearshare

/// Peers whose announced keys wait for the next time that the address book may be replaced (R14). Only peers in range are kept,
/// whose number the table of the mesh bounds, so that a flood of keys that come and go displaces no other peer.
struct PostponedKeys: Sendable {
    private(set) var owners: Set<PeerID> = []

    /// Adds the peers whose keys may have changed.
    /// - Parameter isAnnounced: whether a peer is in range and has announced its keys.
    mutating func add(_ changed: Set<PeerID>, where isAnnounced: (PeerID) -> Bool) {
        owners = owners.union(changed).filter(isAnnounced)
    }

    /// Records that the keys of all owners are stored.
    mutating func removeAll() { owners = [] }
}
