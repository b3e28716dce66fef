import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct UnknownPeerTests {
    /// Reads on a thread that may block until the other side ends the link.
    /// - Returns: The number of bytes received before.
    private func readToEnd(_ link: any StreamLink) async -> Int {
        await withCheckedContinuation { continuation in
            let task: @Sendable () -> Void = {
                var total = 0
                var buffer = [UInt8](repeating: 0, count: 1024)
                while let count = try? buffer.withUnsafeMutableBytes({ try link.read(into: $0) }), count > 0 { total += count }
                continuation.resume(returning: total)
            }
            Blocking.run(task)
        }
    }

    private func write(_ bytes: [UInt8], to link: any StreamLink) {
        _ = try? bytes.withUnsafeBytes { try link.write($0) }
    }

    @Test("R9: invalid bytes end the link, and others are still served", arguments: LinkKind.allCases)
    func garbage(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            let address = LinkAddress(host: "127.0.0.1", port: listener.port)
            for bytes in [
                Array("GET / HTTP/1.1\r\n\r\n".utf8), Preamble.supported.encoded + [0, 32] + [UInt8](repeating: 0, count: 32),
            ] {
                let link = try stage.transport.connect(to: address, timeout: .seconds(5))
                write(bytes, to: link)
                #expect(await readToEnd(link) == 0)
                link.close()
            }
            try await withNode(stage.sender) { sender in
                try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let name = try await connection.peerName
                    #expect(name.claimed == "Bea")
                }
            }
        }
    }

    @Test("R9, R3: direct links that fail close no link to the mesh from the same address", arguments: LinkKind.allCases)
    func meshBesideFailures(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            let address = LinkAddress(host: "127.0.0.1", port: listener.port)
            for _ in 0..<16 {
                let link = try stage.transport.connect(to: address, timeout: .seconds(5))
                write(Array("GET / HTTP/1.1\r\n\r\n".utf8), to: link)
                _ = await readToEnd(link)
                link.close()
            }
            let link = try stage.transport.connect(to: address, timeout: .seconds(5))
            write(Preamble.supportedMesh.encoded, to: link)
            link.finishWriting()
            #expect(await readToEnd(link) >= Preamble.byteCount)
            link.close()
        }
    }

    @Test(
        "R11: of many requests to compare the short code, five unaccepted ones a minute reach the user",
        arguments: LinkKind.allCases
    )
    func verificationRequests(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let promptCount = try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let prompts: Int = {
                var count = 0
                for await request in listener.verificationRequests {
                    count += 1
                    request.answer(matches: false)
                }
                return count
            }()
            try await withNode(stage.sender) { sender in
                for number in 0..<2 * PromptRateLimiter.maximumCountPerSource {
                    try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                        try await connection.requestVerification()
                        if number < PromptRateLimiter.maximumCountPerSource {
                            #expect(try await !connection.peerConfirmation)
                            return
                        }
                        // Not asked: that is no answer about the codes.
                        let error = await #expect(throws: NodeError.self) { try await connection.peerConfirmation }
                        if case .refused? = error { return }
                        Issue.record("\(String(describing: error))")
                    }
                }
            }
            receiver.beginShutdown()
            return await prompts
        }
        #expect(promptCount == PromptRateLimiter.maximumCountPerSource)
    }

    @Test("R11: requests to compare the short code that nobody can be asked about do not count", arguments: LinkKind.allCases)
    func unattendedRequests(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let count = 2 * PromptRateLimiter.maximumCountPerSource
        let received = try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let requests: Int = {
                var count = 0
                for await request in listener.verificationRequests {
                    count += 1
                    request.declineUnattended()
                }
                return count
            }()
            try await withNode(stage.sender) { sender in
                for _ in 0..<count {
                    try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                        try await connection.requestVerification()
                        await #expect(throws: NodeError.self) { try await connection.peerConfirmation }
                    }
                }
            }
            receiver.beginShutdown()
            return await requests
        }
        #expect(received == count)
    }

    @Test(
        "K1: a receiver that asks to compare short codes does not end the transfer that it was offered",
        arguments: LinkKind.allCases)
    func requestByReceiver(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let listener = try stage.transport.listen(port: 0, interface: stage.interface)
        defer { listener.close() }
        try await withNode(stage.receiver) { receiver in
            try await withNode(stage.sender) { sender in
                let link = Task { try await BlockingThread.run { Result { try listener.accept() } }.get() }
                let port = listener.port
                async let outcome = sender.withConnection(to: stage.destination(port)) { connection in
                    let source = InMemorySource(MemoryContent(file: "a", [1]))
                    return await connection.send(source, resumeKey: Stage.resumeKey, timeout: .seconds(60)).result.outcome
                }
                let driver = receiver.makeDriver(try await link.value, .responder)
                await receiver.run(driver) {
                    for await event in driver.events {
                        if case .invited(let offer, _) = event {
                            driver.requestVerification()
                            driver.decline(offer.id, because: .declined)
                        }
                    }
                }
                #expect(try await outcome == .declined(.declined))
            }
        }
    }

    @Test(
        "R11: offers that new keys make and cancel reach the user five times, and then a known peer's still does",
        arguments: LinkKind.allCases)
    func cancelledOffers(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        var settings = stage.receiver
        settings.trustStatus = { peer, _ in peer.id == Stage.ada.peerID ? .known(.seen, isFriend: false) : .new }
        try await withNode(settings) { receiver in
            let listener = try receiver.listen()
            let (asked, ask) = AsyncStream.makeStream(of: PeerID.self)
            async let answers: Void = {
                await withDiscardingTaskGroup { group in
                    for await invitation in listener.invitations {
                        group.addTask {
                            ask.yield(invitation.peer.id)
                            if invitation.peer.id == Stage.ada.peerID { return invitation.decline() }
                            _ = await invitation.ended
                        }
                    }
                }
            }()
            func offer(
                as settings: NodeSettings, _ meanwhile: @escaping @Sendable (Transfer) async -> Void
            ) async throws -> TransferOutcome {
                try await withNode(settings) { node in
                    try await node.withConnection(to: stage.destination(listener.port)) { connection in
                        let content = InMemorySource(MemoryContent(file: "x", [1]))
                        let transfer = connection.send(content, resumeKey: Stage.resumeKey, timeout: .seconds(60))
                        await meanwhile(transfer)
                        return await transfer.result.outcome
                    }
                }
            }
            for number in 0..<UInt8(PromptRateLimiter.maximumCountPerSource) + 3 {
                let attacker = stage.settings(LocalIdentity(seed: [UInt8](repeating: 10 + number, count: 64)), "Mallory")
                let isAsked = number < PromptRateLimiter.maximumCountPerSource
                let outcome = try await offer(as: attacker) { transfer in
                    guard isAsked else { return }
                    for await _ in asked { break }
                    transfer.cancel()
                }
                #expect(outcome == (isAsked ? .cancelled(by: .local) : .declined(.busy)), "\(number)")
            }
            #expect(try await offer(as: stage.sender) { _ in } == .declined(.declined))
            receiver.beginShutdown()
            await answers
        }
    }

    @Test("R5: a silent peer is disconnected after the handshake timeout", arguments: LinkKind.allCases)
    func silent(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let clock = ManualClock(behindSystemBy: .seconds(3600))
        var settings = stage.receiver
        settings.clock = { clock.now }
        try await withNode(settings) { receiver in
            let listener = try receiver.listen()
            let link = try stage.transport.connect(
                to: LinkAddress(host: "127.0.0.1", port: listener.port), timeout: .seconds(5))
            write(Array(Preamble.supported.encoded.prefix(5)), to: link)
            async let received = readToEnd(link)
            // The node measures from the moment it accepted the link; advancing twice covers either order.
            let mover = Task {
                while !Task.isCancelled {
                    clock.advance(by: .seconds(11))
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            #expect(await received == 0)
            mover.cancel()
            link.close()
        }
    }

    @Test(
        "R3, Q6: beyond the limit, the oldest connection without a proven key gives way to the next",
        arguments: LinkKind.allCases)
    func tooMany(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        var settings = stage.receiver
        settings.limits.linksPerAddress = 2
        try await withNode(settings) { receiver in
            let listener = try receiver.listen()
            let address = LinkAddress(host: "127.0.0.1", port: listener.port)
            let links = try (0..<3).map { _ in try stage.transport.connect(to: address, timeout: .seconds(5)) }
            #expect(await readToEnd(links[0]) == 0)
            try await withNode(stage.sender) { sender in
                let isServed = try await sender.withConnection(to: stage.destination(listener.port)) { _ in true }
                #expect(isServed)
            }
            #expect(await readToEnd(links[1]) == 0)
            for link in links { link.close() }
        }
    }

    @Test("K4, D1: another key than the announced one is rejected", arguments: LinkKind.allCases)
    func wrongID(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            try await withNode(stage.sender) { sender in
                let error = await #expect(throws: NodeError.self) {
                    try await sender.withConnection(to: stage.destination(listener.port, id: Stage.ada.peerID)) { _ in }
                }
                guard case .identityMismatch? = error else {
                    Issue.record("\(String(describing: error))")
                    return
                }
            }
        }
    }

    @Test(
        "D1: other addresses that are announced under a peer's id, silent or of another peer, do not keep it from being reached",
        arguments: LinkKind.allCases)
    func otherAddresses(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let silent = try stage.transport.listen(port: 0, interface: stage.interface)
        defer { silent.close() }
        let impostor = stage.settings(LocalIdentity(seed: [UInt8](repeating: 3, count: 64)), "Bea")
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            try await withNode(impostor) { impostor in
                let other = try impostor.listen()
                try await withNode(stage.sender) { sender in
                    let port = listener.port
                    for ports in [[other.port, port], [silent.port, port], [silent.port, other.port, silent.port, port]] {
                        var destination = stage.destination(port)
                        destination.addresses = ports.map { LinkAddress(host: "127.0.0.1", port: $0) }
                        let found = try await sender.withConnection(to: destination) { ($0.proven.id, $0.address.port) }
                        #expect(found == (Stage.bea.peerID, port))
                    }
                    // Without the genuine one, the impostor is named.
                    var destination = stage.destination(other.port)
                    destination.addresses.append(LinkAddress(host: "127.0.0.1", port: 1))
                    let error = await #expect(throws: NodeError.self) {
                        try await sender.withConnection(to: destination) { _ in }
                    }
                    #expect(error?.isTransient == false)
                }
            }
        }
    }

    @Test("K9: a link to the node itself is refused") func ourselves() async throws {
        let stage = Stage(.memory)
        try await withNode(stage.receiver) { node in
            let listener = try node.listen()
            await #expect(throws: NodeError.self) {
                try await node.withConnection(to: stage.destination(listener.port)) { _ in }
            }
        }
    }

    @Test("R11: invitations of a blocked peer are declined", arguments: LinkKind.allCases) func blocked(_ linkKind: LinkKind)
        async throws
    {
        let stage = Stage(linkKind)
        var settings = stage.receiver
        settings.trustStatus = { peer, _ in peer.id == Stage.ada.peerID ? .known(.blocked, isFriend: false) : .new }
        for _ in 0..<10 {
            let invited = try await withNode(settings) { receiver in
                let listener = try receiver.listen()
                try await withNode(stage.sender) { sender in
                    _ = try? await sender.withConnection(to: stage.destination(listener.port)) { connection in
                        let transfer = connection.send(
                            InMemorySource(MemoryContent(file: "a", [1])), resumeKey: Stage.resumeKey, timeout: .seconds(60))
                        // The error depends on whether the offer was sent before the link closed.
                        let outcome = await transfer.result.outcome
                        #expect(outcome == .interrupted || outcome == .declined(.acceptsNothing))
                    }
                }
                receiver.beginShutdown()
                var count = 0
                for await _ in listener.invitations { count += 1 }
                return count
            }
            #expect(invited == 0)
        }
    }

    @Test("an unreachable peer is reported as such") func unreachable() async throws {
        let stage = Stage(.memory)
        try await withNode(stage.sender) { sender in
            let error = await #expect(throws: NodeError.self) {
                try await sender.withConnection(to: stage.destination(9)) { _ in }
            }
            guard case .unreachable? = error else {
                Issue.record("\(String(describing: error))")
                return
            }
        }
    }
}
