public import NearshareBase
public import NearshareDirect
package import NearshareInterfaces
internal import Synchronization

extension Session {
    /// Sends a message.
    ///
    /// A reliable send returns when the windows of all receivers have accepted the message: at most 2 MiB and 4096 messages that a
    /// receiver's program has not read, also while it is out of reach. The message then arrives, also after a lost link, unless its
    /// receiver leaves for good (``Change/left(_:lost:)``) or restarts (``Change/restarted(_:lost:)``), or this node leaves before.
    /// A receiver whose window is full delays this send, but not the message's way to the others: when the task is cancelled while it
    /// waits, those with room have the message, and the others do not get it. Messages of sends that follow
    /// each other arrive in their order; of sends at the same time, the order is open. When a receiver leaves while
    /// others are waited for, the send fails if the receiver was listed in `members`, and goes on if the message is for all
    /// members. An unreliable send returns at once.
    /// - Parameters:
    ///   - message: at most 1 MiB, an unreliable one at most 1200 bytes.
    ///   - members: the receivers, each named once; nil, the default, for all members.
    ///   - mode: by default ``DeliveryMode/reliable``.
    ///   - isUrgent: a reliable message goes before all others that wait for the same receiver, and finds room where those have
    ///     filled the window, up to 256 KiB and 512 urgent ones. Urgent messages keep their order among themselves.
    ///   - timeout: time in which a reliable message must be on its way to a receiver; it is dropped otherwise, and only
    ///     ``SentMessage/delivered`` reports that. Not a bound on the delivery. With no time left, zero or less, as to a deadline in
    ///     the past, it may be dropped also where nothing waits before it; nil to send it whenever that is possible.
    /// - Returns: the sent message, to wait for its delivery: `try await sent.delivered`.
    /// - Throws: ``SessionError/invalidParameter(_:)`` when the list is empty, or names a receiver twice or this node; when the
    ///   session has no other members; when the message is too long. ``SessionError/notConnected(_:)`` when a receiver is not in the
    ///   session, or leaves it before its window has room. ``SessionError/left`` from the beginning of ``leave(waiting:)``, or
    ///   another reason of ``ended``. ``SessionError/cancelled``: receivers whose windows had room have the message.
    @discardableResult
    public func send(
        _ message: SessionMessage, to members: [PeerID]? = nil, mode: DeliveryMode = .reliable, isUrgent: Bool = false,
        timeout: Duration? = nil
    ) async throws(SessionError) -> SentMessage {
        let limit = mode == .reliable ? SessionMessage.maximumByteCount : Self.maximumUnreliableByteCount
        guard message.bytes.count <= limit else {
            throw .invalidParameter(
                "the message has \(message.bytes.count) bytes; the limit is \(limit); send a resource, or write to a stream")
        }
        switch mode {
        case .reliable:
            if Task.isCancelled { throw .cancelled }
            let expiry = timeout.map { node.settings.clock() + min(max($0, .zero), Self.maximumTimeout) }
            var outgoing = OutgoingMessage(message: message, isUrgent: isUrgent, expiry: expiry, isForAll: members == nil)
            try append(&outgoing) { [self] in receivers(members, &$0) }
            while !outgoing.waiting.isEmpty {
                let waiting = outgoing.waiting
                if let expiry {
                    let left = expiry - node.settings.clock()
                    if left <= .zero {
                        outgoing.dropped += waiting
                        break
                    }
                    await withTimeout(left) { await self.waitForRoom(for: waiting, isUrgent: isUrgent) }
                } else {
                    await waitForRoom(for: waiting, isUrgent: isUrgent)
                }
                if Task.isCancelled { throw .cancelled }
                try append(&outgoing) { state in state.end.map { .failure($0) } ?? .success(waiting) }
            }
            if outgoing.receipts.isEmpty, outgoing.dropped.isEmpty { throw Self.noMembers }
            return SentMessage(session: self, receipts: outgoing.receipts, dropped: outgoing.dropped)
        case .unreliable:
            let found = state.withLock { state in receivers(members, &state) }
            for receiver in try found.get() { sendUnreliably(message, to: receiver) }
            return SentMessage(session: self, receipts: [])
        }
    }

    /// A reliable message that is being handed to the channels of its receivers.
    private struct OutgoingMessage {
        let message: SessionMessage
        let isUrgent: Bool
        let expiry: MonotonicInstant?
        /// Whether it is for all members: one that leaves meanwhile is not an error.
        let isForAll: Bool
        var receipts: [SentMessage.Receipt] = []
        /// The receivers that do not get it: they are slow, or had no room in time.
        var dropped: [PeerID] = []
        /// The receivers whose windows are full.
        var waiting: [PeerID] = []
    }

    /// Bounds the timeout of a message, so that no sum of times overflows.
    private static var maximumTimeout: Duration { .seconds(1_000_000_000) }

    private func waitForRoom(for members: [PeerID], isUrgent: Bool) async {
        await progress.wait { [self] in
            state.withLock { state in
                state.isOver
                    || members.contains { state.members.hasRoom(for: $0, isUrgent: isUrgent) || isTooSlow($0, state) }
            }
        }
    }

    // MARK: Slow members

    /// Whether messages to a member are dropped.
    private func isTooSlow(_ member: PeerID, _ state: borrowing State) -> Bool {
        settings.slowMembers != .wait && state.slow.isSlow(member)
    }

    /// Reports the members that have become slow, and removes them if the policy says so.
    func reportSlowMembers(now: MonotonicInstant) {
        let slow = state.withLock { state in
            let roster = state.members.roster
            return state.slow.drain(now: now) { roster.isLinked($0) }
        }
        guard !slow.isEmpty else { return }
        for member in slow {
            emit(.slow(member))
            // Only the founder can remove members; at others this fails.
            if settings.slowMembers == .remove { try? remove(member) }
        }
        progress.notifyAll()
    }

    /// Drops the messages that were not sent in their time.
    func dropExpiredMessages(now: MonotonicInstant) {
        if state.withLock({ $0.members.dropExpired(now: now) }) { progress.notifyAll() }
    }

    // MARK: Delivery

    /// Waits until messages are delivered to their receivers' programs, or lost.
    /// - Returns: the receivers whose message is lost.
    func waitForDelivery(of receipts: [SentMessage.Receipt]) async throws(SessionError) -> [PeerID] {
        state.withLock { $0.receiptWaiterCount += 1 }
        defer { state.withLock { $0.receiptWaiterCount -= 1 } }
        guard let result = await progress.waitForValue({ [self] in delivery(of: receipts) }) else { throw .cancelled }
        return try result.get()
    }

    /// - Returns: nil while a message is on its way.
    private func delivery(of receipts: [SentMessage.Receipt]) -> Result<[PeerID], SessionError>? {
        state.withLock { state in
            var failed: [PeerID] = []
            for receipt in receipts {
                switch state.members.delivery(of: receipt) {
                case .pending: return state.end.map { .failure($0) }
                case .delivered: break
                case .lost: failed.append(receipt.member)
                }
            }
            return .success(failed)
        }
    }

    /// The session's end is reported even when an argument is wrong.
    /// - Returns: the receivers of a message.
    private func receivers(_ members: [PeerID]?, _ state: inout State) -> Result<[PeerID], SessionError> {
        if let refusal = state.refusal { return .failure(refusal) }
        guard let members else {
            let all = state.members.roster.memberIDs
            return all.isEmpty ? .failure(Self.noMembers) : .success(all)
        }
        if let mistake = mistake(in: members) { return .failure(mistake) }
        let absent = members.first { state.members.roster.member($0) == nil }
        return absent.map { .failure(.notConnected($0)) } ?? .success(members)
    }

    private func check(receivers: [PeerID]) throws(SessionError) {
        if let refusal = state.withLock(\.refusal) ?? mistake(in: receivers) { throw refusal }
    }

    /// The mistake in a list of receivers; nil for a correct one.
    private func mistake(in receivers: [PeerID]) -> SessionError? {
        guard !receivers.isEmpty else { return .invalidParameter("the list of receivers is empty") }
        guard receivers.count == 1 || Set(receivers).count == receivers.count else {
            return .invalidParameter("a receiver is listed twice")
        }
        return receivers.contains(node.id) ? .thisNode : nil
    }

    private static var noMembers: SessionError {
        .invalidParameter("the session has no other members; wait until one joins, or invite a peer")
    }

    /// Appends a message to the channels of its receivers whose windows have room, and sends it.
    /// - Parameter receivers: selects those that have not got it.
    private func append(
        _ outgoing: inout OutgoingMessage, to receivers: (inout State) -> Result<[PeerID], SessionError>
    ) throws(SessionError) {
        let now = node.settings.clock()
        var hasNewDeadline = outgoing.expiry != nil
        var links: [(link: SessionLink, isAlone: Bool)] = []
        var unlinked: [PeerID] = []
        let failure = state.withLock { state -> SessionError? in
            let remaining: [PeerID]
            switch receivers(&state) {
            case .success(let receivers): remaining = receivers
            case .failure(let error): return error
            }
            outgoing.waiting = []
            for receiver in remaining {
                if isTooSlow(receiver, state) {
                    outgoing.dropped.append(receiver)
                    continue
                }
                if !state.members.hasChannel(to: receiver) {
                    guard state.members.roster.member(receiver) != nil else {
                        if outgoing.isForAll { continue }
                        return .notConnected(receiver)
                    }
                    // Announced by other members and not connected yet: the message is kept until then.
                    addChannel(to: receiver, &state)
                }
                guard
                    let appended = state.members.append(
                        outgoing.message, isUrgent: outgoing.isUrgent, for: receiver, expiry: outgoing.expiry)
                else {
                    outgoing.waiting.append(receiver)
                    continue
                }
                outgoing.receipts.append(appended.receipt)
                if state.slow.recordMessage(to: receiver, now: now) { hasNewDeadline = true }
                if appended.links.isEmpty { unlinked.append(receiver) }
                for link in appended.links { links.append((link, appended.isAlone)) }
            }
            return nil
        }
        if hasNewDeadline { timer.wake() }
        for receiver in unlinked { demandLink(to: receiver) }
        // A single message is sent from here at once; several are batched by the writer thread.
        for (link, isAlone) in links { isAlone ? link.flush() : link.wake() }
        if let failure { throw failure }
    }

    /// Moves messages over one link until it ends. They are decoded on the thread that reads the link, and encoded on the
    /// thread that writes its frames: a change of threads would cost more than all other steps.
    func exchangeMessages(on link: SessionLink, _ stream: ByteStream) {
        link.output.withLock { $0.stream = stream }
        link.driver.streams.setProducer { [self] in produceFrames(for: link) }
        let framing = Mutex(MessageFraming())
        do throws(MalformedInput) {
            try stream.read { [self] (bytes) throws(MalformedInput) in
                // Without its message stream the session cannot use the link.
                guard let bytes else { return link.driver.close(.done) }
                let frames: Result<[[UInt8]], MalformedInput> = framing.withLock { framing in
                    do throws(MalformedInput) {
                        return .success(try framing.receive(bytes))
                    } catch {
                        return .failure(error)
                    }
                }
                try handle(try frames.get(), from: link)
            }
        } catch {
            link.driver.closeForViolation(error)
        }
        link.wake()
    }

    /// Writes due frames to the link's message stream, as far as its window allows.
    private func produceFrames(for link: SessionLink) {
        link.output.withLock { output in
            guard let stream = output.stream else { return }
            while true {
                if output.pending.isEmpty {
                    guard let batch = nextBatch(for: link) else { return }
                    output.pending = batch[...]
                }
                guard
                    let count = try? stream.writeWithoutBlocking(output.pending, wakesWriter: false, onChange: { link.wake() })
                else {
                    // The link has ended; unsent frames go over another one.
                    output = SessionLink.Output()
                    return
                }
                output.pending = output.pending.dropFirst(count)
                if !output.pending.isEmpty { return }
            }
        }
    }

    private func nextBatch(for link: SessionLink) -> [UInt8]? {
        state.withLock { state in
            state.members.recordDeliveries(inbox.drainDelivered())
            guard let batch = state.members.nextBatch(for: link, byteCount: Self.batchByteCount),
                !batch.isEmpty
            else { return nil }
            return batch
        }
    }

    private func handle(_ frames: [[UInt8]], from link: SessionLink) throws(MalformedInput) {
        let now = node.settings.clock()
        let (arrival, hasReceiptWaiters, hasNewDeadline) = state.withLock { state in
            let arrival = state.members.receive(frames, on: link)
            // A restart begins a link, so it precedes the messages.
            if let lostCount = arrival?.lostCount { emit(.restarted(link.peer, lost: lostCount)) }
            // Under the lock, before another link of the same member delivers the next messages.
            if let arrival { inbox.append(contentsOf: arrival.messages) }
            var hasNewDeadline = false
            if let arrival, arrival.hasDeliveries {
                hasNewDeadline = state.slow.recordDelivery(
                    to: link.peer, hasUndelivered: arrival.hasUndelivered, now: now)
            }
            return (arrival, state.receiptWaiterCount > 0, hasNewDeadline)
        }
        if hasNewDeadline { timer.wake() }
        guard let arrival else { return }
        // The program before may still run: it has the same key.
        for replaced in arrival.replacedLinks { replaced.driver.close(.replaced) }
        if !arrival.messages.isEmpty { notifyArrival() }
        if arrival.hasNewMetadata { emitMetadata(of: link.peer) }
        if arrival.hasFrames { link.wake() }
        if arrival.makesRoom || hasReceiptWaiters { progress.notifyAll() }
        if let failure = arrival.failure { throw failure }
    }

    private func notifyArrival() {
        inbox.notifyReaders()
        eventQueues.notifyArrival()
    }

    /// Records the delivery of a message to the program. Channels are updated for several messages at once: taking the session's
    /// lock for each would contend with the reader thread.
    func recordDelivery(of received: ReceivedMessage) {
        guard received.mode == .reliable else { return }
        let reaction = inbox.recordDelivery(of: received)
        guard reaction.isReportDue || reaction.needsSchedule else { return }
        let links = state.withLock { state -> [SessionLink] in
            if reaction.needsSchedule { state.acknowledgements = node.settings.clock() + Self.acknowledgementDelay }
            guard reaction.isReportDue else { return [] }
            state.members.recordDeliveries(inbox.drainDelivered())
            return state.members.dueLinks
        }
        for link in links { link.wake() }
        if reaction.needsSchedule { timer.wake() }
    }

    /// Sends acknowledgements that no message has carried in the meantime.
    func sendDueAcknowledgements(now: MonotonicInstant) {
        let links = state.withLock { state -> [SessionLink] in
            guard let due = state.acknowledgements, due <= now else { return [] }
            state.acknowledgements = nil
            inbox.endSchedule()
            state.members.recordDeliveries(inbox.drainDelivered())
            return state.members.sendOwedAcknowledgements()
        }
        for link in links { link.wake() }
    }

    /// Delay of an acknowledgement, in which a message may carry it.
    private static var acknowledgementDelay: Duration { .milliseconds(20) }

    private static var batchByteCount: Int { 64 << 10 }

    // MARK: Unreliable messages

    private func sendUnreliably(_ message: SessionMessage, to member: PeerID) {
        let links = completeLinksTo(member)
        guard let link = links.last(where: { $0.relay == nil }) ?? links.last else { return demandLink(to: member) }
        let payload = [message.kind.rawValue] + message.bytes
        if let datagrams, datagrams.send(payload, on: link) { return }
        link.driver.sendDatagram(payload)
    }

    func handle(payload: [UInt8], from member: PeerID) {
        guard let first = payload.first, let kind = SessionMessage.Kind(rawValue: first),
            payload.count <= LinkDatagrams.maximumByteCount, isMember(member)
        else { return }
        inbox.append(
            unreliable: ReceivedMessage(
                sender: member, message: SessionMessage(kind: kind, bytes: Array(payload.dropFirst())), mode: .unreliable))
        eventQueues.notifyArrival()
    }

    func receive(packet: [UInt8], tag: UInt64) {
        guard let link = links.first(where: { $0.datagramTag == tag }) else { return }
        if let payload = datagrams?.open(packet, on: link) { handle(payload: payload, from: link.peer) }
    }

    // MARK: Streams and resources

    /// Opens a byte stream to a member, once there is a link: a member that is reached through others gets one on demand. The stream
    /// ends with its link: it does not move to another one.
    /// - Parameter name: for the other program: at most 255 bytes of UTF-8; may be empty, and need not be unique.
    /// - Throws: ``SessionError/notConnected(_:)`` while the member cannot be reached; ``SessionError/unavailable(_:)`` when 64 streams
    ///   of this node are open on the link, or it is breaking; ``SessionError/invalidParameter(_:)`` for a too long name, and for
    ///   this node; the reason of ``ended``; ``SessionError/cancelled`` when the task is cancelled.
    public func openStream(named name: String, to member: PeerID) async throws(SessionError) -> ByteStream {
        guard let streamName = StreamName(name) else {
            throw .invalidParameter("the name of a stream has at most \(StreamName.maximumByteCount) bytes")
        }
        guard let stream = try await bestLink(to: member).driver.openStream(.bytes, streamName, with: member) else {
            throw .unavailable("too many streams are open, or the link is breaking; close some streams, or try again")
        }
        return stream
    }

    /// Offers a resource to members, each of which accepts or declines.
    /// - Parameters:
    ///   - resumeKey: 32 bytes, equal for repeated sends of the same content: bytes that arrived before are not sent again.
    ///   - timeout: time in which the other user can answer once asked; 1 to 600 seconds.
    /// - Returns: one handle for each member: await its result, follow its progress, cancel it.
    /// - Throws: ``SessionError/notConnected(_:)`` when one of them cannot be reached, ``SessionError/unavailable(_:)`` while too many
    ///   offers to one of them wait; then no offer is sent.
    package func sendResource(
        _ source: any ResourceSource, to members: [PeerID], resumeKey: [UInt8], context: [UInt8] = [],
        timeout: Duration = .seconds(30)
    ) async throws(SessionError) -> [PeerID: Transfer] {
        try check(receivers: members)
        guard TransferOffer.isValid(timeout: timeout) else {
            throw .invalidParameter(TransferOffer.timeoutRule)
        }
        guard resumeKey.count == 32 else {
            throw .invalidParameter("the resume key has \(resumeKey.count) bytes; it must have 32")
        }
        guard context.count <= TransferOffer.maximumContextByteCount else {
            throw .invalidParameter(
                "the context has \(context.count) bytes; the limit is \(TransferOffer.maximumContextByteCount)")
        }
        var links: [PeerID: SessionLink] = [:]
        for member in members { links[member] = try await bestLink(to: member) }
        let offered = offers.withLock { [links] _ -> [PeerID: Transfer]? in
            guard links.values.allSatisfy(\.driver.hasRoomForOffer) else { return nil }
            return links.mapValues {
                $0.driver.send(
                    source, resumeKey: resumeKey, context: context, timeout: timeout, node.settings, node.transferProgress)
            }
        }
        guard let transfers = offered else {
            throw .unavailable("too many offers wait for a member's answers; await the results of some, or send a folder")
        }
        for (member, transfer) in transfers { follow(transfer, with: member) }
        return transfers
    }

    /// Selects the link for a stream or an offer. Waits for one when the member is reached through others without a link.
    /// - Throws: at once when the member cannot be reached.
    private func bestLink(to member: PeerID) async throws(SessionError) -> SessionLink {
        while true {
            if Task.isCancelled { throw .cancelled }
            if let link = try knownLink(to: member).get() { return link }
            demandLink(to: member)
            // For one change: the demand ends with a link that is lost again.
            await progress.waitForNotification { [self] in
                if case .success(nil) = knownLink(to: member) { false } else { true }
            }
        }
    }

    /// - Returns: nil when the member is reached, and a link is still to be opened.
    private func knownLink(to member: PeerID) -> Result<SessionLink?, SessionError> {
        state.withLock { state in
            if let refusal = state.refusal { return .failure(refusal) }
            guard member != node.id else { return .failure(.thisNode) }
            guard state.members.roster.state(of: member).isConnected else { return .failure(.notConnected(member)) }
            // The peer refuses streams and offers until it has joined as well (A1).
            guard state.members.roster.isLinked(member) else { return .success(nil) }
            let links = state.members.links(to: member).filter { $0.isComplete.load(ordering: .acquiring) }
            return .success(links.last { $0.relay == nil } ?? links.last)
        }
    }

    /// Asks for a link to a member that is reached through others.
    private func demandLink(to member: PeerID) {
        if state.withLock({ $0.members.roster.demandLink(to: member) }) { timer.wake() }
    }
}
