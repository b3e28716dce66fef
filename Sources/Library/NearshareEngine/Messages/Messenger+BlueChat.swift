internal import Logging
package import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// A peer that is connected over BlueChat's service. It has no key, and its name is only claimed.
package struct BlueChatPerson: Sendable, Hashable {
    /// ID of the conversation, derived from the peer's Bluetooth address rather than from a key: a device that takes over the
    /// address continues the conversation.
    package let id: PeerID
    /// The claimed name, marked as such: "olive (BlueChat, unproven)".
    package let name: DisplayName
}

// Lines to and from peers that run BlueChat. The radio reports connections, and sends texts one at a time.
//
//     say ──► stored as waiting ──► connected? ──► one thread for each peer: a text, confirmed, the next ──► delivered
//                                  └─ waits until the peer is connected again
extension Messenger {
    /// The peers that are currently connected.
    package var blueChatPeople: [BlueChatPerson] { blueChat.near }

    /// Exchanges texts over BlueChat until the node stops. Returns at once without a radio.
    func talk(over node: Node) async {
        let radio: any ChatRadio
        do throws(NodeError) {
            radio = try await node.openChatRadio()
        } catch {
            return node.settings.log.debug("no BlueChat: \(error)")
        }
        let events = radio.join(as: node.name)
        await firstResult(
            of: {
                // One after the other, as the store blocks, and a text must not precede its author.
                for await event in events {
                    do throws(ThreadError) {
                        try await BlockingThread.run { self.take(event, radio) }
                    } catch {
                        self.node.log.error("an event of BlueChat is dropped: \(error)")
                    }
                }
            }, { _ = await self.mesh.stopping.value })
    }

    // MARK: Receiving

    private func take(_ event: ChatRadioEvent, _ radio: any ChatRadio) {
        let now = node.clock()
        switch event {
        case .found(let address, let name):
            guard let person = meet(address, name, radio, now) else { return }
            listeners.publish(.peerChanged(person.id))
            attempt { () throws(StorageError) in try sendPlainly(to: person.id) }
        case .gone(let address):
            guard let id = blueChat.lose(address) else { return }
            listeners.publish(.peerChanged(id))
        case .text(let text, let address):
            guard let person = meet(address, nil, radio, now), blueChat.admitsText(from: person.id, now: now) else {
                return node.log.debug("a text over BlueChat exceeds the rate limit, and is dropped")
            }
            guard text.utf8.count <= BlueChatPeople.maximumTextByteCount, text.contains(where: { !$0.isWhitespace }) else {
                return
            }
            attempt { () throws(StorageError) in
                try keep(
                    ChatMessage(
                        // No bundle has an ID of this form.
                        id: "bluechat-\(Hex.encode(node.random(16)))", conversation: .peer(person.id), author: person.id,
                        authorName: person.name, text: text, when: node.wallClock(), status: .delivered))
            }
        }
    }

    private func meet(
        _ address: LinkAddress, _ name: DisplayName?, _ radio: any ChatRadio, _ now: MonotonicInstant
    ) -> BlueChatPerson? {
        let id = BlueChatPeople.id(of: address)
        // An address could be chosen whose ID is that of a peer with a key, to enter its conversation.
        guard contact(id) == nil, mesh.read({ $0.peer(id) }) == nil else { return nil }
        return blueChat.meet(id, at: address, name, over: radio, now: now)
    }

    // MARK: Sending

    /// Queues all waiting lines for a peer, in their order, and starts to send them.
    func sendPlainly(to peer: PeerID) throws(StorageError) {
        for line in try store.pendingMessages()
        where line.message.conversation == .peer(peer) && claim(line.message.id, parts: []) {
            blueChat.enqueue(line.message, to: peer)
        }
        guard blueChat.beginSending(to: peer) else { return }
        mesh.start { [self] in
            do {
                try await BlockingThread.run { self.sendEnqueued(to: peer) }
            } catch {
                node.log.error("lines over BlueChat wait: \(error)")
                for id in blueChat.giveUp(on: peer, link: 0).ids { release(id) }
            }
        }
    }

    /// Blocks until the queue is empty or the connection ends.
    private func sendEnqueued(to peer: PeerID) {
        while let next = blueChat.next(to: peer) {
            do throws(LinkError) {
                try send(next)
            } catch {
                node.log.debug("a line is kept for later: \(error)")
                let (ids, isLinkedAnew) = blueChat.giveUp(on: peer, link: next.link)
                for id in [next.message.id] + ids { release(id) }
                if isLinkedAnew { attempt { () throws(StorageError) in try sendPlainly(to: peer) } }
                return
            }
            release(next.message.id)
        }
    }

    private func send(_ next: BlueChatPeople.Sending) throws(LinkError) {
        // It may have been sent between its selection and its claim.
        let message = (try? store.message(next.message.id)) ?? next.message
        guard message.status < .delivered else { return }
        let texts = MeshDriver.split(message.text, limit: BlueChatPeople.maximumTextByteCount)
        for (index, text) in texts.enumerated().dropFirst(next.sentCount) {
            try next.radio.send(text, to: next.address)
            blueChat.noteSent(index + 1, of: message.id, to: next.peer)
        }
        attempt { () throws(StorageError) in try updateStatus(of: message, to: .delivered) }
    }
}

/// The BlueChat peers since the node started, and their outgoing lines. Untrusted peers decide their number and their texts, so
/// both are limited (R1).
final class BlueChatPeople: Sendable {
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

    private struct Met {
        var address: LinkAddress
        var name: DisplayName?
        var radio: any ChatRadio
        var isNear = false
        var link = 0
        var lastMet: MonotonicInstant
        var texts: TokenBucket
        var outgoing: [ChatMessage] = []
        var isSending = false
        /// Confirmed texts of the line that is being sent, or was when the connection ended.
        var sent: (id: String, count: Int)?
    }

    private struct State {
        var people: [PeerID: Met] = [:]
        /// Rate limit of new peers: an address costs nothing, and each can start a conversation.
        var newcomers: TokenBucket?
        var texts: TokenBucket?
    }

    private let state = Mutex(State())

    static let maximumCount = 64
    /// Limit of one value of the service.
    static let maximumTextByteCount = 512
    private static let suffix = " (BlueChat, unproven)"
    private static let newcomersPerHour = 64.0

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

    var near: [BlueChatPerson] {
        state.withLock { state in
            state.people.filter(\.value.isNear).map { BlueChatPerson(id: $0.key, name: Self.name($0.value.name, $0.key)) }
        }
    }

    func isNear(_ id: PeerID) -> Bool { state.withLock { $0.people[id]?.isNear == true } }

    /// Records that a peer has connected.
    /// - Returns: nil when there are too many peers, or too many new ones recently.
    func meet(
        _ id: PeerID, at address: LinkAddress, _ name: DisplayName?, over radio: any ChatRadio, now: MonotonicInstant
    ) -> BlueChatPerson? {
        state.withLock { state in
            if state.people[id] == nil {
                var bucket =
                    state.newcomers
                    ?? TokenBucket(capacity: Self.newcomersPerHour, perSecond: Self.newcomersPerHour / 3_600, now: now)
                let isAdmitted = bucket.consume(now: now)
                state.newcomers = bucket
                guard isAdmitted, Self.makeRoom(&state.people) else { return nil }
            }
            var person =
                state.people[id]
                ?? Met(
                    address: address, radio: radio, lastMet: now, texts: TokenBucket(capacity: 30, perSecond: 1, now: now))
            person.address = address
            person.radio = radio
            person.lastMet = now
            if let name { person.name = name }
            if !person.isNear {
                person.isNear = true
                person.link += 1
            }
            state.people[id] = person
            return BlueChatPerson(id: id, name: Self.name(person.name, id))
        }
    }

    /// Removes the peer that left longest ago, if there are too many.
    private static func makeRoom(_ people: inout [PeerID: Met]) -> Bool {
        guard people.count >= maximumCount else { return true }
        let left = people.filter { !$0.value.isNear && !$0.value.isSending }.min { $0.value.lastMet < $1.value.lastMet }
        guard let left else { return false }
        people[left.key] = nil
        return true
    }

    /// Records that a connection has ended.
    /// - Returns: the peer; nil for an unknown one.
    func lose(_ address: LinkAddress) -> PeerID? {
        let id = Self.id(of: address)
        return state.withLock { state in
            guard state.people[id]?.isNear == true else { return nil }
            state.people[id]?.isNear = false
            return id
        }
    }

    /// Counts a received text.
    /// - Returns: false beyond the rate limit of its author, or of all peers together.
    func admitsText(from id: PeerID, now: MonotonicInstant) -> Bool {
        state.withLock { state in
            guard state.people[id]?.texts.consume(now: now) == true else { return false }
            var all = state.texts ?? TokenBucket(capacity: 120, perSecond: 2, now: now)
            defer { state.texts = all }
            return all.consume(now: now)
        }
    }

    // MARK: Sending

    func enqueue(_ message: ChatMessage, to id: PeerID) {
        state.withLock { $0.people[id]?.outgoing.append(message) }
    }

    /// - Returns: whether the caller has to send now: lines are queued, and no thread sends them.
    func beginSending(to id: PeerID) -> Bool {
        state.withLock { state in
            guard let person = state.people[id], !person.isSending, !person.outgoing.isEmpty else { return false }
            state.people[id]?.isSending = true
            return true
        }
    }

    /// Returns the next line to send; nil ends the sending.
    func next(to id: PeerID) -> Sending? {
        state.withLock { state in
            guard var person = state.people[id], !person.outgoing.isEmpty else {
                state.people[id]?.isSending = false
                return nil
            }
            let message = person.outgoing.removeFirst()
            state.people[id] = person
            let sentCount = person.sent.map { $0.id == message.id ? $0.count : 0 } ?? 0
            return Sending(
                message: message, peer: id, sentCount: sentCount, radio: person.radio, address: person.address,
                link: person.link)
        }
    }

    /// Records how many texts of a line are confirmed: they are not sent again when the connection ends before the last.
    func noteSent(_ count: Int, of message: String, to id: PeerID) {
        state.withLock { $0.people[id]?.sent = (message, count) }
    }

    /// Abandons the queue after a failure.
    /// - Returns: the lines that were queued behind the failed one, and whether the peer is connected anew.
    func giveUp(on id: PeerID, link: Int) -> (ids: [String], isLinkedAnew: Bool) {
        state.withLock { state in
            guard let person = state.people[id] else { return ([], false) }
            state.people[id]?.outgoing = []
            state.people[id]?.isSending = false
            return (person.outgoing.map(\.id), person.isNear && person.link != link)
        }
    }
}
