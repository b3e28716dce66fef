import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct NodeStoryTests {
    private func content(_ count: Int) -> MemoryContent {
        var bytes = (0..<251).map { UInt8($0) }
        while bytes.count < count { bytes += bytes }
        bytes.removeLast(bytes.count - count)
        return MemoryContent(file: "a", bytes)
    }

    private func tree() -> MemoryContent {
        var random = SeededRandom(seed: 3)
        return .random(using: &random, largest: 20_000, allowsUnknown: true)
    }

    /// Ada sends, Bea answers each invitation with `answer`.
    /// - Returns: The outcome for Ada.
    private func send(
        _ content: MemoryContent, on stage: Stage, _ answer: @Sendable @escaping (Invitation) async -> Void,
        meanwhile: @Sendable @escaping (Transfer) async -> Void = { _ in }
    ) async throws -> TransferOutcome {
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let answers: Void = {
                for await invitation in listener.invitations { await answer(invitation) }
            }()
            let outcome = try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let transfer = connection.send(
                        InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                    await meanwhile(transfer)
                    return await transfer.result.outcome
                }
            }
            receiver.beginShutdown()
            await answers
            return outcome
        }
    }

    @Test("an accepted transfer arrives", arguments: LinkKind.allCases) func sends(_ linkKind: LinkKind) async throws {
        for content in [content(0), content(10), content(1_000_000), tree()] {
            let sink = InMemorySink()
            let receiverOutcome = Monitor<TransferOutcome?>(nil)
            let outcome = try await send(content, on: Stage(linkKind)) { invitation in
                #expect(invitation.peer.id == Stage.ada.peerID)
                #expect(invitation.offer == content.offer)
                let result = await invitation.accept(into: sink).result
                receiverOutcome.update { $0 = result.outcome }
            }
            #expect(outcome == .completed)
            #expect(receiverOutcome.withLock { $0 } == .completed)
            #expect(sink.received.entries == content.entries && sink.end == .finished)
        }
    }

    /// A destination that reads what it has kept until it is cancelled.
    private final class ReadingSink: ResourceSink {
        private let isCancelled = Monitor(false)
        let began = Promise<Void>()

        func resumePoint() throws(StorageError) -> ResumePoint {
            began.fulfil()
            isCancelled.wait { $0 ? () : nil }
            throw StorageError(.failed, "reading was cancelled")
        }
        func cancel() { isCancelled.update { $0 = true } }
        func resume(at point: ResumePoint) throws(StorageError) {}
        func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {}
        func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {}
        func endEntry() throws(StorageError) {}
        func finish() throws(StorageError) -> [DeliveredItem] { [] }
        func suspend() {}
        func discard() {}
    }

    @Test("a cancel interrupts a receiver that reads its kept content", arguments: LinkKind.allCases)
    func cancelledWhileReading(_ linkKind: LinkKind) async throws {
        let results = AsyncStream.makeStream(of: TransferResult.self)
        let started = AsyncStream.makeStream(of: Void.self)
        let outcome = try await send(content(10), on: Stage(linkKind)) { invitation in
            let sink = ReadingSink()
            let began = sink.began
            let transfer = invitation.accept(into: sink)
            await began.value
            started.continuation.yield()
            results.continuation.yield(await transfer.result)
        } meanwhile: { transfer in
            for await _ in started.stream { break }
            transfer.cancel()
        }
        #expect(outcome == .cancelled(by: .local))
        for await result in results.stream {
            #expect(result.outcome == .cancelled(by: .remote) && result.detail == nil)
            break
        }
    }

    @Test("A13: a receiver gets the part that it selects", arguments: LinkKind.allCases)
    func part(_ linkKind: LinkKind) async throws {
        let entries = (0..<5).map { number in
            InMemorySource.Entry.file("f\(number)", [UInt8](repeating: UInt8(number), count: 100), item: UInt32(number))
        }
        let sink = InMemorySink()
        let stage = Stage(linkKind)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let answers: Void = {
                for await invitation in listener.invitations {
                    guard let selection = EntrySelection(ranges: [1...1, 3...4]),
                        let part = OfferPart(selection, of: invitation.offer, listed: invitation.contents)
                    else { return invitation.decline() }
                    _ = await invitation.accept(into: sink, part: part).result
                }
            }()
            try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let transfer = connection.send(
                        InMemorySource(entries), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                    #expect(await transfer.result.outcome == .completed)
                    let progress = transfer.snapshot
                    #expect(progress.part == OfferPart.Counts(accepted: 3, offered: 5, size: 300))
                    #expect(progress.total == 300 && progress.done == 300 && progress.totalEntries == 3)
                }
            }
            receiver.beginShutdown()
            await answers
        }
        #expect(sink.received.entries.map(\.bytes) == [1, 3, 4].map { entries[$0].content })
        #expect(sink.received.entries.map(\.header.item) == [0, 1, 2])
    }

    /// A source that lists all of its entries.
    private struct ListingSource: ResourceSource {
        let base: InMemorySource
        var offer: Offer { base.offer }
        var contents: [EntryHeader] { base.entries.map(\.header.listed) }
        func makeReader() throws(StorageError) -> any ResourceReader { try base.makeReader() }
    }

    @Test("both ends count the files of a folder, as the question does", arguments: LinkKind.allCases)
    func fileCounts(_ linkKind: LinkKind) async throws {
        let source = ListingSource(
            base: InMemorySource([
                .folder(["trip"]), .file(in: ["trip", "a"], [1]), .folder(["trip", "day"]),
                .file(in: ["trip", "day", "b"], [2]),
            ]))
        let received = Monitor<TransferProgress?>(nil)
        let stage = Stage(linkKind)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let answers: Void = {
                for await invitation in listener.invitations {
                    let transfer = invitation.accept(into: InMemorySink())
                    _ = await transfer.result
                    received.update { $0 = transfer.snapshot }
                }
            }()
            try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let transfer = connection.send(source, resumeKey: Stage.resumeKey, timeout: .seconds(60))
                    #expect(transfer.snapshot.totalEntries == 2)
                    #expect(await transfer.result.outcome == .completed)
                    #expect(transfer.snapshot.finishedEntries == 2)
                }
            }
            receiver.beginShutdown()
            await answers
        }
        let progress = try #require(received.withLock { $0 })
        #expect(progress.totalEntries == 2 && progress.finishedEntries == 2)
    }

    @Test("a decline is reported with its reason; an unanswered invitation is declined", arguments: LinkKind.allCases)
    func declines(_ linkKind: LinkKind) async throws {
        #expect(try await send(content(1), on: Stage(linkKind)) { $0.decline(.noSpace) } == .declined(.noSpace))
        #expect(try await send(content(1), on: Stage(linkKind)) { _ in } == .declined(.declined))
    }

    @Test("R4: offers on one connection wait for each other, and all are received", arguments: LinkKind.allCases)
    func offersInTurn(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let answers: Void = {
                for await invitation in listener.invitations { _ = invitation.accept(into: InMemorySink()) }
            }()
            try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let transfers = (0..<8).map { number in
                        connection.send(
                            InMemorySource(MemoryContent(file: "\(number)", [1])), resumeKey: Stage.resumeKey,
                            timeout: .seconds(60))
                    }
                    for transfer in transfers { #expect(await transfer.result.outcome == .completed) }
                }
            }
            receiver.beginShutdown()
            await answers
        }
    }

    @Test("A9: a transfer accepted while the node shuts down ends", arguments: LinkKind.allCases)
    func acceptedTooLate(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let sink = InMemorySink()
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let answer: TransferOutcome? = {
                for await invitation in listener.invitations {
                    receiver.beginShutdown()
                    return await invitation.accept(into: sink).result.outcome
                }
                return nil
            }()
            try await withNode(stage.sender) { sender in
                _ = try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    await connection.send(InMemorySource(content(10)), resumeKey: Stage.resumeKey, timeout: .seconds(60)).result
                }
            }
            #expect(await answer == .interrupted)
        }
        #expect(sink.received.entries.isEmpty)
    }

    @Test("A8: a cancel by the sender is reported on both sides", arguments: LinkKind.allCases) func senderCancels(
        _ linkKind: LinkKind
    )
        async throws
    {
        let sink = InMemorySink(holdsAfter: 1)
        let receiverOutcome = Monitor<TransferOutcome?>(nil)
        let outcome = try await send(content(1_500_000), on: Stage(linkKind)) { invitation in
            let transfer = invitation.accept(into: sink)
            let result = await transfer.result
            receiverOutcome.update { $0 = result.outcome }
        } meanwhile: { transfer in
            for await _ in sink.held { break }
            transfer.cancel()
            _ = await transfer.result
            sink.release()
        }
        #expect(outcome == .cancelled(by: .local))
        #expect(receiverOutcome.withLock { $0 } == .cancelled(by: .remote))
        #expect(sink.end == .suspended)
    }

    @Test("A8: a cancel by the receiver is reported on both sides", arguments: LinkKind.allCases) func receiverCancels(
        _ linkKind: LinkKind
    )
        async throws
    {
        let sink = InMemorySink(holdsAfter: 1)
        let receiverOutcome = Monitor<TransferOutcome?>(nil)
        let outcome = try await send(content(1_500_000), on: Stage(linkKind)) { invitation in
            let transfer = invitation.accept(into: sink, keepsPartial: false)
            for await _ in sink.held { break }
            transfer.cancel()
            sink.release()
            let result = await transfer.result
            receiverOutcome.update { $0 = result.outcome }
        }
        #expect(outcome == .cancelled(by: .remote))
        #expect(receiverOutcome.withLock { $0 } == .cancelled(by: .local))
        #expect(sink.end == .discarded)
    }

    @Test("R4: a slow receiver delays only its own sender", arguments: LinkKind.allCases) func slowSink(_ linkKind: LinkKind)
        async throws
    {
        let stage = Stage(linkKind)
        let content = content(1_500_000)
        let (slow, fast) = (InMemorySink(holdsAfter: 1), InMemorySink())
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { held in
                    let first = held.send(InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                    var invitations = listener.invitations.makeAsyncIterator()
                    let slowThere = try #require(await invitations.next()).accept(into: slow)
                    for await _ in slow.held { break }
                    let outcome = try await sender.withConnection(to: stage.destination(listener.port)) { free in
                        let second = free.send(InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                        var invitations = listener.invitations.makeAsyncIterator()
                        _ = try #require(await invitations.next()).accept(into: fast)
                        return await second.result.outcome
                    }
                    #expect(outcome == .completed)
                    #expect(fast.received.entries == content.entries)
                    #expect(first.snapshot.phase != .ended(.completed))
                    slow.release()
                    #expect(await first.result.outcome == .completed)
                    #expect(await slowThere.result.outcome == .completed)
                }
            }
        }
        #expect(slow.received.entries == content.entries)
    }

    @Test("R4: a receiver whose disk stalls still reads its link: another transfer passes, and a cancel arrives")
    func stalledDisk() async throws {
        let stage = Stage(.tcp)
        let content = content(1_500_000)
        let (slow, fast, cancelled) = (InMemorySink(holdsAfter: 600_000), InMemorySink(), InMemorySink(holdsAfter: 1))
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    var invitations = listener.invitations.makeAsyncIterator()
                    func send(into sink: InMemorySink) async throws -> (sent: Transfer, received: Transfer) {
                        let sent = connection.send(InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                        return (sent, try #require(await invitations.next()).accept(into: sink))
                    }
                    let first = try await send(into: slow)
                    for await _ in slow.held { break }
                    let second = try await send(into: fast)
                    #expect(await second.sent.result.outcome == .completed)
                    #expect(fast.received.entries == content.entries)
                    let third = try await send(into: cancelled)
                    for await _ in cancelled.held { break }
                    third.sent.cancel()
                    #expect(await third.sent.result.outcome == .cancelled(by: .local))
                    #expect(first.sent.snapshot.phase == .moving)
                    cancelled.release()
                    #expect(await third.received.result.outcome == .cancelled(by: .remote))
                    slow.release()
                    #expect(await first.sent.result.outcome == .completed)
                    #expect(await first.received.result.outcome == .completed)
                    let fourth = try await send(into: InMemorySink())
                    #expect(await fourth.sent.result.outcome == .completed)
                }
            }
        }
        #expect(slow.received.entries == content.entries)
    }

    @Test("R4: two senders at once are both served", arguments: LinkKind.allCases) func twoSenders(_ linkKind: LinkKind)
        async throws
    {
        let stage = Stage(linkKind)
        let content = content(1_500_000)
        let outcomes = try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            let port = listener.port
            @Sendable func send(_ settings: NodeSettings) async throws -> TransferOutcome {
                try await withNode(settings) { sender in
                    try await sender.withConnection(to: stage.destination(port)) { connection in
                        let transfer = connection.send(
                            InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                        return await transfer.result.outcome
                    }
                }
            }
            async let first = send(stage.sender)
            async let second = send(stage.settings(LocalIdentity(seed: [UInt8](repeating: 3, count: 64)), "Cem"))
            var invitations = listener.invitations.makeAsyncIterator()
            let sinks = [InMemorySink(), InMemorySink()]
            var senders: Set<PeerID> = []
            var transfers: [Transfer] = []
            for sink in sinks {
                let invitation = try #require(await invitations.next())
                senders.insert(invitation.peer.id)
                transfers.append(invitation.accept(into: sink))
            }
            let outcomes = [try await first, try await second]
            for transfer in transfers { _ = await transfer.result }
            #expect(senders.count == 2)
            #expect(sinks.allSatisfy { $0.received.entries == content.entries })
            return outcomes
        }
        #expect(outcomes == [.completed, .completed])
    }

    @Test("a shutdown interrupts both sides, and the next attempt resumes", arguments: LinkKind.allCases, [true, false])
    func shutdown(_ linkKind: LinkKind, bySender: Bool) async throws {
        let stage = Stage(linkKind)
        let content = content(1_500_000)
        let sink = InMemorySink(holdsAfter: 100_000)
        let receiverOutcome = Monitor<TransferOutcome?>(nil)
        let senderOutcome = try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            return try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let transfer = connection.send(InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                    var invitations = listener.invitations.makeAsyncIterator()
                    let incoming = try #require(await invitations.next()).accept(into: sink)
                    for await _ in sink.held { break }
                    (bySender ? sender : receiver).beginShutdown()
                    let outcome = await transfer.result.outcome
                    sink.release()
                    let result = await incoming.result
                    receiverOutcome.update { $0 = result.outcome }
                    return outcome
                }
            }
        }
        #expect(senderOutcome == .interrupted && receiverOutcome.withLock { $0 } == .interrupted)
        #expect(sink.end == .suspended)
        let kept = sink.received.resumePoint
        #expect(kept.partialSize >= 100_000)
        let again = InMemorySink(kept: sink.received)
        let resumed = Monitor<UInt64>(0)
        let outcome = try await send(content, on: Stage(linkKind)) { invitation in
            let transfer = invitation.accept(into: again)
            _ = await transfer.result
            resumed.update { $0 = transfer.snapshot.resumed }
        }
        #expect(outcome == .completed)
        #expect(again.received.entries == content.entries)
        #expect(resumed.withLock { $0 } == kept.partialSize)
    }
}
