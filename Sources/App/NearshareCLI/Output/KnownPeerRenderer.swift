internal import Nearshare
internal import NearshareService

/// Renders the peers of the address book as rows and as JSON.
enum KnownPeerRenderer {
    typealias KnownPeer = (fingerprint: Fingerprint, entry: TrustStore.Entry)

    /// The peers by name.
    static func sorted(_ entries: some Sequence<(key: Fingerprint, value: TrustStore.Entry)>) -> [KnownPeer] {
        entries.map { (fingerprint: $0.key, entry: $0.value) }
            .sorted {
                ($0.entry.name.claimed.lowercased(), $0.fingerprint.hex) < (
                    $1.entry.name.claimed.lowercased(), $1.fingerprint.hex
                )
            }
    }

    /// Name, id, `trust`, and the name that the peer claims where the user has given another one.
    static func row(_ peer: KnownPeer, trust: String) -> [String] {
        [
            peer.entry.name.shown, peer.fingerprint.peerID.hex, trust,
            peer.entry.givenName == nil ? "" : "calls itself \(peer.entry.claimedName.shown)",
        ]
    }

    /// The members that all events about a known peer have.
    static func jsonMembers(_ peer: KnownPeer) -> [String: JSONValue] {
        [
            "fingerprint": .string(peer.fingerprint.hex), "id": .string(peer.fingerprint.peerID.hex),
            "name": .string(peer.entry.name.claimed), "claimed_name": .string(peer.entry.claimedName.claimed),
            "last_seen": .number(peer.entry.lastSeen.unixMilliseconds),
        ]
    }

    /// A contact of a conversation.
    static func jsonMembers(_ contact: Contact) -> [String: JSONValue] {
        [
            "id": .string(contact.id.hex), "name": .string(contact.name.claimed), "trust": .string(contact.trustStatus.label),
            "friend": .bool(contact.isFriend), "near": .bool(contact.isNear),
            "software": .string(contact.software.rawValue),
        ]
    }
}
