import Nearshare
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareService

/// A reporter that interrupts the send when its result is reported.
private final class InterruptingReporter: Reporter {
    let operation = Mutex<SendOperation?>(nil)
    let failureCount = Atomic(0)

    func report(_ event: OperationEvent) {
        switch event {
        case .sent: operation.withLock { $0 }?.reportInterruption()
        case .failed: failureCount.add(1, ordering: .relaxed)
        default: break
        }
    }
}

@Suite("sending to peers, from the search to the outcome", .timeLimit(.minutes(1)), .leavesNothing)
struct SendOperationTests {
    private let stage = ServiceStage()
    private let reporter = EventRecorder()

    private func operation(
        _ user: StageUser, text: String = "hello", timeout: Duration = .seconds(60), resumes: Bool = true,
        searchLimit: Duration? = nil
    ) throws -> SendOperation {
        SendOperation(
            machine: user.machine, source: try .text(text), reporter: reporter, timeout: timeout,
            resumes: resumes, transport: .network, searchLimit: searchLimit)
    }

    private func run(_ operation: SendOperation, _ user: StageUser, to names: String...) async throws -> CommandFailure? {
        try await withNode(try user.settings()) { node in
            await caughtFailure { try await operation.run(to: names.map { .text($0) }, on: node) }
        }
    }

    @Test func `a text is offered, accepted and delivered, and the receiver's key is pinned`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let sink = InMemorySink()
        let codes = Mutex<[ShortAuthenticationDigits?]>([])
        let failure = try await bea.listening { invitation in
            #expect(invitation.peer.id == ada.id && invitation.offer.items.map(\.kind) == [.text])
            let code = await invitation.authenticationDigits
            codes.withLock { $0.append(code) }
            _ = await invitation.accept(into: sink).result
        } _: { _ in
            try await run(try operation(ada), ada, to: "bea")
        }
        #expect(failure == nil)
        #expect(sink.received.entries.map(\.bytes) == [Array("hello".utf8)])
        #expect(
            reporter.names.filter { ["searching", "found", "inviting", "sent"].contains($0) } == [
                "searching", "found", "inviting", "sent",
            ])
        #expect(reporter.invitations.map(\.trustStatus) == [.new] && reporter.invitations.map(\.transport) == [.network])
        // Both users see the same code.
        #expect(reporter.digits.allSatisfy { codes.withLock { $0 } == [$0] })
        let result = try #require(reporter.sent.first)
        #expect(result.outcome == .completed && result.byteCount == 5 && result.label == "message → bea")
        // Also of content that passes at once.
        let progress = reporter.events.compactMap { if case .progress(let progress) = $0 { progress.done } else { nil } }
        #expect(progress.last == 5)
        #expect(try ada.trust(in: bea.fingerprint) == .seen)
    }

    @Test func `an interruption is no failure of a receiver that has everything`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let interrupting = InterruptingReporter()
        let operation = SendOperation(
            machine: ada.machine, source: try .text("hello"), reporter: interrupting, timeout: .seconds(60), resumes: true,
            transport: .network)
        interrupting.operation.withLock { $0 = operation }
        defer { interrupting.operation.withLock { $0 = nil } }
        let failure = try await bea.listening {
            _ = await $0.accept(into: InMemorySink()).result
        } _: { _ in
            try await run(operation, ada, to: "bea")
        }
        #expect(failure == nil && operation.reachedTargets == [0])
        #expect(interrupting.failureCount.load(ordering: .relaxed) == 0)
    }

    @Test("a receiver that is named, and selected by its address too, gets one offer", arguments: [true, false])
    func nameAndAddress(isNameFirst: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let invitations = Atomic(0)
        let operation = try operation(ada)
        let failure = try await bea.listening { invitation in
            invitations.add(1, ordering: .relaxed)
            _ = await invitation.accept(into: InMemorySink()).result
        } _: { listener in
            let address = "\(bea.host):\(listener.port)"
            let texts = isNameFirst ? ["bea", address] : [address, "bea"]
            return try await withNode(try ada.settings()) { node in
                await caughtFailure { try await operation.run(to: texts.map { .text($0) }, on: node) }
            }
        }
        #expect(failure == nil && operation.reachedTargets == [0, 1])
        #expect(invitations.load(ordering: .relaxed) == 1)
        #expect(reporter.sent.map(\.outcome) == [.completed])
    }

    @Test("a known receiver that is given by its address is called by its name, a new one by the address")
    func knownAddress() async throws {
        let (ada, bea, cleo) = (try stage.user("ada"), try stage.user("bea"), try stage.user("cleo"))
        try ada.introduce(bea.fingerprint, as: "bea")
        try ada.machine.trust.update { _ = $0.rename(bea.fingerprint, to: nil) }
        var addresses: [String] = []
        for user in [bea, cleo] {
            let operation = try operation(ada)
            let address: String = try await user.listening { invitation in
                _ = await invitation.accept(into: InMemorySink()).result
            } _: { listener in
                let address = "\(user.host):\(listener.port)"
                let failure = try await withNode(try ada.settings()) { node in
                    await caughtFailure { try await operation.run(to: [.text(address)], on: node) }
                }
                #expect(failure == nil)
                return address
            }
            addresses.append(address)
        }
        #expect(reporter.invitations.map(\.receiver) == ["bea", addresses[1]])
        #expect(reporter.sent.map(\.receiver) == ["bea", addresses[1]])
    }

    @Test(
        "a receiver that declines gives the exit code of its reason, and is not recorded",
        arguments: [
            (DeclineReason.declined, NearshareService.ExitStatus.declined), (.noSpace, .noSpace),
            (.identityChanged, .notTrusted), (.singleFileOnly, .declined),
        ])
    func declined(reason: DeclineReason, status: NearshareService.ExitStatus) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let failure = try await bea.listening {
            $0.decline(reason)
        } _: { _ in
            try await run(try operation(ada), ada, to: "bea")
        }
        #expect(failure?.status == status)
        #expect(failure?.message.contains("bea") == true)
        #expect(reporter.sent.map(\.outcome) == [.declined(reason)])
        #expect(try ada.trust(in: bea.fingerprint) == nil)
    }

    @Test("a receiver that accepts nothing from this machine is told in the same words by the command and the history")
    func blocked() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try bea.machine.trust.update { _ = $0.block(ada.fingerprint, named: ada.name, at: SystemClock.wall()) }
        let failure = try await bea.listening {
            $0.decline()
        } _: { _ in
            try await run(try operation(ada), ada, to: "bea")
        }
        #expect(failure?.status == .declined && failure?.message == "bea accepts nothing from this machine")
        let words = "accepts nothing from this machine"
        #expect(reporter.sent.map(\.recordedReason) == [words])
        let entries = try TransferLog(of: .sent, in: ada.machine.state).entries()
        #expect(entries.last?.reason == words)
    }

    @Test func `a peer that the user has blocked is named as the user knows it, with the command that unblocks it`()
        async throws
    {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "Beatrix")
        try ada.machine.trust.update { _ = $0.setBlocked(bea.fingerprint, to: true) }
        let failure = try await bea.listening {
            $0.decline()
        } _: { _ in
            try await run(try operation(ada), ada, to: bea.id.hex)
        }
        #expect(failure?.status == .notTrusted)
        #expect(failure?.message == "Beatrix is blocked; `nearshare peers unblock \(bea.id.hex)` unblocks it")
    }

    @Test("K2: a known name with another key stops the send before anything is offered")
    func nameClash() async throws {
        let (ada, mallory) = (try stage.user("ada"), try stage.user("bea"))
        let known = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        try ada.introduce(known, as: "bea")
        let invitations = Atomic(0)
        let operation = try operation(ada)
        let failure = try await mallory.listening { invitation in
            invitations.add(1, ordering: .relaxed)
            invitation.decline()
        } _: { listener in
            // Chosen from a list: the name already means the known key.
            let peer = NearbyPeer(id: mallory.id, name: mallory.name, addresses: mallory.destination(listener).addresses)
            return try await withNode(try ada.settings()) { node in
                await caughtFailure { try await operation.run(to: [.peer(peer)], on: node) }
            }
        }
        #expect(failure?.status == .notTrusted)
        // No second try is advised.
        #expect(operation.distrustedTargets == [0] && operation.reachedTargets.isEmpty)
        #expect(failure?.message.contains("nearshare peers forget \(known.peerID)") == true)
        #expect(invitations.load(ordering: .relaxed) == 0)
        #expect(reporter.invitations.isEmpty && reporter.sent.isEmpty)
        #expect(try ada.trust(in: mallory.fingerprint) == nil)
    }

    @Test("K2: a peer with the name of a known one gets what is sent to its id", arguments: [true, false])
    func nameClashByID(isKnown: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let other = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        try ada.introduce(other, as: "bea")
        if isKnown { try ada.introduce(bea.fingerprint, as: "another bea") }
        let failure = try await bea.listening {
            _ = await $0.accept(into: InMemorySink()).result
        } _: { _ in
            try await run(try operation(ada), ada, to: bea.id.hex)
        }
        #expect(failure == nil && reporter.sent.map(\.outcome) == [.completed])
    }

    @Test("K2: the name of another known peer is noticed where the user has given an address, too")
    func nameClashAtAddress() async throws {
        let (ada, bea, cleo) = (try stage.user("ada"), try stage.user("bea"), try stage.user("cleo"))
        let other = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        try ada.introduce(other, as: "bea")
        for user in [bea, cleo] {
            let failure = try await user.listening {
                _ = await $0.accept(into: InMemorySink()).result
            } _: { listener in
                try await run(try operation(ada), ada, to: "\(user.host):\(listener.port)")
            }
            #expect(failure == nil)
        }
        #expect(reporter.invitations.map(\.trustStatus) == [.nameClash(knownAs: other), .new])
        let warnings = reporter.warnings.filter { $0.contains("that you know with another key, \(other.peerID)") }
        #expect(warnings.count == 1 && warnings.first?.hasPrefix("bea (\(bea.id)) uses the name") == true)
    }

    @Test("K2: a friend that takes the name of another known peer gets what is sent to its id, and nothing sent to that name")
    func friendUnderAnotherName() async throws {
        let (ada, anna, ben) = (try stage.user("ada"), try stage.user("ben"), try stage.user("ben"))
        let formerName = try DisplayName("anna")
        try ada.machine.trust.update { trust in
            for (peer, name) in [(anna, formerName), (ben, ben.name)] {
                _ = trust.introduce(peer.fingerprint, claiming: name, as: peer.name, at: WallTime(milliseconds: 1))
                trust.rename(peer.fingerprint, to: nil)
            }
            trust.setFriend(anna.fingerprint, to: true)
        }
        let invitations = Atomic(0)
        let failures = try await anna.listening { invitation in
            invitations.add(1, ordering: .relaxed)
            _ = await invitation.accept(into: InMemorySink()).result
        } _: { _ in
            [
                try await run(try operation(ada), ada, to: "ben"), try await run(try operation(ada), ada, to: anna.id.hex),
                // It has proven its key under the name now.
                try await run(try operation(ada), ada, to: "ben"),
            ]
        }
        #expect(failures.map { $0?.status } == [.notTrusted, nil, .notTrusted])
        let sentence =
            "anna (\(anna.id)) now uses the name of another peer that you know, ben (\(ben.id)); use the id \(anna.id)"
        #expect(failures[0]?.message.contains(sentence) == true)
        #expect(invitations.load(ordering: .relaxed) == 1)
        #expect(reporter.invitations.map(\.name) == ["\"anna\""])
    }

    @Test("K2: a known peer that takes the name of another one gets what is sent to its name after the user has given it that")
    func knownUnderAnotherName() async throws {
        let (ada, ben, dora) = (try stage.user("ada"), try stage.user("ben"), try stage.user("ben"))
        let formerName = try DisplayName("dora")
        try ada.machine.trust.update { trust in
            for (peer, name) in [(dora, formerName), (ben, ben.name)] {
                _ = trust.introduce(peer.fingerprint, claiming: name, as: name, at: WallTime(milliseconds: 1))
                trust.rename(peer.fingerprint, to: nil)
            }
        }
        let failures = try await dora.listening { invitation in
            _ = await invitation.accept(into: InMemorySink()).result
        } _: { _ in
            let refused = try await run(try operation(ada), ada, to: "dora")
            _ = try KnownPeerEditor(ada.machine).rename(dora.id.hex, to: formerName)
            return [refused, try await run(try operation(ada), ada, to: "dora")]
        }
        #expect(failures.map { $0?.status } == [.notTrusted, nil])
        let sentence =
            "dora (\(dora.id)) now uses the name of another peer that you know, ben (\(ben.id)); "
            + "`nearshare peers rename \(dora.id) NAME` gives it a name of your own"
        #expect(failures[0]?.message.contains(sentence) == true)
        #expect(failures[0]?.message.contains("peers forget") == false)
    }

    @Test func `a friend is invited as one`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "bea", isFriend: true)
        let failure = try await bea.listening {
            _ = await $0.accept(into: InMemorySink()).result
        } _: { _ in
            try await run(try operation(ada), ada, to: "bea")
        }
        #expect(failure == nil)
        #expect(reporter.invitations.map(\.trustStatus) == [.known(.seen, isFriend: true)])
    }

    @Test func `of two receivers one declines: the other one gets it, and the exit code says so`() async throws {
        let (ada, bea, cleo) = (try stage.user("ada"), try stage.user("bea"), try stage.user("cleo"))
        let sink = InMemorySink()
        let failure = try await bea.listening {
            _ = await $0.accept(into: sink).result
        } _: { _ in
            try await cleo.listening {
                $0.decline()
            } _: { _ in
                try await run(try operation(ada), ada, to: "bea", "cleo")
            }
        }
        #expect(failure?.status == .partly && failure?.message == "1 of 2 receivers did not get it")
        #expect(reporter.warnings == ["cleo declined the offer"])
        #expect(sink.end == .finished)
        #expect(Set(reporter.sent.map(\.peer)) == [bea.id, cleo.id])
    }

    @Test func `a receiver that is named twice gets one offer`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let operation = try operation(ada)
        let failure = try await bea.listening {
            _ = await $0.accept(into: InMemorySink()).result
        } _: { _ in
            try await run(operation, ada, to: "bea", bea.id.hex)
        }
        #expect(failure == nil && operation.reachedTargets == [0, 1])
        #expect(reporter.invitations.count == 1 && reporter.sent.count == 1)
    }

    @Test func `when all receivers decline the exit code is theirs`() async throws {
        let (ada, bea, cleo) = (try stage.user("ada"), try stage.user("bea"), try stage.user("cleo"))
        let failure = try await bea.listening {
            $0.decline(.acceptsNothing)
        } _: { _ in
            try await cleo.listening {
                $0.decline(.acceptsNothing)
            } _: { _ in
                try await run(try operation(ada), ada, to: "bea", "cleo")
            }
        }
        #expect(failure?.status == .declined && failure?.message == "2 of 2 receivers did not get it")
        #expect(reporter.warnings.count == 2)
    }

    @Test func `cancelling withdraws the invitation at the receiver`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let operation = try operation(ada)
        // Nothing runs yet.
        #expect(!operation.cancel())
        let second = try self.operation(ada)
        let ends = Mutex<[TransferOutcome?]>([])
        let failure = try await bea.listening { invitation in
            // Perhaps before the transfer is listed, a moment after it was offered: once is enough.
            _ = second.cancel()
            let end = await invitation.ended
            ends.withLock { $0.append(end) }
        } _: { _ in
            try await run(second, ada, to: "bea")
        }
        #expect(failure?.status == .interrupted)
        #expect(ends.withLock { $0 } == [.cancelled(by: .remote)])
        #expect(reporter.sent.map(\.outcome) == [.cancelled(by: .local)])
    }

    @Test func `a receiver that has taken a part is no longer new`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let failure = try await bea.listening {
            _ = await $0.accept(into: OutputSink(descriptor: -1, limit: 2)).result
        } _: { _ in
            try await run(try operation(ada), ada, to: "bea")
        }
        #expect(failure != nil)
        #expect(try ada.trust(in: bea.fingerprint) == .seen)
    }

    @Test func `the same content has the same resume key, unless resuming is off`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let keys = Mutex<[[UInt8]]>([])
        try await bea.listening { invitation in
            keys.withLock { $0.append(invitation.resumeKey) }
            invitation.decline()
        } _: { _ in
            for (text, resumes) in [("one", true), ("one", true), ("one", false), ("one", false)] {
                _ = try await run(try operation(ada, text: text, resumes: resumes), ada, to: "bea")
            }
        }
        let offered = keys.withLock { $0 }
        #expect(offered.count == 4 && offered.allSatisfy { $0.count == 32 })
        #expect(offered[0] == offered[1])
        // A random key finds nothing that the receiver has kept.
        #expect(Set(offered[1...].map { Hex.encode($0) }).count == 3)
    }

    @Test func `a peer at an address without a listener cannot be reached`() async throws {
        let ada = try stage.user("ada")
        let failure = try await run(try operation(ada), ada, to: "10.0.0.77:4444")
        #expect(failure?.status == .peerNotFound)
        #expect(reporter.names == ["failed"])
    }

    @Test(
        "D1, D6: a peer that was reached before is reached again, its announcement hidden or buried under others",
        arguments: [0, 40], [false, true])
    func lastAddress(forgedCount: Int, isNamed: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let failures = try await bea.listening { invitation in
            _ = await invitation.accept(into: InMemorySink()).result
        } _: { _ in
            var failures = [try await run(try operation(ada), ada, to: "bea")]
            stage.segment.setConnected(false, host: bea.host)
            let forged = try (0..<forgedCount).map { number in
                try stage.segment.join(host: "10.0.9.\(number)").advertise(
                    Advertisement(
                        instance: "forged-\(number)", type: .nearshare, port: 4000,
                        txt: ["id=\(bea.id.hex)", "n=bea"].map { Array($0.utf8) }))
            }
            defer { for one in forged { one.stop() } }
            failures.append(try await run(try operation(ada), ada, to: isNamed ? "bea" : bea.id.hex))
            return failures
        }
        #expect(failures.allSatisfy { $0 == nil })
    }

    @Test("D1: a new peer is reached by its id although more addresses than are kept are announced for it first")
    func buriedAddress() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let forged = try (0..<40).map { number in
            try stage.segment.join(host: "10.0.9.\(number)").advertise(
                Advertisement(
                    instance: "forged-\(number)", type: .nearshare, port: 4000,
                    txt: ["id=\(bea.id.hex)", "n=bea"].map { Array($0.utf8) }))
        }
        defer { for one in forged { one.stop() } }
        let failure = try await bea.listening { invitation in
            _ = await invitation.accept(into: InMemorySink()).result
        } _: { _ in
            try await run(try operation(ada), ada, to: bea.id.hex)
        }
        #expect(failure == nil && reporter.sent.map(\.outcome) == [.completed])
    }

    @Test("K1: another key than the announced one at the address ends the send")
    func identityMismatch() async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("mallory"))
        let failure = try await mallory.listening {
            $0.decline()
        } _: { listener in
            var destination = mallory.destination(listener)
            destination.id = bea.id
            let peer = NearbyPeer(id: bea.id, name: bea.name, addresses: destination.addresses)
            return try await withNode(try ada.settings()) { node in
                await caughtFailure {
                    try await operation(ada, searchLimit: .milliseconds(1)).run(to: [.peer(peer)], on: node)
                }
            }
        }
        #expect(failure?.status == .notTrusted)
        #expect(failure?.message.contains("it may be impersonating bea") == true)
        #expect(reporter.invitations.isEmpty)
    }

    @Test(
        "D1: a friend is found and gets the content although another device announces its id first", arguments: [false, true])
    func announcedID(isConnectedOnly: Bool) async throws {
        let (ada, bea, mallory) = (try stage.user("ada"), try stage.user("bea"), try stage.user("mallory"))
        try ada.introduce(bea.fingerprint, as: "bea", isFriend: true)
        let connected: PeerID? = try await mallory.listening {
            $0.decline()
        } _: { listener in
            let forged = try mallory.discovery.advertise(
                Advertisement(
                    instance: "forged", type: .nearshare, port: listener.port,
                    txt: ["id=\(bea.id.hex)", "n=bea"].map { Array($0.utf8) }))
            defer { forged.stop() }
            let search = Task {
                try await withNode(try ada.settings()) { node -> PeerID? in
                    let resolver = PeerResolver(machine: ada.machine, reporter: reporter, transport: .network)
                    if isConnectedOnly {
                        let first = try await resolver.resolveForConnection("bea", on: node)
                        return try await PeerConnector.connect(to: first, found: resolver, on: node) { $0.proven.id }
                    }
                    try await operation(ada).run(to: [.text("bea")], on: node)
                    return reporter.sent.first?.peer
                }
            }
            _ = await reporter.next { event in
                if case .notice(let line) = event, line.hasPrefix("another device answers in the place of bea") {
                    true
                } else {
                    nil
                }
            }
            return try await bea.listening {
                _ = await $0.accept(into: InMemorySink()).result
            } _: { _ in
                try await search.value
            }
        }
        #expect(connected == bea.id)
    }
}
