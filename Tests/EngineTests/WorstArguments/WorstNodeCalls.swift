import Nearshare
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

/// The machine, its nodes, and what finds and reaches peers.
extension WorstCall {
    private static func names(_ texts: [String]) -> [DisplayName] { texts.compactMap { DisplayName(truncating: $0) } }

    private static var services: [ServiceType] {
        [.nearshare] + ["a", "my-game"].compactMap { name in try? ServiceType(name) }
    }

    /// Settings inside of their bounds and outside.
    private static var settings: [SessionSettings] {
        var all: [SessionSettings] = []
        for number in Worst.integers {
            var settings = TestNetwork.trusting
            settings.memberLimit = number
            all.append(settings)
        }
        for time in Worst.durations {
            var settings = TestNetwork.trusting
            settings.timeout = time
            all.append(settings)
        }
        return all
    }

    static let nodes: [WorstCall] = [
        WorstCall("LocalMachine.init(identity:environment:)") {
            let scratch = ScratchFolder()
            for text in Worst.texts {
                attempt { try LocalMachine(identity: .application(text), environment: WorstScene.environment(scratch)) }
                for name in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
                    for path in [text, scratch(text), "/proc/self/\(text)"] {
                        attempt { try LocalMachine(environment: ["HOME": scratch.path, name: path]) }
                    }
                }
            }
        },
        WorstCall(
            "LocalMachine.inbox(_:maximumSize:)",
            in: { scene in
                for text in Worst.texts {
                    for size in [nil, 0, UInt64.max] {
                        attempt { try scene.machine.inbox(scene.scratch("in") + text, maximumSize: size) }
                        attempt { try scene.machine.inbox(scene.scratch("file/\(text)"), maximumSize: size) }
                    }
                }
                attempt { try scene.machine.inbox("/proc") }
                attempt { try scene.machine.inbox() }
            }),
        WorstCall(
            "LocalMachine.recordComparison(with:named:isSame:)",
            in: { scene in
                for byte in [UInt8.min, .max] {
                    guard let key = Fingerprint(bytes: [UInt8](repeating: byte, count: 32)) else { continue }
                    for text in Worst.texts {
                        guard let name = DisplayName(truncating: text) else { continue }
                        for isSame in [false, true, false] {
                            attempt { try scene.machine.recordComparison(with: key, named: name, isSame: isSame) }
                        }
                    }
                }
            }),
        WorstCall(
            "LocalMachine.run(as:interface:findsOthers:usesBluetooth:encryption:limits:log:body:)",
            in: { scene in
                var limits = NodeLimits()
                (limits.links, limits.linksPerAddress) = (.max, .max)
                for text in Worst.texts {
                    await attempt(for: .seconds(20)) { [limits] in
                        try await scene.machine.run(
                            as: DisplayName(truncating: text), interface: text, findsOthers: false, limits: limits,
                            log: { _ in }
                        ) { node in
                            attempt { try node.listen() }
                            attempt { try node.startSession() }
                            throw CancellationError()
                        }
                    }
                }
            }),
        WorstCall(
            "LocalMachine.startNode(as:interface:findsOthers:usesBluetooth:encryption:limits:log:)",
            in: { scene in
                for text in Worst.texts {
                    let node = attempt {
                        try scene.machine.startNode(
                            as: DisplayName(truncating: text), interface: text, findsOthers: false, encryption: .none,
                            limits: NodeLimits())
                    }
                    if let node {
                        attempt { try node.listen() }
                        await node.stop()
                        await node.stop()
                    }
                }
            }),
        WorstCall(
            "Node.id", "Node.name", "Node.stop()", "TransferProgressManager.transfers",
            in: { scene in
                _ = (scene.node.id, scene.node.name, scene.node.transferProgress.transfers)
                // In the scope of a connection, which ends with it.
                await attempt(for: .seconds(20)) {
                    try await scene.node.withConnection(to: scene.destinations[0]) { _ in await scene.node.stop() }
                }
                await scene.node.stop()
            }),
        WorstCall(
            "Node.listen(as:info:port:usesRadio:joinsMesh:)",
            in: { scene in
                for pairs in Worst.pairs { attempt { try scene.node.listen(info: pairs) } }
                for port: UInt16 in [0, 1, scene.listener.port, .max] {
                    for service in services {
                        for joinsMesh in [nil, true, false] {
                            attempt { try scene.node.listen(as: service, port: port, usesRadio: true, joinsMesh: joinsMesh) }
                        }
                    }
                }
            }),
        WorstCall(
            "Listener.port", "Listener.update(info:)", "Listener.stopAdvertising()",
            of: { scene in try scene.node.listen() },
            calls: { _, listener in
                for pairs in Worst.pairs { attempt { try listener.update(info: pairs) } }
                listener.stopAdvertising()
                attempt { try listener.update(info: ["key": "value"]) }
                _ = listener.port
            }),
        WorstCall(
            "Listener.invitations", "Listener.sessionInvitations",
            in: { scene in
                // Several readers.
                for _ in 0..<4 {
                    scene.run { for await _ in scene.listener.invitations {} }
                    scene.run { for await _ in scene.listener.sessionInvitations {} }
                }
            }),
        WorstCall(
            "Listener.sessions(_:settings:)",
            in: { scene in
                for settings in settings {
                    let policy = InvitationPolicy { _ in true }
                    scene.run {
                        for await session in try scene.listener.sessions(policy, settings: settings) { await session.leave() }
                    }
                }
                await attempt { try await scene.node.startSession().invite(scene.destinations[0], timeout: .seconds(1)) }
            }),
        WorstCall(
            "Node.browse(for:)",
            of: { scene in try await scene.node.browse() },
            calls: { scene, events in
                for service in services {
                    await attempt { for try await _ in try await scene.node.browse(for: service) {} }
                }
                // One sequence for several readers.
                await withDiscardingTaskGroup { group in
                    for _ in 0..<4 { group.addTask { await attempt { for try await _ in events {} } } }
                }
            }),
        WorstCall(
            "Node.find(_:for:timeout:)",
            in: { scene in
                for text in Worst.texts {
                    await attempt { try await scene.node.find(text, timeout: .zero) }
                }
                for time in Worst.durations {
                    await attempt { try await scene.node.find("nobody", for: .nearshare, timeout: time) }
                    await attempt { try await scene.node.find(scene.other.name.claimed, timeout: time) }
                }
            }),
        WorstCall(
            "Node.invite(_:into:for:searchTimeout:context:secret:timeout:)",
            in: { scene in
                for time in Worst.durations {
                    await attempt(for: .milliseconds(20)) {
                        try await scene.node.invite(
                            "nobody", into: scene.session, searchTimeout: time, context: Worst.byteStrings[4], secret: [],
                            timeout: time)
                    }
                    await attempt(for: .milliseconds(20)) {
                        // Into a session of another node.
                        try await scene.node.invite(
                            scene.other.id.description, into: scene.joined, searchTimeout: .seconds(1), timeout: time)
                    }
                }
            }),
        WorstCall(
            "Node.pickPeer(for:)",
            in: { scene in
                // A task that is cancelled asks no question: tests may have a terminal.
                await withTaskGroup(of: Void.self) { group in
                    group.cancelAll()
                    for service in services { group.addTask { await attempt { try await scene.node.pickPeer(for: service) } } }
                }
            }),
        WorstCall(
            "Node.startSession(_:)",
            in: { scene in
                for settings in settings {
                    await attempt { try scene.node.startSession(settings) }?.leave(waiting: .zero)
                }
            }),
        WorstCall(
            "Node.join(_:for:admission:settings:)",
            in: { scene in
                for (number, text) in Worst.texts.enumerated() {
                    for admission in [RoomAdmission.open, .ask, .secret(text)] {
                        for service in services {
                            let session = attempt {
                                try scene.node.join(
                                    text, for: service, admission: admission, settings: settings[number % settings.count])
                            }
                            attempt { try scene.node.join(text, for: service, admission: admission) }
                            await session?.leave(waiting: .seconds(-1))
                        }
                    }
                }
            }),
        WorstCall(
            "Node.withConnection(to:body:)",
            in: { scene in
                for destination in scene.destinations {
                    await attempt(for: .seconds(5)) {
                        try await scene.node.withConnection(to: destination) { _ in throw CancellationError() }
                    }
                }
            }),
        WorstCall(
            "Connection.shortCode", "Connection.trustStatus", "Connection.send(paths:named:context:timeout:)",
            "Connection.send(text:timeout:)",
            // Kept for longer than its scope.
            of: { scene in try await scene.node.withConnection(to: scene.destinations[0]) { $0 } },
            calls: { scene, ended in
                try await use(ended, scene)
                await attempt(for: .seconds(20)) {
                    try await scene.node.withConnection(to: scene.destinations[0]) { try await use($0, scene) }
                }
            }),
    ]

    private static func use(_ connection: Connection, _ scene: WorstScene) async throws {
        _ = connection.trustStatus
        await attempt { try await connection.shortCode }
        let file = scene.scratch("file")
        var transfers: [Transfer?] = []
        for (number, text) in Worst.texts.enumerated() {
            let time = Worst.durations[number % Worst.durations.count]
            let paths = [[], [text], [file, text], [file, file], ["\(file)/\(text)"]]
            for paths in paths where !paths.contains("/") && !paths.contains("..") {
                transfers.append(attempt { try connection.send(paths: paths, named: text, timeout: time) })
                transfers.append(attempt { try connection.send(paths: paths) })
            }
            transfers.append(attempt { try connection.send(text: text, timeout: time) })
        }
        for path in ["/dev/null", "/dev/zero", "/proc/self/mem", scene.scratch("missing")] {
            transfers.append(attempt { try connection.send(paths: [path]) })
        }
        for context in Worst.byteStrings {
            transfers.append(attempt { try connection.send(paths: [file], context: context) })
        }
        for transfer in transfers {
            transfer?.cancel()
            _ = await transfer?.result
        }
    }
}
