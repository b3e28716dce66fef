internal import Logging
package import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// Somebody who is linked over BlueChat's service: no key, and a name that anybody may claim.
package struct BlueChatPerson: Sendable, Hashable {
    /// Of the conversation with them: derived from the address they have on the radio. It is no beginning of a key's fingerprint,
    /// and whoever takes that address continues the conversation.
    package let id: PeerID
    /// With what is to be known of them: "olive (BlueChat, unproven)".
    package let name: DisplayName
}

// Lines to and from those who run BlueChat. The radio tells who is linked, and takes texts one at a time; the store keeps what waits.
//
//     say ──► kept as waiting ──► linked? ──► one thread a person: a text, confirmed, the next ──► delivered
//                                  └─ waits until they are linked again
extension Messenger {
    /// Those who are linked now.
    package var blueChatPeople: [BlueChatPerson] { blueChat.near }

    /// Talks with those who run BlueChat until the node stops. Does nothing where there is no radio to do it with.
    func talk(over node: Node) async {
        let radio: any ChatRadio
        do throws(NodeError) {
            radio = try await node.openChatRadio()
        } catch {
            return node.settings.log.debug("no BlueChat: \(error)")
        }
        let events = radio.join(as: node.name)
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                // Each by itself and in order: what is kept blocks, and a text must not come before the one who wrote it.
                for await event in events { await BlockingThread.run { self.take(event, radio) } }
            }
            group.addTask { _ = await self.mesh.stopping.value }
            await group.next()
            group.cancelAll()
        }
    }

    // MARK: What comes

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
                return node.log.debug("a text over BlueChat is one too many, and is dropped")
            }
            guard text.utf8.count <= BlueChatPeople.maximumTextByteCount, text.contains(where: { !$0.isWhitespace }) else {
                return
            }
            attempt { () throws(StorageError) in
                try keep(
                    ChatMessage(
                        // Not of the kind that carried messages have: those are told of as messages.
                        id: "bluechat-\(Hex.encode(node.random(16)))", conversation: .peer(person.id), author: person.id,
                        authorName: person.name, text: text, when: node.wallClock(), status: .delivered))
            }
        }
    }

    private func meet(
        _ address: LinkAddress, _ name: DisplayName?, _ radio: any ChatRadio, _ now: MonotonicInstant
    ) -> BlueChatPerson? {
        let id = BlueChatPeople.id(of: address)
        // An address can be looked for whose id is that of somebody with a key: nobody gets into their conversation by it.
        guard contact(id) == nil, mesh.read({ $0.peer(id) }) == nil else { return nil }
        return blueChat.meet(id, at: address, name, over: radio, now: now)
    }

    // MARK: What goes

    /// Gives all that waits for somebody to the radio, in the order in which it was said.
    func sendPlainly(to peer: PeerID) throws(StorageError) {
        for line in try store.pendingMessages() where line.entry.conversation == .peer(peer) && claim(line.entry.id) {
            blueChat.enqueue(line.entry, to: peer)
        }
        guard blueChat.beginSending(to: peer) else { return }
        mesh.start { await BlockingThread.run { self.sendEnqueued(to: peer) } }
    }

    /// Blocks as long as there is something to send, and somebody who takes it.
    private func sendEnqueued(to peer: PeerID) {
        while let next = blueChat.next(to: peer) {
            do throws(LinkError) {
                try send(next)
            } catch {
                node.log.debug("a line waits: \(error)")
                let (ids, isLinkedAnew) = blueChat.giveUp(on: peer, link: next.link)
                for id in [next.entry.id] + ids { release(id) }
                if isLinkedAnew { attempt { () throws(StorageError) in try sendPlainly(to: peer) } }
                return
            }
            release(next.entry.id)
        }
    }

    private func send(_ next: BlueChatPeople.Sending) throws(LinkError) {
        // It may have gone between when it was looked up and when it was claimed.
        let entry = (try? store.entry(next.entry.id)) ?? next.entry
        guard entry.status < .delivered else { return }
        let texts = MeshDriver.split(entry.text, limit: BlueChatPeople.maximumTextByteCount)
        for (index, text) in texts.enumerated().dropFirst(next.sentCount) {
            try next.radio.send(text, to: next.address)
            blueChat.noteSent(index + 1, of: entry.id, to: next.peer)
        }
        attempt { () throws(StorageError) in try tellIfMarked(entry, .delivered) }
    }
}

/// Who has been met over BlueChat since the node began, and what is on its way to them. Strangers decide how many they are and how
/// much they say, so all of it has bounds.
final class BlueChatPeople: Sendable {
    /// A line, and the way it is to go.
    struct Sending {
        let entry: ChatMessage
        let peer: PeerID
        /// As many of its texts are there already.
        let sentCount: Int
        let radio: any ChatRadio
        let address: LinkAddress
        /// Which of the links to them it is, counted.
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
        /// Of the line that is on its way, or was when the link ended.
        var sent: (id: String, count: Int)?
    }

    private struct State {
        var people: [PeerID: Met] = [:]
        /// Addresses cost nothing, and each can begin a conversation.
        var newcomers: TokenBucket?
        var texts: TokenBucket?
    }

    private let state = Mutex(State())

    static let maximumCount = 64
    /// What one value of the service holds at most.
    static let maximumTextByteCount = 512
    private static let suffix = " (BlueChat, unproven)"
    private static let newcomersPerHour = 64.0

    /// The first 8 bytes of SHA-256 over "bluechat", a zero and the radio's address with its kind: the same at every meeting, as long
    /// as the address is.
    static func id(of address: LinkAddress) -> PeerID {
        PeerID(bytes: SHA256Hasher.digest(Array("bluechat\0\(address.host)".utf8)).prefix(PeerID.byteCount))!
    }

    /// What somebody is shown as.
    static func name(_ claimed: DisplayName?, _ id: PeerID) -> DisplayName {
        var text = claimed?.claimed ?? id.hex
        while text.utf8.count + suffix.utf8.count > DisplayName.maximumByteCount { text.removeLast() }
        return DisplayName(truncating: text + suffix)!
    }

    var near: [BlueChatPerson] {
        state.withLock { state in
            state.people.filter(\.value.isNear).map { BlueChatPerson(id: $0.key, name: Self.name($0.value.name, $0.key)) }
        }
    }

    func isNear(_ id: PeerID) -> Bool { state.withLock { $0.people[id]?.isNear == true } }

    /// Somebody is linked.
    /// - Returns: nil when there are too many, or too many new ones in a while.
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
                state.people[id] = Met(
                    address: address, radio: radio, lastMet: now, texts: TokenBucket(capacity: 30, perSecond: 1, now: now))
            }
            state.people[id]!.address = address
            state.people[id]!.radio = radio
            state.people[id]!.lastMet = now
            if let name { state.people[id]!.name = name }
            if !state.people[id]!.isNear {
                state.people[id]!.isNear = true
                state.people[id]!.link += 1
            }
            return BlueChatPerson(id: id, name: Self.name(state.people[id]!.name, id))
        }
    }

    /// Whoever left longest ago makes room.
    private static func makeRoom(_ people: inout [PeerID: Met]) -> Bool {
        guard people.count >= maximumCount else { return true }
        let left = people.filter { !$0.value.isNear && !$0.value.isSending }.min { $0.value.lastMet < $1.value.lastMet }
        guard let left else { return false }
        people[left.key] = nil
        return true
    }

    /// The link to somebody has ended.
    /// - Returns: who that was, if anybody who is known.
    func lose(_ address: LinkAddress) -> PeerID? {
        let id = Self.id(of: address)
        return state.withLock { state in
            guard state.people[id]?.isNear == true else { return nil }
            state.people[id]!.isNear = false
            return id
        }
    }

    /// Counts a text that has come.
    /// - Returns: false when its writer, or all together, have written too much.
    func admitsText(from id: PeerID, now: MonotonicInstant) -> Bool {
        state.withLock { state in
            guard state.people[id]?.texts.consume(now: now) == true else { return false }
            var all = state.texts ?? TokenBucket(capacity: 120, perSecond: 2, now: now)
            defer { state.texts = all }
            return all.consume(now: now)
        }
    }

    // MARK: Sending

    func enqueue(_ entry: ChatMessage, to id: PeerID) {
        state.withLock { $0.people[id]?.outgoing.append(entry) }
    }

    /// - Returns: whether it is to be begun now: there is something, and nobody does it already.
    func beginSending(to id: PeerID) -> Bool {
        state.withLock { state in
            guard let person = state.people[id], !person.isSending, !person.outgoing.isEmpty else { return false }
            state.people[id]!.isSending = true
            return true
        }
    }

    /// What goes next; nil ends the sending.
    func next(to id: PeerID) -> Sending? {
        state.withLock { state in
            guard let person = state.people[id], !person.outgoing.isEmpty else {
                state.people[id]?.isSending = false
                return nil
            }
            let entry = state.people[id]!.outgoing.removeFirst()
            let sentCount = person.sent?.id == entry.id ? person.sent!.count : 0
            return Sending(
                entry: entry, peer: id, sentCount: sentCount, radio: person.radio, address: person.address,
                link: person.link)
        }
    }

    /// So many of a line's texts are there: they aren't sent again when the link ends before the last.
    func noteSent(_ count: Int, of entry: String, to id: PeerID) {
        state.withLock { $0.people[id]?.sent = (entry, count) }
    }

    /// The link takes no more.
    /// - Returns: what is no longer on its way besides the line that was being sent, and whether there is another link already.
    func giveUp(on id: PeerID, link: Int) -> (ids: [String], isLinkedAnew: Bool) {
        state.withLock { state in
            guard let person = state.people[id] else { return ([], false) }
            state.people[id]!.outgoing = []
            state.people[id]!.isSending = false
            return (person.outgoing.map(\.id), person.isNear && person.link != link)
        }
    }
}
