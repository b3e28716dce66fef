import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareTesting
import Testing

@testable import NearshareEngine

/// The control side of links on virtual time. Frames are exchanged as they are, without records.
@Suite("link machine") struct LinkMachineTests {
    /// Both ends of one link.
    private struct SimulatedLinks: Simulation {
        struct Frame {
            let bytes: [UInt8]
            let to: Int
        }

        var timeline: Timeline<Frame>
        var ends: [LinkMachine]
        var reactions: [[LinkMachine.Reaction]] = [[], []]
        /// Whether frames are delivered.
        var isConnected = true
        var conditions = SimulatedLine.Conditions()
        /// The pings that each end has sent.
        var pingCounts = [0, 0]
        private var lines = [SimulatedLine(), SimulatedLine()]

        init(seed: UInt64) {
            timeline = Timeline(seed: seed)
            ends = [LinkMachine(now: timeline.now), LinkMachine(now: timeline.now)]
        }

        mutating func establish() {
            let hash = timeline.random.bytes(32)
            for (number, role) in [HandshakeRole.initiator, .responder].enumerated() {
                let code = ShortAuthenticationString(
                    role: role, handshakeHash: hash,
                    nonce: timeline.random.bytes(ShortAuthenticationString.nonceByteCount))
                ends[number].establish(
                    DirectConnection(
                        ownName: DisplayName(truncating: "end \(number)")!, authenticationString: code,
                        limits: DirectLimits(), now: timeline.moment))
                settle(number)
            }
        }

        mutating func end(_ number: Int, _ input: (inout LinkMachine, MonotonicInstant) -> Void) {
            input(&ends[number], now)
            settle(number)
        }

        var deadline: MonotonicInstant? { ends.compactMap(\.deadline).min() }

        mutating func handle(_ frame: Frame) {
            guard isConnected, let control = try? ControlFrame.decode(frame.bytes) else { return }
            let moment = now
            _ = ends[frame.to].decide { $0.receive(control, now: moment) }
            settle(frame.to)
        }

        mutating func advanceMachines() {
            for number in ends.indices where advance(&ends[number], to: now) { settle(number) }
        }

        private mutating func settle(_ number: Int) {
            reactions[number] += ends[number].drainReactions()
            for frame in ends[number].drainFrames() {
                if case .ping? = try? ControlFrame.decode(frame) { pingCounts[number] += 1 }
                lines[number].send(Frame(bytes: frame, to: 1 - number), conditions, on: &timeline)
            }
        }
    }

    private func established(_ seed: UInt64 = 1) -> SimulatedLinks {
        var links = SimulatedLinks(seed: seed)
        links.establish()
        links.run(for: .seconds(1))
        return links
    }

    private func closure(_ reactions: [LinkMachine.Reaction]) -> DirectClosure? {
        for case .connection(.closed(let closure)) in reactions { return closure }
        return nil
    }

    private func cutCount(_ reactions: [LinkMachine.Reaction]) -> Int {
        reactions.count { if case .cut = $0 { true } else { false } }
    }

    @Test("R5: a peer that is silent during the handshake is cut once its time is over")
    func silentPeer() {
        var links = SimulatedLinks(seed: 1)
        let start = links.now
        let isClosed = links.run(for: .seconds(3600)) { cutCount($0.reactions[0]) > 0 }
        #expect(isClosed && links.now == start + DirectLimits.handshakeTimeout)
        #expect(links.ends[0].isHandshakeLate && links.ends[0].deadline == nil)
        links.end(0) { machine, _ in
            machine.recordEndOfReading()
            machine.failHandshake()
        }
        #expect(links.ends[0].isEnding && cutCount(links.reactions[0]) == 1)
    }

    @Test("both ends greet, an idle link stays, and a broken one is noticed by both", arguments: seeds(0..<8))
    func keepalive(seed: UInt64) {
        var links = established(seed)
        for reactions in links.reactions {
            let isGreeted = reactions.contains { if case .connection(.authenticationStringReady) = $0 { true } else { false } }
            #expect(isGreeted, "seed \(seed)")
        }
        links.run(for: .seconds(3600))
        #expect(links.reactions.allSatisfy { closure($0) == nil }, "seed \(seed)")
        links.isConnected = false
        let broken = links.now
        let areClosed = links.run(for: .seconds(3600)) { links in links.reactions.allSatisfy { closure($0) == .lost } }
        #expect(areClosed && links.now - broken <= DirectLimits.idleTimeout, "seed \(seed)")
        #expect(links.ends.allSatisfy { $0.isEnding }, "seed \(seed)")
    }

    @Test("the round-trip time follows a link that is never silent, at one ping of each end every four seconds")
    func roundTripTime() {
        var links = established()
        for number in 0..<2 {
            links.end(number) { machine, now in _ = machine.decide { $0.measureRoundTripTime(now: now) } }
        }
        for delay in [Duration.milliseconds(20), .milliseconds(100), .milliseconds(5)] {
            links.conditions.delay = delay...delay
            let counts = links.pingCounts
            // Both ends of a game at 60 frames a second.
            for _ in 0..<600 {
                links.run(for: .nanoseconds(16_666_667))
                for number in 0..<2 {
                    links.end(number) { machine, now in machine.recordActivity(byteCount: 40, now: now) }
                }
            }
            #expect(links.ends.allSatisfy { $0.roundTripTime == delay * 2 })
            #expect(zip(links.pingCounts, counts).allSatisfy { (2...3).contains($0 - $1) })
        }
    }

    @Test("S7: rosters wait in order, as each has other entries, and too many of them cut the link")
    func rosters() {
        var machine = established().ends[0]
        let id = SessionID(bytes: [UInt8](repeating: 5, count: 16))!
        let sent: [SessionFrame] = [.roster(id, []), .leave(id), .roster(id, [])]
        for frame in sent { machine.send(frame) }
        #expect(machine.drainFrames() == sent.map(\.encoded))
        #expect(!machine.hasFrames)
        _ = machine.drainReactions()
        for _ in 0..<LinkMachine.maximumQueuedRosterCount { machine.send(.roster(id, [])) }
        #expect(machine.drainReactions().isEmpty)
        machine.send(.roster(id, []))
        let isClosed = machine.drainReactions().contains { if case .cut = $0 { true } else { false } }
        #expect(isClosed)
    }

    @Test("R1: a peer that asks without reading the replies is cut")
    func unreadReplies() {
        let links = established()
        var machine = links.ends[0]
        for number in 0..<LinkMachine.maximumQueuedFrameCount {
            _ = machine.decide { $0.receive(.ping(UInt64(number)), now: links.now) }
        }
        #expect(cutCount(machine.drainReactions()) == 0)
        _ = machine.decide { $0.receive(.ping(0), now: links.now) }
        #expect(cutCount(machine.drainReactions()) == 1)
    }

    @Test("datagrams beyond the limit are dropped, and none is queued before the handshake is finished")
    func datagrams() {
        var machine = LinkMachine(now: MonotonicInstant(nanoseconds: 0))
        machine.sendDatagram([1])
        #expect(!machine.hasFrames)
        machine = established().ends[0]
        for _ in 0..<LinkMachine.maximumQueuedDatagramCount + 9 { machine.sendDatagram([1]) }
        #expect(machine.drainFrames().count == LinkMachine.maximumQueuedDatagramCount)
    }

    @Test("a closed link lingers until the peer has read, or the time for that is over")
    func lingering() {
        var links = established()
        links.end(0) { machine, _ in _ = machine.close(.goingAway) }
        #expect(links.ends[0].isEnding)
        links.run(for: .milliseconds(100))
        #expect(closure(links.reactions[1]) == .closed(by: .remote, .goingAway))
        let written = links.now
        links.end(0) { $0.finishWriting(now: $1) }
        #expect(!links.ends[0].isFinished)
        var read = links.ends[0]
        read.recordEndOfReading()
        #expect(read.isFinished)
        let isFinished = links.run(for: .seconds(60)) { $0.ends[0].isFinished }
        #expect(isFinished && links.now == written + LinkMachine.lingerTime)
    }

    @Test("a link on which nothing is left to do does not linger")
    func done() {
        var links = established()
        links.end(0) { machine, _ in _ = machine.close(.done) }
        links.end(0) { $0.finishWriting(now: $1) }
        #expect(links.ends[0].isFinished)
    }
}
