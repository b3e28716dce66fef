import Glibc
import Nearshare
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Two nodes in one session, and a machine, for calls with their worst arguments.
final class WorstScene: Sendable {
    let node: Node
    let other: Node
    let listener: Listener
    let session: Session
    /// The session of the other node.
    let joined: Session
    let machine: LocalMachine
    let scratch: ScratchFolder
    let stranger = TestNetwork.identity(9).peerID
    private let network: TestNetwork
    private let background = Monitor<[Task<Void, Never>]>([])

    init() async throws {
        let (network, segment) = (TestNetwork(.memory), InMemorySegment())
        self.network = network
        let nodes = (0..<2).map { number in
            var settings = network.settings(number)
            settings.discovery = segment.join(host: "127.0.0.1")
            // A limit must stand neither in the way of these calls nor of a sum.
            (settings.limits.links, settings.limits.linksPerAddress) = (.max, .max)
            return Node.start(settings)
        }
        (node, other) = (nodes[0], nodes[1])
        let listener = try other.listen(joinsMesh: false)
        self.listener = listener
        let session = try node.startSession(TestNetwork.trusting)
        self.session = session
        async let accepted = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
        _ = try await session.invite(network.destination(1, listener.port))
        joined = try #require(await accepted)
        for session in [session, joined] { try await session.waitUntilAllAreConnected(1) }
        scratch = ScratchFolder()
        machine = try LocalMachine(identity: .ephemeral, environment: Self.environment(scratch))
        try write("content", to: scratch("file"))
    }

    static func environment(_ scratch: ScratchFolder) -> [String: String] {
        ["HOME": scratch.path]
    }

    /// This node, the other member, and a peer that is in no session.
    var peers: [PeerID] { [node.id, other.id, stranger] }

    /// The other node, this node itself, and addresses at which there is no node.
    var destinations: [PeerDestination] {
        [
            network.destination(1, listener.port), PeerDestination(addresses: []),
            PeerDestination(addresses: [(host: "127.0.0.1", port: node.listeningPort ?? 0)]),
            PeerDestination(addresses: [(host: "127.0.0.1", port: listener.port)], id: stranger),
        ] + Worst.texts.map { PeerDestination(addresses: [(host: $0, port: .max), (host: $0, port: 0)]) }
    }

    /// Runs something beside the calls, until it ends or the scene does.
    func run(_ body: @escaping @Sendable () async throws -> Void) {
        let task = Task { _ = try? await body() }
        background.update { $0.append(task) }
    }

    /// Ends the sessions and the nodes. What was made in the scene can still be called.
    func end() async {
        for session in [session, joined] { await session.leave(waiting: .zero) }
        for node in [node, other] { await node.stop() }
        for task in background.withLock({ $0 }) {
            task.cancel()
            await task.value
        }
    }

    private func write(_ text: String, to path: String) throws {
        let file = try #require(fopen(path, "w"))
        fputs(text, file)
        fclose(file)
    }
}

/// Arguments that a program has not thought of.
enum Worst {
    static let texts = [
        "", " ", "\0", "\n", "a\0b", "..", "/", "%", "-1", "\u{1b}[2J", "\u{202e}x", "\u{feff}", "127.0.0.1%lo", "::%",
        String(repeating: "\u{1f469}\u{200d}", count: 300), String(repeating: "x", count: 64),
        String(repeating: "x", count: 256),
        String(repeating: "x", count: 100_000),
    ]
    static let integers: [Int] = [.min, -1, 0, 1, 2, 65, .max - 1, .max]
    static let durations: [Duration] = [
        .zero, .nanoseconds(-1), .nanoseconds(1), .seconds(-1), .seconds(Int64.min), .seconds(Int64.max),
        .nanoseconds(Int64.max),
        Duration(secondsComponent: .max, attosecondsComponent: 999_999_999_999_999_999),
        Duration(secondsComponent: .min, attosecondsComponent: 0),
    ]
    static let byteStrings: [[UInt8]] = [
        [], [0], [UInt8](repeating: 255, count: 1024), [UInt8](repeating: 0, count: 1025),
        [UInt8](repeating: 0, count: 2 << 20),
    ]
    static let pairs: [[String: String]] =
        texts.map { [$0: $0] } + texts.map { ["key": $0] }
        + [
            ["v": "1"], ["id": "x"], ["Key": "1", "kEY": "2"],
            Dictionary(uniqueKeysWithValues: (0..<1000).map { ("key\($0)", "\($0)") }),
        ]

    /// A value inside of as many others as a program can build.
    static let deep: StructuredValue = (0..<500).reduce(.null) { value, _ in .array([.object(["": value])]) }
    static let values: [StructuredValue] = [
        .null, .bool(true), .integer(.min), .integer(.max), .number(.nan), .number(-.infinity),
        .number(.greatestFiniteMagnitude),
        .string(""), .string("\0"), .string(String(repeating: "x", count: 2 << 20)), .binary([]),
        .binary([UInt8](repeating: 0, count: 1025)), .array([]), .object([:]), .object(["": .number(.infinity)]), deep,
    ]

    /// A value that contains itself.
    struct Endless: Codable, Sendable {
        init() {}

        init(from decoder: any Decoder) throws {
            if var elements = try? decoder.unkeyedContainer() { _ = try elements.decode(Endless.self) }
            let members = try decoder.container(keyedBy: Key.self)
            for key in members.allKeys { _ = try members.decode(Endless.self, forKey: key) }
        }

        func encode(to encoder: any Encoder) throws {
            var elements = encoder.unkeyedContainer()
            try elements.encode(Endless())
        }

        private struct Key: CodingKey {
            let stringValue: String
            var intValue: Int? { nil }
            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }
    }

    /// A type whose coding fails with an error of its own.
    struct Failing: Codable, Sendable {
        init() {}
        init(from decoder: any Decoder) throws { throw CancellationError() }
        func encode(to encoder: any Encoder) throws { throw CancellationError() }
    }
}
