import Nearshare
import NearshareBase
import NearshareEngine
import NearshareInterfaces
import NearshareTesting
import Testing

/// Sessions, their members, and what is sent to them.
extension WorstCall {
    static let sessions: [WorstCall] = [
        WorstCall(
            "Session.invite(_:context:secret:timeout:)",
            in: { scene in
                for (number, destination) in scene.destinations.enumerated() {
                    let bytes = Worst.byteStrings[number % Worst.byteStrings.count]
                    await attempt {
                        try await scene.session.invite(destination, context: bytes, secret: bytes, timeout: .seconds(1))
                    }
                }
                for time in Worst.durations {
                    await attempt { try await scene.session.invite(scene.destinations[0], timeout: time) }
                    await attempt { try await scene.joined.invite(scene.destinations[2], timeout: time) }
                }
            }),
        WorstCall(
            "Session.leave(waiting:)",
            in: { scene in
                for time in Worst.durations {
                    await attempt { await scene.session.leave(waiting: time) }
                    await attempt { await scene.joined.leave(waiting: time) }
                }
            }),
        WorstCall(
            "Session.members", "Session.Member.roundTripTime", "Session.Member.packetLoss", "Session.founder", "Session.ended",
            in: { scene in
                for session in [scene.session, scene.joined] {
                    _ = (session.members.map { ($0.roundTripTime, $0.packetLoss) }, session.founder)
                    await attempt { await session.ended }
                }
            }),
        WorstCall(
            "Session.remove(_:)",
            in: { scene in
                for peer in scene.peers {
                    // The other node has not founded the session.
                    attempt { try scene.joined.remove(peer) }
                    attempt { try scene.session.remove(peer) }
                    attempt { try scene.session.remove(peer) }
                }
            }),
        WorstCall(
            "Session.waitUntilConnected(to:)",
            in: { scene in
                for peer in scene.peers {
                    // A session throws for its own node, instead of waiting.
                    await attempt { try await scene.session.waitUntilConnected(to: peer) }
                    await attempt { try await scene.joined.waitUntilConnected(to: peer) }
                }
                await #expect(throws: SessionError.self) { try await scene.session.waitUntilConnected(to: scene.node.id) }
            }),
        WorstCall(
            "Session.setMetadata(_:)",
            in: { scene in
                for value in Worst.values { attempt { try scene.session.setMetadata(value) } }
                attempt { try scene.session.setMetadata(UInt64.max) }
                attempt { try scene.session.setMetadata(Worst.Endless()) }
                attempt { try scene.session.setMetadata(Worst.Failing()) }
                attempt { try scene.session.setMetadata(String?.none) }
            }),
        WorstCall(
            "Session.events", "Session.messages", "Session.changes", "Session.streams", "Session.resources",
            "Session.identityQuestions",
            in: { scene in
                let (events, messages) = (scene.joined.events, scene.joined.messages)
                await withDiscardingTaskGroup { group in
                    for _ in 0..<3 {
                        group.addTask { await attempt { for await _ in events {} } }
                        group.addTask { await attempt { for await _ in scene.joined.events {} } }
                        group.addTask { await attempt { for await _ in messages {} } }
                        group.addTask { await attempt { for await _ in scene.joined.changes {} } }
                        group.addTask { await attempt { for await _ in scene.joined.streams {} } }
                        group.addTask { await attempt { for await _ in scene.joined.resources {} } }
                        group.addTask { await attempt { for await _ in scene.joined.identityQuestions {} } }
                    }
                    group.addTask {
                        for number: UInt8 in 0..<100 {
                            await attempt { try await scene.session.send(SessionMessage(bytes: [number])) }
                        }
                    }
                }
            }),
        WorstCall(
            "SessionInvitation.accept(_:asksTrust:)", "SessionInvitation.decline()", "SessionInvitation.ended",
            "SessionInvitation.shortCode",
            of: { scene in
                let session = try scene.node.startSession(TestNetwork.trusting)
                scene.run { _ = try await session.invite(scene.destinations[0]) }
                return try #require(await scene.listener.sessionInvitations.first { _ in true })
            },
            calls: { _, invitation in
                var settings = SessionSettings()
                // 2 is a valid limit: it would accept the invitation before the other calls.
                for number in Worst.integers where number != 2 {
                    settings.memberLimit = number
                    attempt { try invitation.accept(settings) }
                }
                for asksTrust in [true, false] { attempt { try invitation.accept(asksTrust: asksTrust) } }
                invitation.decline()
                await attempt { await invitation.ended }
                await attempt { await invitation.shortCode }
            }),
        WorstCall(
            "IdentityQuestion.answer(isSame:)", "IdentityQuestion.ended",
            of: { scene in
                let session = try scene.node.startSession(SessionSettings())
                scene.run { _ = try await session.invite(scene.destinations[0]) }
                let invitation = try #require(await scene.listener.sessionInvitations.first { _ in true })
                scene.run { [joined = try invitation.accept(TestNetwork.trusting)] in _ = await joined.ended }
                return try #require(await session.identityQuestions.first { _ in true })
            },
            calls: { _, question in
                for isSame in [true, false, true] { question.answer(isSame: isSame) }
                await attempt { await question.ended }
            }),
    ]

    static let exchange: [WorstCall] = [
        WorstCall(
            "Session.send(_:to:mode:isUrgent:timeout:)",
            in: { scene in
                let messages =
                    Worst.byteStrings.map { SessionMessage(bytes: $0) } + [
                        SessionMessage(bytes: Array(repeating: 0, count: Session.maximumUnreliableByteCount + 1))
                    ]
                let receivers: [[PeerID]?] =
                    [nil, [], scene.peers, [scene.other.id, scene.other.id]] + scene.peers.map { [$0] }
                for message in messages {
                    for receivers in receivers {
                        await attempt { try await scene.session.send(message, to: receivers) }
                        await attempt { try await scene.session.send(message, to: receivers, isUrgent: true) }
                        await attempt {
                            try await scene.session.send(message, to: receivers, mode: .unreliable, isUrgent: true)
                        }
                    }
                }
                for time in Worst.durations {
                    for mode in [Session.DeliveryMode.reliable, .unreliable] {
                        await attempt { try await scene.session.send(messages[0], mode: mode, timeout: time) }
                    }
                }
                await #expect(throws: SessionError.self) { try await scene.session.send(messages[0], to: [scene.node.id]) }
            }),
        WorstCall(
            "SentMessage.delivered",
            of: { scene in
                [
                    try await scene.session.send(SessionMessage(bytes: [])),
                    try await scene.session.send(SessionMessage(bytes: []), mode: .unreliable),
                    try await scene.session.send(SessionMessage(bytes: []), timeout: .seconds(-1)),
                ]
            },
            calls: { _, sent in for sent in sent { await attempt { try await sent.delivered } } }),
        WorstCall(
            "Session.channel(_:named:)", "Session.Channel.send(_:to:mode:isUrgent:)", "Session.Channel.makeAsyncIterator()",
            of: { scene in try scene.joined.channel(StructuredValue.self, named: "moves") },
            calls: { scene, channel in
                for text in Worst.texts { attempt { try scene.session.channel(Int.self, named: text) } }
                // Another type under the same name.
                let numbers = attempt { try scene.session.channel(Int.self, named: "moves") }
                await attempt { _ = try await numbers?.send(.max) }
                let endless = attempt { try scene.session.channel(Worst.Endless.self, named: "moves") }
                await attempt { _ = try await endless?.send(Worst.Endless()) }
                for value in Worst.values {
                    for mode in [Session.DeliveryMode.reliable, .unreliable] {
                        await attempt { try await channel.send(value, mode: mode) }
                        await attempt { try await channel.send(value, to: [scene.stranger], mode: mode, isUrgent: true) }
                    }
                }
                await withDiscardingTaskGroup { group in
                    for _ in 0..<3 { group.addTask { await attempt { for await _ in channel {} } } }
                }
            }),
        WorstCall(
            "Session.openStream(named:to:)",
            in: { scene in
                for text in Worst.texts {
                    for peer in scene.peers {
                        await attempt { try await scene.session.openStream(named: text, to: peer).finish() }
                    }
                }
                // More than a link has room for.
                var streams: [ByteStream] = []
                for _ in 0..<300 {
                    guard let stream = try? await scene.session.openStream(named: "", to: scene.other.id) else { break }
                    streams.append(stream)
                }
                for stream in streams { stream.cut() }
            }),
        WorstCall(
            "ByteStream.name", "ByteStream.read(upTo:)", "ByteStream.write(_:)", "ByteStream.makeAsyncIterator()",
            "ByteStream.finish()", "ByteStream.cut()",
            of: { scene in
                let stream = try await scene.session.openStream(named: "\0", to: scene.other.id)
                return [stream, try #require(await scene.joined.streams.first { _ in true })]
            },
            calls: { _, streams in
                for stream in streams {
                    _ = stream.name
                    await withDiscardingTaskGroup { group in
                        for bytes in Worst.byteStrings { group.addTask { await attempt { try await stream.write(bytes) } } }
                        for limit in Worst.integers { group.addTask { await attempt { try await stream.read(upTo: limit) } } }
                        for _ in 0..<2 { group.addTask { await attempt { for try await _ in stream {} } } }
                    }
                    for _ in 0..<2 { stream.finish() }
                    await attempt { try await stream.write([1]) }
                }
                for stream in streams + streams { stream.cut() }
            }),
        WorstCall(
            "Session.sendResource(at:named:to:context:timeout:)",
            in: { scene in
                let file = scene.scratch("file")
                // Not these two: they would send the whole disk, or the folder around the package.
                for (number, text) in Worst.texts.enumerated() where text != "/" && text != ".." {
                    let time = Worst.durations[number % Worst.durations.count]
                    let bytes = Worst.byteStrings[number % Worst.byteStrings.count]
                    for path in [text, file, "\(file)/\(text)", scene.scratch("in") + text, "/dev/zero"] {
                        await attempt {
                            let transfers = try await scene.session.sendResource(
                                at: path, named: text, to: [scene.other.id], context: bytes, timeout: time)
                            for transfer in transfers.values { transfer.cancel() }
                        }
                    }
                }
                for members in [[], scene.peers, [scene.other.id, scene.other.id], [scene.node.id], [scene.stranger]] {
                    await attempt {
                        let transfers = try await scene.session.sendResource(at: file, to: members)
                        for transfer in transfers.values { transfer.cancel() }
                    }
                }
            }),
    ]

    static let offers: [WorstCall] = [
        WorstCall(
            "Invitation.accept(into:)", "Invitation.decline(_:)", "Invitation.ended", "Invitation.shortCode",
            of: { scene in
                _ = try await scene.session.sendResource(at: scene.scratch("file"), to: [scene.other.id])
                return try #require(await scene.joined.resources.first { _ in true })
            },
            calls: { scene, invitation in
                let inboxes = [scene.scratch("file"), scene.scratch("inbox")].map { path in
                    attempt { try scene.machine.inbox(path, maximumSize: path.hasSuffix("file") ? 0 : nil) }
                }
                for inbox in inboxes {
                    guard let inbox else { continue }
                    let transfer = attempt { try invitation.accept(into: inbox) }
                    transfer?.cancel()
                }
                for reason in [DeclineReason.declined, .noSpace, .identityChanged] { invitation.decline(reason) }
                await attempt { await invitation.ended }
                await attempt { await invitation.shortCode }
            }),
        WorstCall(
            "Transfer.cancel()", "Transfer.progress", "Transfer.result", "Transfer.snapshot", "Peer.id", "Peer.fingerprint",
            of: { scene in
                let sent = try await scene.session.sendResource(at: scene.scratch("file"), to: [scene.other.id])
                let invitation = try #require(await scene.joined.resources.first { _ in true })
                _ = (invitation.peer.id, invitation.peer.fingerprint)
                let received = try invitation.accept(into: scene.machine.inbox(scene.scratch("inbox")))
                return sent.values + [received]
            },
            calls: { _, transfers in
                for transfer in transfers {
                    _ = transfer.snapshot
                    let progress = transfer.progress
                    transfer.cancel()
                    await withDiscardingTaskGroup { group in
                        for _ in 0..<3 {
                            group.addTask { for await _ in progress {} }
                            group.addTask { for await _ in transfer.progress {} }
                            group.addTask { _ = await transfer.result }
                        }
                    }
                    transfer.cancel()
                }
            }),
    ]
}
