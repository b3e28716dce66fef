package import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// A peer that is connected over BlueChat's service. It has no key, and its name is only claimed.
package struct BlueChatPeer: Sendable, Hashable {
    /// ID of the conversation, derived from the peer's Bluetooth address rather than from a key: a device that takes over the
    /// address continues the conversation.
    package let id: PeerID
    /// The claimed name, marked as such: "olive (BlueChat, unproven)".
    package let name: DisplayName
}

/// The BlueChat peers since the node started, and their outgoing lines. Untrusted peers decide their number and their texts, so
/// both are limited (R6).
final class BlueChatPeers: Sendable {
    /// A line and the connection over which it is sent.
    struct Sending {
        let message: ChatMessage
        let peer: PeerID
        /// Number of its texts that are confirmed already.
        let sentCount: Int
        let radio: any ChatRadio
        let address: LinkAddress
        /// Sequence number of the connection.
        let link: Int
    }

    private struct Entry {
        var address: LinkAddress
        var name: DisplayName?
        var radio: any ChatRadio
        var isConnected = false
        var link = 0
        var lastSeen: MonotonicInstant
        var texts: TokenBucket
        var outgoing: [ChatMessage] = []
        var isSending = false
        /// Confirmed texts of the line that is being sent, or was when the connection ended.
        var sent: (id: String, count: Int)?
    }

    private struct State {
        var peers: [PeerID: Entry] = [:]
        /// Rate limit of new peers: an address costs nothing, and each can start a conversation.
        var newPeerBucket: TokenBucket?
        var texts: TokenBucket?
    }

    private let state = Mutex(State())

    static let maximumCount = 64
    /// Limit of one value of the service.
    static let maximumTextByteCount = 512
    private static let suffix = " (BlueChat, unproven)"
    private static let newPeersPerHour = 64.0

    /// The first 8 bytes of SHA-256 over "bluechat", a zero and the radio's address with its kind: the same at every meeting,
    /// as long as the address is.
    static func id(of address: LinkAddress) -> PeerID {
        // Safe: a digest has 32 bytes.
        PeerID(bytes: SHA256Hasher.digest(Array("bluechat\0\(address.host)".utf8)).prefix(PeerID.byteCount))!
    }

    /// The displayed name of a peer.
    static func name(_ claimed: DisplayName?, _ id: PeerID) -> DisplayName {
        var text = claimed?.claimed ?? id.hex
        while text.utf8.count + suffix.utf8.count > DisplayName.maximumByteCount { text.removeLast() }
        // Safe: the suffix alone is a name.
        return DisplayName(truncating: text + suffix)!
    }

    var connectedPeers: [BlueChatPeer] {
        state.withLock { state in
            state.peers.filter(\.value.isConnected).map { BlueChatPeer(id: $0.key, name: Self.name($0.value.name, $0.key)) }
        }
    }

    func isConnected(_ id: PeerID) -> Bool { state.withLock { $0.peers[id]?.isConnected == true } }

    /// Records that a peer has connected.
    /// - Returns: nil when there are too many peers, or too many new ones recently.
    func admit(
        _ id: PeerID, at address: LinkAddress, _ name: DisplayName?, over radio: any ChatRadio, now: MonotonicInstant
    ) -> BlueChatPeer? {
        state.withLock { state in
            if state.peers[id] == nil {
                var bucket =
                    state.newPeerBucket
                    ?? TokenBucket(capacity: Self.newPeersPerHour, perSecond: Self.newPeersPerHour / 3_600, now: now)
                let isAdmitted = bucket.consume(now: now)
                state.newPeerBucket = bucket
                guard isAdmitted, Self.makeRoom(&state.peers) else { return nil }
            }
            var peer =
                state.peers[id]
                ?? Entry(
                    address: address, radio: radio, lastSeen: now, texts: TokenBucket(capacity: 30, perSecond: 1, now: now))
            peer.address = address
            peer.radio = radio
            peer.lastSeen = now
            if let name { peer.name = name }
            if !peer.isConnected {
                peer.isConnected = true
                peer.link += 1
            }
            state.peers[id] = peer
            return BlueChatPeer(id: id, name: Self.name(peer.name, id))
        }
    }

    /// Removes the peer that left longest ago, if there are too many.
    private static func makeRoom(_ peers: inout [PeerID: Entry]) -> Bool {
        guard peers.count >= maximumCount else { return true }
        let left = peers.filter { !$0.value.isConnected && !$0.value.isSending }.min { $0.value.lastSeen < $1.value.lastSeen }
        guard let left else { return false }
        peers[left.key] = nil
        return true
    }

    /// Records that a connection has ended.
    /// - Returns: the peer; nil for an unknown one.
    func lose(_ address: LinkAddress) -> PeerID? {
        let id = Self.id(of: address)
        return state.withLock { state in
            guard state.peers[id]?.isConnected == true else { return nil }
            state.peers[id]?.isConnected = false
            return id
        }
    }

    /// Counts a received text.
    /// - Returns: false beyond the rate limit of its author, or of all peers together.
    func admitsText(from id: PeerID, now: MonotonicInstant) -> Bool {
        state.withLock { state in
            guard state.peers[id]?.texts.consume(now: now) == true else { return false }
            var all = state.texts ?? TokenBucket(capacity: 120, perSecond: 2, now: now)
            defer { state.texts = all }
            return all.consume(now: now)
        }
    }

    // MARK: Sending

    /// - Returns: false when the peer is not known any more.
    func enqueue(_ message: ChatMessage, to id: PeerID) -> Bool {
        state.withLock { $0.peers[id]?.outgoing.append(message) != nil }
    }

    /// - Returns: whether the caller has to send now: lines are queued, and no thread sends them.
    func beginSending(to id: PeerID) -> Bool {
        state.withLock { state in
            guard let peer = state.peers[id], !peer.isSending, !peer.outgoing.isEmpty else { return false }
            state.peers[id]?.isSending = true
            return true
        }
    }

    /// Returns the next line to send; nil ends the sending.
    func next(to id: PeerID) -> Sending? {
        state.withLock { state in
            guard var peer = state.peers[id], !peer.outgoing.isEmpty else {
                state.peers[id]?.isSending = false
                return nil
            }
            let message = peer.outgoing.removeFirst()
            state.peers[id] = peer
            let sentCount = peer.sent.map { $0.id == message.id ? $0.count : 0 } ?? 0
            return Sending(
                message: message, peer: id, sentCount: sentCount, radio: peer.radio, address: peer.address,
                link: peer.link)
        }
    }

    /// Records how many texts of a line are confirmed: they are not sent again when the connection ends before the last.
    func recordSent(_ count: Int, of message: String, to id: PeerID) {
        state.withLock { $0.peers[id]?.sent = (message, count) }
    }

    /// Abandons the queue after a failure.
    /// - Returns: the lines that were queued behind the failed one, and whether the peer is connected anew.
    func abandonQueue(of id: PeerID, link: Int?) -> (ids: [String], hasReconnected: Bool) {
        state.withLock { state in
            guard let peer = state.peers[id] else { return ([], false) }
            state.peers[id]?.outgoing = []
            state.peers[id]?.isSending = false
            return (peer.outgoing.map(\.id), peer.isConnected && peer.link != link)
        }
    }
}
