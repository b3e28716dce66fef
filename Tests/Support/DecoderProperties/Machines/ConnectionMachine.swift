import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareTesting

extension DecoderProperty {
    /// Two connections, with frames that take as long as the script wants; or one, with a peer that sends any frame.
    static let directConnection = Self(
        name: "direct-connection",
        seeds: [
            // Both greet; one offers, the other accepts, resumes, receives with credit, stores and finishes.
            [0, 9, 255, 0, 20, 9, 255, 5, 1, 9, 255, 1, 1, 9, 255]
                + (0..<8).flatMap { _ in [4, 0, 255, 9, 255, 2, 1, 255, 9, 255] as [UInt8] } + [3, 1, 9, 255],
            // A cancel by each side, a comparison, a close.
            [0, 9, 255, 0, 20, 9, 255, 6, 0, 0, 0, 6, 1, 0, 0, 10, 80, 7, 0, 9, 255, 7, 1, 9, 255, 8, 1, 9, 255, 10, 200],
            // An untrusted peer: hello, reveal, an offer of 2,000 bytes, its content; a close before the hello.
            [1, 11, 0, 1, 0, 0, 0, 11, 0, 0, 0, 0, 1, 11, 5, 208, 7, 0, 6, 5, 0, 0, 1, 0, 12, 5, 40, 2, 0, 255]
                + [12, 5, 50, 2, 0, 255, 12, 5, 10, 2, 0, 255, 3, 0], [1, 0, 0, 20, 11, 0, 0, 0, 0, 15],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes)
        var pair = ConnectionPair(isUntrusted: script.flag())
        while let event = script.nextEvent(below: 13) { try pair.perform(event, &script) }
        try pair.settle(&script)
        return pair.sides.contains { !$0.outcomes.isEmpty }
    }
}

/// One end, and what its driver knows.
private struct ConnectionSide {
    enum Sent {
        case frame(ControlFrame)
        case content(TransferID, Int)
    }

    struct Outgoing {
        let size: UInt64
        var limit: UInt64 = 0
        var sent: UInt64 = 0
        var isStarted = false
        var isStopped = false
    }

    struct Incoming {
        let size: UInt64
        var isAccepted = false
        var isResumed = false
        var received: UInt64 = 0
        var stored: UInt64 = 0
    }

    var machine: DirectConnection
    var sent: [Sent] = []
    var outgoing: [TransferID: Outgoing] = [:]
    var incoming: [TransferID: Incoming] = [:]
    var outcomes: [TransferID: TransferOutcome] = [:]
    var closure: DirectClosure?
    var fault: String?

    mutating func perform(_ reactions: [DirectReaction]) {
        for reaction in reactions {
            // An offer that comes too late ends at once.
            if closure != nil, case .outgoingEnded(_, .interrupted) = reaction {
            } else if closure != nil {
                fault = "\(reaction) after the end"
            }
            switch reaction {
            case .send(let frame): sent.append(.frame(frame))
            case .offerReceived(let offer, _):
                incoming[offer.id] = Incoming(size: offer.offer.totalSize ?? 0)
                if incoming.values.count(where: { !$0.isAccepted }) > 1 || incoming.count > 4 {
                    fault = "\(incoming.count) incoming transfers"
                }
            case .startSending(let id, _): outgoing[id]?.isStarted = true
            case .windowRaised(let id, let limit):
                let before = outgoing[id]?.limit ?? 0
                outgoing[id]?.limit = max(before, limit)
            case .stopSending(let id): outgoing[id]?.isStopped = true
            case .outgoingEnded(let id, let outcome), .incomingEnded(let id, let outcome):
                if outcomes.updateValue(outcome, forKey: id) != nil { fault = "\(id) ends twice" }
                outgoing[id] = nil
                incoming[id] = nil
            case .closed(let why): closure = why
            default: break
            }
        }
    }
}

private struct ConnectionPair {
    private static let window: UInt64 = 1_000

    var sides: [ConnectionSide] = []
    /// The second side's machine is unused; frames to the first are made up.
    private let isUntrusted: Bool
    private var isBroken = false
    private var lastID: UInt64 = 0

    init(isUntrusted: Bool) {
        self.isUntrusted = isUntrusted
        var limits = DirectLimits()
        limits.window = Self.window
        limits.unusedLinkTimeout = .seconds(60)
        for role in [HandshakeRole.initiator, .responder] {
            let string = ShortAuthenticationString(
                role: role, handshakeHash: [UInt8](repeating: 1, count: 32),
                nonce: [UInt8](
                    repeating: role == .initiator ? 2 : 3, count: ShortAuthenticationString.nonceByteCount))
            var side = ConnectionSide(
                machine: DirectConnection(
                    ownName: DisplayName(truncating: "node")!, authenticationString: string, limits: limits,
                    now: EventScript([]).now))
            side.perform(side.machine.start())
            sides.append(side)
        }
    }

    mutating func perform(_ event: Int, _ script: inout EventScript) throws(DecoderProperty.Violation) {
        let now = script.now.monotonic
        switch event {
        case 0:
            let side = script.number(below: 2)
            guard lastID < 64 else { break }
            lastID += 1
            let id = TransferID(rawValue: lastID)
            // A peer cannot know an id that is not drawn yet.
            guard sides[side].incoming[id] == nil, sides[side].outcomes[id] == nil else { break }
            // The end mark makes every stream longer than nothing.
            let size = 1 + UInt64(script.number(below: 256)) * 20
            let item = OfferedItem(kind: .file, name: ClaimedFileName("a")!, size: size, entryCount: 1, mediaType: .unknown)
            let offer = TransferOffer(
                id: id, timeout: .seconds(60), resumeKey: [UInt8](repeating: 1, count: 32), context: [],
                offer: Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: size))
            sides[side].outgoing[id] = ConnectionSide.Outgoing(size: size)
            sides[side].perform(sides[side].machine.offer(offer, now: now))
        case 1...3, 5: receive(event, side: script.number(below: 2), &script)
        case 4: send(side: script.number(below: 2), count: script.number(below: 256) * 4, &script)
        case 6:
            let side = script.number(below: 2)
            let transfers = (1...max(lastID, 1)).map(TransferID.init)
            guard let id = script.element(of: transfers) else { break }
            let reason = CancelReason(rawValue: UInt8(script.number(below: 8))) ?? .cancelled
            sides[side].perform(sides[side].machine.cancel(id, reason: reason, now: now))
        case 7:
            let side = script.number(below: 2)
            sides[side].perform(sides[side].machine.requestVerification())
            sides[side].perform(sides[side].machine.answerVerification(matches: true))
        case 8:
            let side = script.number(below: 2)
            sides[side].perform(sides[side].machine.close(.goingAway))
        case 9: try deliver(upTo: script.number(below: 256), &script)
        case 10:
            script.elapse()
            try advance(script)
        case 11 where isUntrusted: inject(&script)
        case 12 where isUntrusted:
            let id = TransferID(rawValue: UInt64(script.number(below: 70)))
            try deliverContent(id, script.number(below: 256) * 20, to: 0, script)
        case 12: agree(&script)
        case 11:
            isBroken = true
            for side in 0..<2 { sides[side].perform(sides[side].machine.linkEnded()) }
        default: break
        }
        try check()
    }

    /// The receiver's driver: accepts (5), resumes (1), stores (2), finishes (3). Event 5 declines where the script says so.
    private mutating func receive(_ event: Int, side: Int, _ script: inout EventScript) {
        let now = script.now.monotonic
        for id in sides[side].incoming.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard let transfer = sides[side].incoming[id] else { continue }
            switch event {
            case 5 where !transfer.isAccepted:
                if script.number(below: 8) == 7 {
                    sides[side].perform(sides[side].machine.decline(id, reason: .declined))
                } else {
                    sides[side].incoming[id]?.isAccepted = true
                    sides[side].perform(sides[side].machine.accept(id, now: now))
                }
            case 1 where transfer.isAccepted && !transfer.isResumed:
                sides[side].incoming[id]?.isResumed = true
                sides[side].perform(sides[side].machine.resume(id, at: .start, now: now))
            case 2:
                let stored = min(transfer.received, transfer.stored + UInt64(script.number(below: 256)) * 4)
                sides[side].incoming[id]?.stored = stored
                sides[side].perform(sides[side].machine.recordStored(id, upTo: stored, now: now))
            case 3 where transfer.isResumed && transfer.received == transfer.size:
                if sides[side].machine.beginFinishing(id, now: now) {
                    sides[side].perform(sides[side].machine.finish(id, now: now))
                }
            default: break
            }
        }
    }

    /// The sender's driver: at most what the window allows.
    private mutating func send(side: Int, count: Int, _ script: inout EventScript) {
        for id in sides[side].outgoing.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard var transfer = sides[side].outgoing[id], transfer.isStarted, !transfer.isStopped else { continue }
            let part = min(UInt64(count), transfer.size - transfer.sent, transfer.limit - min(transfer.limit, transfer.sent))
            transfer.sent += part
            if part > 0 { sides[side].sent.append(.content(id, Int(part))) }
            if transfer.sent == transfer.size {
                sides[side].machine.willSendLastBlock(id)
                transfer.isStopped = true
            }
            sides[side].outgoing[id] = transfer
        }
    }

    private mutating func deliver(upTo limit: Int, _ script: inout EventScript) throws(DecoderProperty.Violation) {
        guard !isUntrusted, !isBroken else { return }
        for from in 0..<2 {
            for _ in 0..<min(limit, sides[from].sent.count) {
                switch sides[from].sent.removeFirst() {
                case .frame(let frame):
                    let read = (try? ControlFrame.decode(frame.encoded)) ?? .close(.violation)
                    sides[1 - from].perform(sides[1 - from].machine.receive(read, now: script.now.monotonic))
                case .content(let id, let count): try deliverContent(id, count, to: 1 - from, script)
                }
            }
        }
    }

    private mutating func deliverContent(
        _ id: TransferID, _ count: Int, to side: Int, _ script: EventScript
    ) throws(DecoderProperty.Violation) {
        let (verdict, reactions) = sides[side].machine.receiveContent(id, byteCount: count, now: script.now.monotonic)
        sides[side].perform(reactions)
        guard verdict == .deliver else { return }
        let transfer = sides[side].incoming[id]
        try DecoderProperty.require(transfer?.isResumed == true, "content that was not asked for")
        sides[side].incoming[id]?.received += UInt64(count)
        let kept = (transfer?.received ?? 0) + UInt64(count)
        try DecoderProperty.require(
            kept <= (transfer?.stored ?? 0) + Self.window, "\(kept) bytes waiting to be stored, beyond the window")
    }

    /// A step of either user towards a hotspot, whether or not it is the time for it.
    private mutating func agree(_ script: inout EventScript) {
        let (now, side) = (script.now.monotonic, script.number(below: 2))
        let reactions: [DirectReaction]
        switch script.number(below: 8) {
        case 0, 1:
            let id = TransferID(rawValue: UInt64(script.number(below: 4)))
            // Only the side that has opened the link asks.
            return sides[0].perform(sides[0].machine.requestHotspot(for: id, [.accessPoint, .station], now: now))
        case 2: reactions = sides[side].machine.reportHotspotQuestion()
        case 3, 4:
            let accessPoint = script.number(below: 2) == 0 ? HotspotEnd.requester : .responder
            reactions = sides[side].machine.agreeHotspot(accessPoint: accessPoint, port: 1, now: now)
        case 5: reactions = sides[side].machine.announceHotspot(Self.hotspot, now: now)
        case 6: reactions = sides[side].machine.confirmHotspotJoined()
        default: reactions = sides[side].machine.endHotspot(.done)
        }
        sides[side].perform(reactions)
    }

    private static let hotspot = HotspotNetwork(
        ssid: "nearshare-0", passphrase: "12345678", band: nil, accessPointAddress: .v4(0x0a00_0001),
        stationAddress: .v4(0x0a00_0002))!

    private mutating func inject(_ script: inout EventScript) {
        let id = TransferID(rawValue: UInt64(script.number(below: 70)))
        let number = UInt64(script.number(below: 1 << 16)) << UInt64(script.number(below: 48))
        let digest = [UInt8](repeating: 1, count: 32)
        let item = OfferedItem(kind: .file, name: ClaimedFileName("a")!, size: number, entryCount: 1, mediaType: .unknown)
        let nonce = [UInt8](repeating: 3, count: ShortAuthenticationString.nonceByteCount)
        let commitment = ShortAuthenticationString(
            role: .responder, handshakeHash: [UInt8](repeating: 1, count: 32), nonce: nonce
        ).commitment
        let frames: [ControlFrame] = [
            .hello(name: DisplayName(truncating: "b")!, commitment: commitment, time: WallTime(milliseconds: Int64(number))),
            .reveal(nonce: nonce), .ping(number), .pong(number), .compare, .compared(isSame: true),
            .offer(
                TransferOffer(
                    id: id, timeout: .seconds(Int(number % 1_000)), resumeKey: digest, context: [],
                    offer: Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: number))),
            .accept(id, window: number), .decline(id, .busy),
            .resume(
                id, ResumePoint(completeEntries: number, entriesDigest: digest, partialSize: number, partialDigest: digest)),
            .credit(id, upTo: number), .changedNames(id, ChangedNames()), .stored(id), .cancel(id, .cancelled), .cancelled(id),
            .close(.done), .hotspot(.request(id, [.accessPoint, .station])), .hotspot(.asking),
            .hotspot(.agree(accessPoint: number % 2 == 0 ? .requester : .responder, port: 1)), .hotspot(.network(Self.hotspot)),
            .hotspot(.joined),
            .hotspot(.end(.failed)),
        ]
        guard let frame = script.element(of: frames) else { return }
        sides[0].perform(sides[0].machine.receive(frame, now: script.now.monotonic))
    }

    private mutating func advance(_ script: EventScript) throws(DecoderProperty.Violation) {
        for side in 0..<(isUntrusted ? 1 : 2) {
            sides[side].perform(sides[side].machine.advance(to: script.now.monotonic))
            try DecoderProperty.requireProgress(sides[side].machine.deadline, script.now)
        }
    }

    private func check() throws(DecoderProperty.Violation) {
        for side in sides {
            if let fault = side.fault { throw DecoderProperty.Violation(description: fault) }
            try DecoderProperty.require((side.closure == nil) == !side.machine.isClosed, "closed without saying so")
            try DecoderProperty.require(
                side.closure == nil || side.machine.isIdle, "a closed connection with transfers that have not ended")
            try DecoderProperty.require(
                side.closure == nil || side.machine.deadline == nil, "a closed connection with a deadline")
            // Every race between two peers that keep to the protocol is foreseen.
            if !isUntrusted, case .violation(let what)? = side.closure {
                throw DecoderProperty.Violation(description: "a violation by a peer that keeps to the protocol: \(what)")
            }
        }
    }

    /// Delivers everything, and lets every deadline pass; then both ends have the same view.
    mutating func settle(_ script: inout EventScript) throws(DecoderProperty.Violation) {
        for _ in 0..<64 {
            try deliver(upTo: .max, &script)
            try check()
            let deadlines = sides.prefix(isUntrusted ? 1 : 2).compactMap(\.machine.deadline)
            guard let next = deadlines.min() else { break }
            script.elapse(to: next)
            try advance(script)
            try check()
        }
        guard !isUntrusted else { return }
        for id in (1...max(lastID, 1)).map(TransferID.init) {
            for side in 0..<2 where sides[side].outcomes[id] == .completed {
                let other = sides[1 - side].outcomes[id]
                // The receiver's word may be lost with the link; the sender's may not be ahead of it.
                try DecoderProperty.require(
                    other == .completed || isBroken || sides[1 - side].closure != nil || sides[side].closure != nil,
                    "\(id) is complete at one end, \(String(describing: other)) at the other")
            }
        }
    }
}
