package import NearshareBase
package import NearshareCrypto
package import NearshareDirect

/// One end of a ``SimulatedNetwork``: the protocol's state machines with a driver without threads and files.
package struct SimulatedPeer: Sendable {
    private struct Outgoing: Sendable {
        var source: MemoryContent
        var provider: MemoryProvider
        var content: OutgoingContent?
        var limit: UInt64 = 0
        var sent: UInt64 = 0
        var isStopped = false
    }

    private struct Incoming: Sendable {
        var content: IncomingContent
        var receiver: MemoryReceiver
        var stored: UInt64 = 0
    }

    private var handshake: DirectHandshake
    private var sealer: RecordSealer?
    private var opener: RecordOpener?
    private var pending: [UInt8] = []
    private var output: [UInt8] = []
    private var notes: [String] = []
    private var outgoing: [TransferID: Outgoing] = [:]
    private var incoming: [TransferID: Incoming] = [:]
    private let nonce: [UInt8]
    private let role: HandshakeRole
    private let limits: DirectLimits
    private let name: DisplayName

    /// nil until the handshake is finished.
    package private(set) var connection: DirectConnection?
    package private(set) var closure: DirectClosure?
    /// The outcomes of transfers here, in both directions.
    package private(set) var outcomes: [TransferID: TransferOutcome] = [:]
    /// The unanswered invitations.
    package private(set) var invitations: [TransferID: TransferOffer] = [:]
    /// The received content, also incomplete, by transfer.
    package private(set) var received: [TransferID: MemoryReceiver] = [:]
    /// The link is established, and both greetings are exchanged.
    package private(set) var isEstablished = false

    init(index: Int, limits: DirectLimits, random: inout SeededRandom) {
        self.init(
            role: index == 0 ? .initiator : .responder,
            identity: LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount)),
            name: DisplayName(truncating: "peer \(index)")!, limits: limits, random: &random)
    }

    package init(
        role: HandshakeRole, identity: LocalIdentity, name: DisplayName, limits: DirectLimits, random: inout SeededRandom
    ) {
        self.role = role
        self.name = name
        self.limits = limits
        nonce = random.bytes(ShortAuthenticationString.nonceByteCount)
        // Version 1: ML-KEM's ciphertext is random, so that the short code would not be the same for the same seed.
        handshake = DirectHandshake(
            role: role, identity: identity, entropy: random.bytes(DirectHandshake.entropyByteCount),
            ciphers: CipherSet(rawValue: 6),
            versions: Preamble(newest: 1, oldest: 1))
        // This fails only for an identity of another protocol.
        output = try! handshake.start()
    }

    // MARK: User actions

    package mutating func offer(
        _ id: TransferID, _ source: MemoryContent, timeout: Duration = .seconds(60), now: MonotonicInstant
    ) {
        guard connection != nil else { return }
        outgoing[id] = Outgoing(source: source, provider: MemoryProvider(source))
        let wire = TransferOffer(
            id: id, timeout: timeout, resumeKey: ResumeKey.derive(from: source.offer), context: [], offer: source.offer)
        perform(connection!.offer(wire, now: now), now: now)
    }

    /// - Parameter kept: the content received by an earlier attempt.
    package mutating func accept(_ id: TransferID, kept: MemoryReceiver = MemoryReceiver(), now: MonotonicInstant) {
        guard let offer = invitations.removeValue(forKey: id) else { return }
        incoming[id] = Incoming(content: IncomingContent(offer: offer.offer, resumePoint: kept.resumePoint), receiver: kept)
        received[id] = kept
        perform(connection!.accept(id, now: now), now: now)
        perform(connection!.resume(id, at: kept.resumePoint, now: now), now: now)
    }

    package mutating func decline(_ id: TransferID, _ reason: DeclineReason, now: MonotonicInstant) {
        invitations[id] = nil
        perform(connection!.decline(id, reason: reason), now: now)
    }

    package mutating func cancel(_ id: TransferID, _ reason: CancelReason = .cancelled, now: MonotonicInstant) {
        guard connection != nil else { return }
        perform(connection!.cancel(id, reason: reason, now: now), now: now)
    }

    package mutating func close(_ reason: CloseReason, now: MonotonicInstant) {
        guard connection != nil else { return }
        perform(connection!.close(reason), now: now)
    }

    // MARK: Network events

    package var deadline: MonotonicInstant? { connection?.deadline }

    package mutating func advance(to now: MonotonicInstant) {
        guard connection != nil else { return }
        perform(connection!.advance(to: now), now: now)
    }

    package mutating func receive(_ bytes: [UInt8], now: MonotonicInstant) {
        guard closure == nil else { return }
        guard opener == nil else {
            connection!.recordActivity(now: now)
            pending += bytes
            return takeRecords(now: now)
        }
        switch handshake.receive(bytes) {
        case .needsMoreBytes: break
        case .send(let answer): output += answer
        case .established(let link, let answer):
            output += answer
            (sealer, opener, pending) = (link.sealer, link.opener, link.leftover)
            let code = ShortAuthenticationString(role: role, handshakeHash: link.handshakeHash, nonce: nonce)
            connection = DirectConnection(
                ownName: name, authenticationString: code, limits: limits,
                now: Moment(monotonic: now, wall: WallTime(milliseconds: 0)))
            perform(connection!.start(), now: now)
            takeRecords(now: now)
        case .failed(let failure, let answer):
            output += answer
            closure = .violation(MalformedInput("\(failure)"))
        }
    }

    /// Removes and returns the bytes to send, with as much content as the receiver has granted, and a line for each event.
    package mutating func drainOutput(now: MonotonicInstant) -> (bytes: [UInt8], notes: [String]) {
        if closure == nil { for id in outgoing.keys.sorted(by: { $0.rawValue < $1.rawValue }) { pump(id) } }
        defer { (output, notes) = ([], []) }
        return (output, notes)
    }

    // MARK: Driving

    private mutating func pump(_ id: TransferID) {
        guard var transfer = outgoing[id], transfer.content != nil, !transfer.isStopped else { return }
        while transfer.limit > transfer.sent, !transfer.content!.isFinished {
            let room = Int(min(transfer.limit - transfer.sent, UInt64(RecordFormat.maximumContentByteCount)))
            var body = [UInt8](repeating: 0, count: room)
            let count = body.withUnsafeMutableBytes { transfer.content!.fill($0, from: &transfer.provider) }
            guard count > 0 else { break }
            transfer.sent += UInt64(count)
            let header = [FrameType.content] + withUnsafeBytes(of: id.rawValue.bigEndian) { Array($0) }
            output += sealer!.seal(header + body[..<count])
        }
        if transfer.content!.isFinished {
            connection!.willSendLastBlock(id)
            transfer.isStopped = true
            notes.append("sent everything of \(id)")
        }
        outgoing[id] = transfer
    }

    private mutating func takeRecords(now: MonotonicInstant) {
        do {
            while closure == nil,
                let length = try pending.withUnsafeBytes({ try RecordOpener.recordByteCount($0) }), pending.count >= length
            {
                var record = Array(pending.prefix(length))
                pending.removeFirst(length)
                let range = try record.withUnsafeMutableBytes { try opener!.openInPlace($0) }
                let frame = Array(record[range])
                if frame[0] == FrameType.content {
                    try takeContent(frame, now: now)
                } else if let control = try ControlFrame.decode(frame) {
                    perform(connection!.receive(control, now: now), now: now)
                }
            }
        } catch IncomingContentError<Never>.violation(let what) {
            perform(connection!.violation(what), now: now)
        } catch {
            perform(connection!.violation(MalformedInput("\(error)")), now: now)
        }
    }

    private mutating func takeContent(_ frame: [UInt8], now: MonotonicInstant) throws {
        let id = TransferID(rawValue: frame[1..<9].reduce(0) { $0 << 8 | UInt64($1) })
        let (verdict, reactions) = connection!.receiveContent(id, byteCount: frame.count - 9, now: now)
        perform(reactions, now: now)
        guard verdict == .deliver, var transfer = incoming[id] else { return }
        try frame.withUnsafeBytes {
            try transfer.content.consume(UnsafeRawBufferPointer(rebasing: $0[9...]), into: &transfer.receiver)
        }
        transfer.stored += UInt64(frame.count - 9)
        incoming[id] = transfer
        received[id] = transfer.receiver
        perform(connection!.recordStored(id, upTo: transfer.stored, now: now), now: now)
        if transfer.content.isComplete, connection!.beginFinishing(id, now: now) {
            perform(connection!.finish(id, now: now), now: now)
        }
    }

    private mutating func perform(_ reactions: [DirectReaction], now: MonotonicInstant) {
        for reaction in reactions {
            switch reaction {
            case .send(let frame): output += sealer!.seal(frame.encoded)
            case .helloReceived: break
            case .authenticationStringReady(let text):
                isEstablished = true
                notes.append("sees \(text)")
            case .verificationRequested, .verificationAnswered, .hotspot: break
            case .offerReceived(let offer, _):
                invitations[offer.id] = offer
                notes.append("invited to \(offer.id)")
            case .offerAccepted(let id): notes.append("accepted \(id)")
            case .startSending(let id, let point):
                guard var transfer = outgoing[id] else { continue }
                var start = StartPoint.beginning
                if point != .start, let found = StartPoint.find(point, in: &transfer.provider) {
                    start = found
                } else {
                    transfer.provider = MemoryProvider(transfer.source)
                }
                transfer.content = OutgoingContent(from: start)
                outgoing[id] = transfer
                notes.append("sends \(id) from \(start.completeEntries), \(start.offset)")
            // These peers offer without the feature.
            case .withdrawalAllowed, .partSelected, .listFiles, .sendDigests, .filesPresent: break
            case .windowRaised(let id, let limit):
                let before = outgoing[id]?.limit ?? 0
                outgoing[id]?.limit = max(before, limit)
            case .stopSending(let id): outgoing[id]?.isStopped = true
            case .namesChanged(let id, let names): notes.append("\(names.count) names of \(id) changed")
            case .outputClosed(let id): notes.append("the output for \(id) was closed")
            case .outgoingEnded(let id, let outcome), .incomingEnded(let id, let outcome):
                outgoing[id] = nil
                incoming[id] = nil
                invitations[id] = nil
                outcomes[id] = outcome
                notes.append("\(id) ended: \(outcome)")
            case .closed(let why):
                closure = why
                notes.append("closed: \(why)")
            }
        }
    }
}
