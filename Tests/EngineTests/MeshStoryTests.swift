import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareMesh
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Nodes that discover each other and exchange frames, in memory and over loopback.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct MeshStoryTests {
    /// Ada sends to Bea through the mesh; Bea answers each invitation with `answer`.
    private func send(
        _ content: MemoryContent, on stage: Stage, blocked: Bool = false,
        _ answer: @Sendable @escaping (Invitation) async -> Void,
        meanwhile: @Sendable @escaping (Transfer) async -> Void = { _ in }
    ) async throws -> TransferResult {
        try await meet(neighbours(stage, blocked: blocked)) { _, listener in
            for await invitation in listener.invitations { await answer(invitation) }
        } sending: { mesh, bea in
            let transfer = try mesh.send(InMemorySource(content), to: bea)
            await meanwhile(transfer)
            return await transfer.result
        }
    }

    /// Runs both nodes. Ada's runs until the end of `body`, to which Bea is a peer of the mesh; Bea's until `answer` has handled all
    /// invitations.
    private func meet<Result: Sendable>(
        _ nodes: (sender: NodeSettings, receiver: NodeSettings),
        answering answer: @Sendable @escaping (Node, Listener) async throws -> Void,
        sending body: @Sendable @escaping (MeshDriver, MeshPeer) async throws -> Result
    ) async throws -> Result {
        let (sender, receiver) = nodes
        return try await withNode(receiver) { receiver in
            let listener = try receiver.listen()
            async let answers: Void = answer(receiver, listener)
            let result = try await withNode(sender) { sender in
                let mesh = sender.joinMesh()
                return try await body(mesh, try await mesh.find("Bea", timeout: .seconds(20)))
            }
            receiver.beginShutdown()
            try await answers
            return result
        }
    }

    /// Ada and Bea, who find each other.
    /// - Parameter blocked: Bea wants nothing from Ada.
    private func neighbours(_ stage: Stage, blocked: Bool = false) -> (sender: NodeSettings, receiver: NodeSettings) {
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        var (ada, bea) = (stage.sender, stage.receiver)
        ada.discovery = segment.join(host: "127.0.0.1")
        bea.discovery = segment.join(host: "127.0.0.1")
        if blocked { bea.trustStatus = { peer, _ in peer.id == Stage.ada.peerID ? .known(.blocked, isFriend: false) : .new } }
        return (ada, bea)
    }

    private func file(_ count: Int) -> MemoryContent {
        MemoryContent(file: "a", (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) })
    }

    @Test("an accepted file arrives, with progress in fragments on both sides", arguments: LinkKind.allCases)
    func sends(_ linkKind: LinkKind) async throws {
        let content = file(100_000)
        let sink = InMemorySink()
        let receiverProgress = Monitor<TransferProgress?>(nil)
        let sentFragmentCounts = Monitor<[Int]>([])
        let result = try await send(content, on: Stage(linkKind)) { invitation in
            #expect(invitation.peer.id == Stage.ada.peerID)
            #expect(invitation.peer.address == nil)
            #expect(await invitation.shortCode == nil)
            let transfer = invitation.accept(into: sink)
            #expect(await transfer.result.outcome == .completed)
            receiverProgress.update { $0 = transfer.snapshot }
        } meanwhile: { transfer in
            for await progress in transfer.progress {
                if let done = progress.fragments?.done { sentFragmentCounts.update { $0.append(done) } }
            }
        }
        #expect(result.outcome == .completed)
        #expect(sink.received.entries.map(\.bytes) == content.entries.map(\.bytes))
        let fragments = try #require(receiverProgress.withLock { $0 }?.fragments)
        #expect(fragments.done == fragments.total && fragments.total > 1)
        #expect(sentFragmentCounts.withLock { $0 }.last == fragments.total)
    }

    @Test("A3: the same file sent again is asked about again, and sent again") func again() async throws {
        let content = file(50_000)
        let sinks = [InMemorySink(), InMemorySink()]
        let (mayDecline, decline) = AsyncStream.makeStream(of: Void.self)
        try await meet(neighbours(Stage(.memory))) { _, listener in
            var free = sinks
            for await invitation in listener.invitations {
                if free.isEmpty {
                    for await _ in mayDecline {}
                    invitation.decline()
                } else {
                    _ = await invitation.accept(into: free.removeFirst()).result
                }
            }
        } sending: { mesh, bea in
            for _ in sinks {
                let result = await (try mesh.send(InMemorySource(content), to: bea)).result
                #expect(result.outcome == .completed)
            }
            // Both at once: one is asked about and declined; the other fails with the reason.
            let both = [try mesh.send(InMemorySource(content), to: bea), try mesh.send(InMemorySource(content), to: bea)]
            let results = await withTaskGroup { group in
                for transfer in both { group.addTask { await transfer.result } }
                let first = await group.next()!
                decline.finish()
                return [first, await group.next()!]
            }
            #expect(results.count { $0.outcome == .declined(.declined) } == 1)
            #expect(results.count { $0.detail?.contains("already being sent") == true } == 1)
        }
        for sink in sinks { #expect(sink.received.entries.map(\.bytes) == content.entries.map(\.bytes)) }
    }

    @Test("a text counts as delivered when accepted, and not when declined", arguments: LinkKind.allCases)
    func texts(_ linkKind: LinkKind) async throws {
        let sink = InMemorySink()
        let asked = Monitor(0)
        try await meet(neighbours(Stage(linkKind))) { _, listener in
            for await invitation in listener.invitations {
                if asked.update({ (count: inout Int) -> Int in
                    count += 1
                    return count
                }) == 1 {
                    invitation.decline()
                } else {
                    _ = await invitation.accept(into: sink).result
                }
            }
        } sending: { mesh, bea in
            let declined = try mesh.send(InMemorySource(MemoryContent(text: "not this")), to: bea)
            for await progress in declined.progress where progress.phase == .waiting { break }
            #expect(
                await (try mesh.send(InMemorySource(MemoryContent(text: "but this")), to: bea)).result.outcome == .completed
            )
            // A session keeps the order: an acknowledgement of the first one would have arrived.
            #expect(declined.snapshot.phase == .waiting)
            declined.cancel()
            #expect(await declined.result.outcome == .cancelled(by: .local))
        }
        #expect(sink.received.entries.map(\.bytes) == [Array("but this".utf8)])
        #expect(asked.withLock { $0 } == 2)
    }

    @Test("R11: an unanswered text of a peer that the user does not know expires", arguments: LinkKind.allCases)
    func undecidedText(_ linkKind: LinkKind) async throws {
        var nodes = neighbours(Stage(linkKind))
        nodes.receiver.undecidedContentTimeout = .milliseconds(50)
        let late = Promise<TransferResult>()
        try await meet(nodes) { _, listener in
            for await invitation in listener.invitations {
                #expect(await invitation.ended == .expired)
                late.fulfil(await invitation.accept(into: InMemorySink()).result)
            }
        } sending: { mesh, bea in
            let transfer = try mesh.send(InMemorySource(MemoryContent(text: "unasked")), to: bea)
            #expect(await late.value?.outcome == .expired)
            transfer.cancel()
        }
    }

    @Test("content that arrived before the node left the mesh can still be accepted", arguments: LinkKind.allCases)
    func undecidedAfterLeaving(_ linkKind: LinkKind) async throws {
        let sink = InMemorySink()
        let isAccepted = Promise<TransferResult>()
        try await meet(neighbours(Stage(linkKind))) { receiver, listener in
            for await invitation in listener.invitations {
                try await receiver.leaveMesh(closing: listener)
                isAccepted.fulfil(await invitation.accept(into: sink).result)
            }
        } sending: { mesh, bea in
            let transfer = try mesh.send(InMemorySource(MemoryContent(text: "unasked")), to: bea)
            #expect(await isAccepted.value?.outcome == .completed)
            transfer.cancel()
        }
        #expect(sink.received.entries.map(\.bytes) == [Array("unasked".utf8)])
    }

    @Test("an unanswered offer expires, and is then no longer asked about", arguments: LinkKind.allCases)
    func timeout(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let (sender, receiver) = neighbours(stage)
        let content = file(1_000)
        try await withNode(receiver) { receiver in
            let listener = try receiver.listen()
            async let end: TransferOutcome? = {
                for await invitation in listener.invitations { return await invitation.ended }
                return nil
            }()
            try await withNode(sender) { sender in
                let mesh = sender.joinMesh()
                let bea = try await mesh.find("Bea", timeout: .seconds(20))
                let transfer = try mesh.send(InMemorySource(content), to: bea, timeout: .seconds(3))
                #expect(await transfer.result.outcome == .expired)
            }
            #expect(await end == .expired)
            receiver.beginShutdown()
        }
    }

    @Test("a decline is reported; an unanswered invitation is declined", arguments: LinkKind.allCases)
    func declines(_ linkKind: LinkKind) async throws {
        // The mesh has one reason for both.
        #expect(try await send(file(1), on: Stage(linkKind)) { $0.decline(.noSpace) }.outcome == .declined(.tooLarge))
        #expect(try await send(file(2), on: Stage(linkKind)) { _ in }.outcome == .declined(.declined))
    }

    @Test("R11: files of a blocked peer through the mesh are never asked about", arguments: LinkKind.allCases)
    func blocked(_ linkKind: LinkKind) async throws {
        let result = try await send(file(3), on: Stage(linkKind), blocked: true) { Issue.record("asked about \($0.offer)") }
        #expect(result.outcome == .declined(.acceptsNothing))
    }

    @Test("R11: offers of a peer that is declined repeatedly are soon declined without a question") func declinedAgain()
        async throws
    {
        let asked = Monitor(0)
        try await meet(neighbours(Stage(.memory))) { _, listener in
            for await invitation in listener.invitations {
                asked.update { $0 += 1 }
                invitation.decline()
            }
        } sending: { mesh, bea in
            for number in 1...PromptRateLimiter.maximumCountPerSource + 2 {
                let outcome = await (try mesh.send(InMemorySource(file(number)), to: bea)).result.outcome
                #expect(
                    outcome == .declined(number <= PromptRateLimiter.maximumCountPerSource ? .declined : .busy), "\(number)")
            }
        }
        #expect(asked.withLock { $0 } == PromptRateLimiter.maximumCountPerSource)
    }

    @Test("R11: offers through the mesh that a rule declines take nothing from the questions")
    func declinedByRule() async throws {
        let count = PromptRateLimiter.maximumCountPerSource + 2
        try await meet(neighbours(Stage(.memory))) { _, listener in
            for await invitation in listener.invitations { invitation.declineUnprompted(.tooLarge) }
        } sending: { mesh, bea in
            for number in 1...count {
                let outcome = await (try mesh.send(InMemorySource(file(number)), to: bea)).result.outcome
                #expect(outcome == .declined(.tooLarge), "\(number)")
            }
        }
    }

    @Test("A8: a cancel is reported on both sides", arguments: LinkKind.allCases, [true, false])
    func cancels(_ linkKind: LinkKind, bySender: Bool) async throws {
        let sink = InMemorySink()
        let receiverOutcome = Monitor<TransferOutcome?>(nil)
        let isAccepted = Promise<Bool>()
        let result = try await send(file(2_000_000), on: Stage(linkKind)) { invitation in
            let transfer = invitation.accept(into: sink)
            isAccepted.fulfil(true)
            if !bySender { transfer.cancel() }
            let result = await transfer.result
            receiverOutcome.update { $0 = result.outcome }
        } meanwhile: { transfer in
            guard bySender else { return }
            _ = await isAccepted.value
            transfer.cancel()
        }
        #expect(result.outcome == .cancelled(by: bySender ? .local : .remote))
        #expect(receiverOutcome.withLock { $0 } == .cancelled(by: bySender ? .remote : .local))
        #expect(sink.end == .discarded)
    }

    @Test("what the mesh cannot transport is an error at once") func limits() async throws {
        let tooLarge = try await send(file(5_242_881), on: Stage(.memory)) { _ in }
        // No peer was asked.
        #expect(tooLarge.outcome == .failed(.tooLarge, at: .local))
        #expect(tooLarge.detail?.contains("5.2 MB") == true)
    }

    /// Ends the receiver's node while a question about `content` is open there, and calls `body` with the sender's transfer.
    private func stopReceiverDuringQuestion(
        about content: MemoryContent, _ body: @Sendable (Transfer) async throws -> Void = { _ in }
    ) async throws {
        let (sender, receiver) = neighbours(Stage(.memory))
        try await withNode(sender) { sender in
            let mesh = sender.joinMesh()
            let transfer = try await withNode(receiver) { receiver in
                let listener = try receiver.listen()
                let transfer = try mesh.send(InMemorySource(content), to: try await mesh.find("Bea", timeout: .seconds(20)))
                let invitation = try #require(await listener.invitations.first { _ in true })
                receiver.beginShutdown()
                #expect(await invitation.ended == .interrupted)
                return transfer
            }
            try await body(transfer)
        }
    }

    @Test("A8: an open question about a file ends with the receiver's node, and the sender learns of it")
    func receiverStopsDuringQuestion() async throws {
        try await stopReceiverDuringQuestion(about: file(10_000)) { transfer in
            #expect(await transfer.result.outcome == .declined(.declined))
        }
    }

    @Test("A8: an open question about a text ends with the receiver's node")
    func receiverStopsDuringQuestionAboutText() async throws {
        try await stopReceiverDuringQuestion(about: MemoryContent(text: "hello"))
    }

    @Test("a receiver that stops says goodbye, and the sender learns of it") func receiverStops() async throws {
        let (sender, receiver) = neighbours(Stage(.memory))
        try await withNode(sender) { sender in
            let mesh = sender.joinMesh()
            try await withNode(receiver) { receiver in
                _ = try receiver.listen()
                _ = try await mesh.find("Bea", timeout: .seconds(20))
            }
            let error = await #expect(throws: NodeError.self) {
                while true { _ = try await mesh.find("Bea", timeout: .milliseconds(100)) }
            }
            guard case .notFound? = error else {
                Issue.record("\(String(describing: error))")
                return
            }
        }
    }
}

/// Frame links, as of Bluetooth.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct FrameLinkStoryTests {
    /// Two nodes connected only by a frame link.
    private func meet<Result: Sendable>(
        _ delivery: FrameDelivery, maximumFrameByteCount: Int = 510, signal: SignalReading? = nil,
        _ body: @Sendable @escaping (_ ada: Node, _ bea: Listener, InMemoryFrameLink) async throws -> Result
    ) async throws -> Result {
        let (adasEnd, beasEnd) = InMemoryFrameLink.pair(
            maximumFrameByteCount: maximumFrameByteCount, delivery: delivery, signal: signal)
        let stage = Stage(.memory)
        var (ada, bea) = (stage.sender, stage.receiver)
        ada.radio = radio(adasEnd)
        bea.radio = radio(beasEnd)
        let (sender, receiver) = (ada, bea)
        return try await withNode(receiver) { receiver in
            let listener = try receiver.listen()
            return try await withNode(sender) { sender in try await body(sender, listener, beasEnd) }
        }
    }

    /// This radio has no streams and no discovery.
    private func radio(_ link: any FrameLink) -> @Sendable () throws(DiscoveryError) -> Radio {
        {
            let frames = InMemoryFrameRadio()
            frames.add(link)
            return Radio(
                frames: frames, transport: InMemoryTransport(), discovery: InMemorySegment().join(host: "127.0.0.1"))
        }
    }

    @Test("a file arrives in frames", arguments: [FrameDelivery.whole, .stream], [510, 180])
    func sends(_ delivery: FrameDelivery, maximumFrameByteCount: Int) async throws {
        let content = MemoryContent(file: "a", (0..<5_000).map { UInt8(truncatingIfNeeded: $0 * 7) })
        let sink = InMemorySink()
        try await meet(delivery, maximumFrameByteCount: maximumFrameByteCount) { ada, bea, _ in
            let mesh = ada.joinMesh()
            async let accepted: Void = {
                for await invitation in bea.invitations {
                    _ = await invitation.accept(into: sink).result
                    return
                }
            }()
            let peer = try await mesh.find("Bea", timeout: .seconds(20))
            #expect(peer.isDirect)
            let result = try await mesh.send(InMemorySource(content), to: peer).result
            #expect(result.outcome == .completed)
            await accepted
        }
        #expect(sink.received.entries.map(\.bytes) == content.entries.map(\.bytes))
    }

    @Test("invalid and truncated frames are dropped; the link stays open", arguments: [FrameDelivery.whole, .stream])
    func nonsense(_ delivery: FrameDelivery) async throws {
        try await meet(delivery) { ada, bea, far in
            let mesh = ada.joinMesh()
            for count in [1, 13, 100, 510] { try far.send((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 1) }) }
            // In a stream, bytes that look like a header consume the following frames; the next announcement comes 19 seconds
            // later.
            let peer = try await mesh.find("Bea", timeout: .seconds(45))
            #expect(peer.id == Stage.bea.peerID)
        }
    }

    @Test("a neighbour has the signal strength of its link, another peer has none") func signal() async throws {
        let signal = SignalReading(strength: -61, time: MonotonicInstant(nanoseconds: 7))
        try await meet(.whole, signal: signal) { ada, _, _ in
            let mesh = ada.joinMesh()
            let peer = try await mesh.find("Bea", timeout: .seconds(20))
            #expect(mesh.signal(of: peer.id) == signal)
            #expect(mesh.signal(of: ada.id) == nil)
        }
    }

    @Test("a link too narrow for a fragment is not used") func narrow() async throws {
        try await meet(.whole, maximumFrameByteCount: 20) { ada, _, far in
            _ = ada.joinMesh()
            // Closed by the other side.
            let isClosed = try await BlockingThread.run { far.receive() == nil }
            #expect(isClosed)
        }
    }
}
