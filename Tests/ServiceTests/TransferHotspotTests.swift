import Glibc
import Logging
import Nearshare
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareService

/// A link of a radio in memory: slow, so that a transfer takes some seconds.
private final class RadioLink: ForwardingLink {
    let inner: any StreamLink
    let remote = LinkAddress(host: "00:AA:01:00:00:00/public", port: 1, medium: .bluetooth)
    private let air: Air
    private let contentCount = Atomic(0)
    private let isClosed = Atomic(false)

    init(_ link: any StreamLink, _ air: Air) { (inner, self.air) = (link, air) }

    var localHost: String? { nil }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        // Content, and not frames.
        if bytes.count > 10_000 {
            usleep(air.writeTime)
            let count = contentCount.add(bytes.count, ordering: .relaxed).newValue
            air.limit.wait { limit in count <= limit || isClosed.load(ordering: .relaxed) ? () : nil }
        }
        air.byteCount.add(bytes.count, ordering: .relaxed)
        try inner.write(bytes)
    }

    func close() {
        isClosed.store(true, ordering: .relaxed)
        air.limit.update { _ in }
        inner.close()
    }
}

/// The air between the radios of a test.
private final class Air: StreamTransport {
    private final class Listener: StreamListener {
        let listener: any StreamListener
        let air: Air

        init(_ listener: any StreamListener, _ air: Air) { (self.listener, self.air) = (listener, air) }

        var port: UInt16 { listener.port }
        func accept() throws(LinkError) -> any StreamLink { RadioLink(try listener.accept(), air) }
        func close() { listener.close() }
    }

    let byteCount = Atomic(0)
    /// Bytes of content on one link, beyond which a write waits.
    let limit = Monitor(Int.max)
    let segment = InMemorySegment(interfaceName: "radio0")
    /// Microseconds for each write of content.
    let writeTime: UInt32
    private let links = InMemoryTransport()
    private let connected = Mutex<[any StreamLink]>([])

    init(writeTime: UInt32) { self.writeTime = writeTime }

    /// Breaks all links, as when two devices have moved apart.
    func breakLinks() {
        for link in connected.withLock(\.self) { link.close() }
    }

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        Listener(try links.listen(port: port, interface: interface), self)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        let link = RadioLink(try links.connect(to: address, timeout: timeout, cancelledBy: cancellation), self)
        connected.withLock { $0.append(link) }
        return link
    }

    func radio(_ host: String) -> RadioOpener {
        { () throws(DiscoveryError) in
            // Addresses of a radio are none of a network.
            let discovery = TransformedDiscovery(self.segment.join(host: host)) { event in
                guard case .seen(var sighting) = event else { return event }
                sighting.address = LinkAddress(
                    host: sighting.address.host, port: sighting.address.port, medium: .bluetooth)
                return .seen(sighting)
            }
            return Radio(frames: InMemoryFrameRadio(), transport: self, discovery: discovery)
        }
    }
}

/// A Wi-Fi connection that takes so long to start that the link over which it was agreed on breaks meanwhile.
private final class SlowWiFiConnection: WiFiConnection {
    let inner: InMemoryWiFiConnection
    private let air: Air

    /// - Parameter plan: waits for its end in ``start(_:as:)``.
    init(_ plan: WiFiPlan, _ air: Air) {
        (inner, self.air) = (InMemoryWiFiConnection(plan: .success(plan), address: nil), air)
    }

    func prepare(on interface: String?, for purpose: WiFiPurpose) async throws(WiFiError) -> WiFiPlan {
        try await inner.prepare(on: interface, for: purpose)
    }

    func start(_ network: WiFiNetwork, as role: WiFiRole) async throws(WiFiError) -> IPAddress {
        air.breakLinks()
        return try await inner.start(network, as: role)
    }

    var failure: WiFiError? {
        get async { await inner.failure }
    }

    func beginStop() { inner.beginStop() }
    func stop() async -> Bool { await inner.stop() }
}

/// A network that can be switched off; it records the addresses that were connected to.
private final class Network: StreamTransport {
    private let links = InMemoryTransport()
    let hosts = Mutex<[String]>([])
    let isDown = Atomic(false)
    private let onConnect: @Sendable () -> Void

    init(onConnect: @escaping @Sendable () -> Void) { self.onConnect = onConnect }

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try links.listen(port: port, interface: interface)
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        hosts.withLock { $0.append(address.host) }
        onConnect()
        if isDown.load(ordering: .relaxed) { throw LinkError(.unreachable, "no route") }
        return try links.connect(to: address, timeout: timeout, cancelledBy: cancellation)
    }
}

/// A user who accepts offers, and answers the question about a hotspot.
private final class HotspotDisplay: PromptDisplay {
    let redraws = false
    let size = (columns: 80, rows: 24)
    private let answer: String
    private let stream: AsyncStream<AnswerKey>
    private let typing: AsyncStream<AnswerKey>.Continuation
    private let asked = Mutex<(last: String?, shown: [String])>((nil, []))

    init(_ answer: String) {
        self.answer = answer
        (stream, typing) = AsyncStream.makeStream()
    }

    /// The questions about hotspots, with their texts.
    var questions: [String] { asked.withLock { $0.shown.filter { $0.contains("hotspot for this transfer") } } }

    func keys() -> AsyncStream<AnswerKey> { stream }
    func show(_ text: String) { asked.withLock { $0.shown.append(text) } }
    func confirmAnswer() {}
    func discardTypedInput() {}

    func setPrompt(_ prompt: String?, typed: String) {
        let isNew = asked.withLock { state in
            defer { state.last = prompt }
            return prompt != nil && prompt != state.last && typed.isEmpty
        }
        guard isNew, let prompt else { return }
        let answer = prompt.contains("accept?") ? "y" : prompt.contains("use the hotspot?") ? answer : ""
        guard !answer.isEmpty else { return }
        typing.yield(.text(answer))
        typing.yield(.enter)
    }
}

@Suite("a hotspot for a transfer over Bluetooth", .timeLimit(.minutes(2)), .leavesNothing)
struct TransferHotspotTests {
    private static let office = WiFiPlan(interface: "wlan0", replacedConnection: "Office", sharedConnection: nil)
    private static let size = 12 << 20

    private let stage = ServiceStage()
    private let air: Air
    private let network: Network
    private let sender = EventRecorder()
    private let receiver = EventRecorder()

    init() {
        let air = Air(writeTime: 30_000)
        self.air = air
        network = Network { air.limit.update { $0 = .max } }
    }

    private struct Run {
        var failure: CommandFailure?
        var received: [UInt8]
        var sent: [UInt8]
    }

    private func settings(_ user: StageUser, _ host: String) throws -> NodeSettings {
        var settings = try user.settings()
        // No common network.
        settings.discovery = InMemorySegment().join(host: "10.0.0.1")
        settings.transport = network
        settings.radio = air.radio(host)
        return settings
    }

    /// - Parameter points: used one after the other, the last one for all further uses.
    private func hotspot(
        _ points: [any WiFiConnection], _ networks: [IPSubnet] = []
    ) -> HotspotPreparer {
        let next = Mutex(0)
        return HotspotPreparer(
            interface: nil,
            connection: {
                points[
                    min(
                        next.withLock { next in
                            defer { next += 1 }
                            return next
                        }, points.count - 1)]
            }, localNetworks: { networks })
    }

    /// Holds content back on the radio until the network is used: on a busy machine, the transfer would end before.
    private func waitForNetwork() { air.limit.update { $0 = Self.size / 3 } }

    /// Sends a file from ada to bea, who is found over Bluetooth.
    private func send(
        _ adaPoints: [any WiFiConnection], _ beaPoints: [any WiFiConnection], accept: Configuration.Accept = .ask,
        display: HotspotDisplay? = nil, leavesWiFi: Bool = false, isFriend: Bool = false,
        beaNetworks: [IPSubnet] = [], consent: HotspotOperation.Consent = .given
    ) async throws -> Run {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        if isFriend { try bea.introduce(ada.fingerprint, as: "ada", isFriend: true) }
        let (operation, bytes) = try makeSend(of: ada, adaPoints, consent: consent)
        let inbox = try bea.machine.inbox(bea.scratch("inbox"), limits: InboxLimits())
        let controller = ReceiveController(
            machine: bea.machine, destination: .inbox(inbox), accept: Acceptance(accept, exemptsFriends: isFriend),
            quota: PeerQuota(limit: nil), reporter: receiver, endsAfterFirst: false, display: display,
            hotspot: beaPoints.isEmpty ? nil : hotspot(beaPoints, beaNetworks), leavesWiFi: leavesWiFi)
        let failure = try await withNode(try settings(bea, "00:AA:01:00:00:02/public")) { node in
            let listener = try node.listen(usesRadio: true, joinsMesh: false)
            return try await withThrowingTaskGroup(of: CommandFailure?.self) { group in
                group.addTask { [ada] in
                    defer { node.beginShutdown() }
                    return try await withNode(try settings(ada, "00:AA:01:00:00:01/public")) { node in
                        await caughtFailure { try await operation.run(to: [.text("bea")], on: node) }
                    }
                }
                try await controller.serve(listener, on: node)
                return try await group.next() ?? nil
            }
        }
        return Run(failure: failure, received: received(by: bea), sent: bytes)
    }

    /// A send of a new file, and its content.
    private func makeSend(
        of ada: StageUser, _ points: [any WiFiConnection], consent: HotspotOperation.Consent = .given
    ) throws -> (operation: SendOperation, bytes: [UInt8]) {
        var random = SeededRandom(seed: 3)
        let bytes = (0..<Self.size / 8).flatMap { _ in random.next().bigEndianBytes }
        let path = ada.scratch("a.bin")
        try bytes.withUnsafeBytes { raw in
            let file = try #require(fopen(path, "w"))
            defer { fclose(file) }
            #expect(fwrite(raw.baseAddress, 1, raw.count, file) == raw.count)
        }
        let source = try SendSource.files(FileSource(localPaths: [LocalPath(path)]))
        let operation = SendOperation(
            machine: ada.machine, source: source, reporter: sender, timeout: .seconds(60), resumes: true,
            transport: .bluetooth, hotspot: HotspotRequester(hotspot(points), consent: consent))
        return (operation, bytes)
    }

    /// The file in the inbox of a user; empty where there is none.
    private func received(by user: StageUser) -> [UInt8] {
        guard let file = fopen(user.scratch("inbox") + "/a.bin", "r") else { return [] }
        defer { fclose(file) }
        return [UInt8](unsafeUninitializedCapacity: Self.size + 1) { buffer, count in
            count = fread(buffer.baseAddress, 1, buffer.count, file)
        }
    }

    @Test func `both users agree, the file goes on in the network of the sender, and both leave it`() async throws {
        waitForNetwork()
        let (adaPoint, beaPoint) = (
            InMemoryWiFiConnection(plan: .success(Self.office)), InMemoryWiFiConnection(plan: .success(Self.office))
        )
        let display = HotspotDisplay("y")
        let asked = Mutex<[String]>([])
        let run = try await send(
            [adaPoint], [beaPoint], display: display,
            consent: .ask { question in
                asked.withLock { $0.append(question) }
                return true
            })
        #expect(run.failure == nil && run.received == run.sent)
        // One question at each end, which says what happens there.
        #expect(asked.withLock(\.count) == 1 && asked.withLock { $0[0].contains(#"the Wi-Fi network "Office""#) })
        let question = try #require(display.questions.first)
        #expect(display.questions.count == 1 && question.contains("\"ada\" offers a Wi-Fi hotspot for this transfer"))
        #expect(
            question.contains(#"this machine leaves the Wi-Fi network "Office" until the transfer ends, and has no internet"#))
        // The same network, each end at its own address.
        guard case .accessPoint(let accessPoint, prefixLength: 24)? = adaPoint.role,
            case .station(let station, prefixLength: 24, .ghz2Point4)? = beaPoint.role
        else {
            Issue.record("other roles")
            return
        }
        #expect(accessPoint != station && accessPoint.shares(prefixLength: 24, with: station))
        #expect(adaPoint.network == beaPoint.network && adaPoint.network?.ssid.hasPrefix("nearshare-") == true)
        #expect(network.hosts.withLock(\.self) == [station.description])
        #expect(air.byteCount.load(ordering: .relaxed) < Self.size)
        #expect(adaPoint.hasEnded && beaPoint.hasEnded)
        #expect(sender.notices.contains { $0.hasPrefix("going on over the hotspot nearshare-") })
        #expect(sender.notices.last == #"the hotspot is over; wlan0 returns to "Office""#)
        #expect(receiver.notices.last == #"the hotspot is over; wlan0 returns to "Office""#)
        #expect(sender.sent.map(\.outcome) == [.completed] && sender.warnings.isEmpty)
        // The steps, as programs read them: the sender's user and the receiver's are asked.
        let (sent, answered) = (sender.hotspotSteps, receiver.hotspotSteps)
        #expect(sent.map(\.state) == [.asking, .asking, .starting, .active, .ended])
        #expect(answered.map(\.state) == [.asking, .joining, .active, .ended])
        let networks = (sent + answered).filter { $0.state == .active }.map(\.network)
        #expect(networks == [adaPoint.network?.ssid, adaPoint.network?.ssid])
        for end in [sent, answered] { #expect(end.last?.replaced == "Office" && end.allSatisfy { $0.reason == nil }) }
    }

    @Test("a node that runs for other commands asks its user, and takes part", arguments: [true, false])
    func node(hasTerminal: Bool) async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try bea.introduce(ada.fingerprint, as: "ada", isFriend: true)
        let (adaPoint, beaPoint) = (
            InMemoryWiFiConnection(plan: .success(Self.office)), InMemoryWiFiConnection(plan: .success(Self.office))
        )
        // The ports of this node are those of the machine, which are in no network of the test.
        network.isDown.store(true, ordering: .relaxed)
        let display = HotspotDisplay("y")
        var options = NodeOptions(
            purpose: .daemon, interface: "lo", radio: air.radio("00:AA:01:00:00:02/public"),
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        (options.name, options.inbox) = (bea.name, bea.scratch("inbox"))
        var environment = NodeEnvironment(interruption: NoInterruption(), display: hasTerminal ? display : nil) {
            [receiver] _ in
            receiver
        }
        let preparer = hotspot([beaPoint])
        environment.makeHotspot = { _ in preparer }
        let (operation, bytes) = try makeSend(of: ada, [adaPoint])
        try await runNode(on: bea.machine, options: options, environment: environment) { [ada, self] _, _ in
            let failure = try await withNode(try settings(ada, "00:AA:01:00:00:01/public")) { node in
                await caughtFailure { try await operation.run(to: [.text("bea")], on: node) }
            }
            #expect(failure == nil)
        }
        #expect(received(by: bea) == bytes && adaPoint.hasEnded)
        #expect(display.questions.count == (hasTerminal ? 1 : 0))
        if hasTerminal {
            #expect(receiver.hotspotSteps.map(\.state) == [.asking, .joining, .active, .ended] && beaPoint.hasEnded)
        } else {
            #expect(receiver.hotspotSteps.map(\.reason) == [.unavailable] && beaPoint.network == nil)
            #expect(sender.hotspotSteps.last?.reason == .unavailable)
        }
    }

    @Test func `a sender without an access-point mode asks the receiver to be the access point`() async throws {
        let adaPoint = InMemoryWiFiConnection(plan: .failure(.noDevice), stationPlan: .success(Self.office))
        let beaPoint = InMemoryWiFiConnection(plan: .success(Self.office))
        let display = HotspotDisplay("y")
        let run = try await send(
            [InMemoryWiFiConnection(plan: .failure(.noAccessPointMode(interface: "wlan0"))), adaPoint], [beaPoint],
            display: display)
        #expect(run.failure == nil && run.received == run.sent)
        #expect(display.questions.first?.contains("asks this machine to start a Wi-Fi hotspot") == true)
        guard case .station(let station, _, _)? = adaPoint.role, case .accessPoint(let accessPoint, _)? = beaPoint.role else {
            Issue.record("other roles")
            return
        }
        #expect(network.hosts.withLock(\.self) == [accessPoint.description] && accessPoint != station)
        #expect(adaPoint.hasEnded && beaPoint.hasEnded)
    }

    @Test(
        "A15: without the receiver's consent nothing is made or joined, and the file goes on over Bluetooth", arguments: 0..<4)
    func refusals(number: Int) async throws {
        let (adaPoint, beaPoint) = (
            InMemoryWiFiConnection(plan: .success(Self.office)), InMemoryWiFiConnection(plan: .success(Self.office))
        )
        let run: Run
        switch number {
        // The user says no.
        case 0: run = try await send([adaPoint], [beaPoint], display: HotspotDisplay("n"))
        // A policy answers, which is no user.
        case 1: run = try await send([adaPoint], [beaPoint], accept: .all)
        // The option is for friends alone.
        case 2: run = try await send([adaPoint], [beaPoint], accept: .all, leavesWiFi: true)
        // A machine that takes part in none.
        default: run = try await send([adaPoint], [], display: HotspotDisplay("y"))
        }
        #expect(run.failure == nil && run.received == run.sent)
        #expect(adaPoint.network == nil && beaPoint.network == nil && network.hosts.withLock(\.isEmpty))
        let lines = sender.notices.filter { $0.hasSuffix("going on over Bluetooth") }
        #expect(lines.count == 1 && lines[0].contains(number == 0 ? "bea declined the hotspot" : "cannot take part"))
        #expect(air.byteCount.load(ordering: .relaxed) > Self.size && adaPoint.hasEnded)
        #expect(sender.hotspotSteps.last?.state == .abandoned)
        #expect(sender.hotspotSteps.last?.reason == (number == 0 ? .declined : .unavailable))
        let reasons = receiver.hotspotSteps.compactMap(\.reason)
        #expect(reasons == (number == 0 ? [.declined] : number == 3 ? [] : [.unavailable]))
    }

    @Test func `a friend needs no answer where the receiver has chosen so`() async throws {
        waitForNetwork()
        let (adaPoint, beaPoint) = (
            InMemoryWiFiConnection(plan: .success(Self.office)), InMemoryWiFiConnection(plan: .success(Self.office))
        )
        let run = try await send([adaPoint], [beaPoint], accept: .friends, leavesWiFi: true, isFriend: true)
        #expect(run.failure == nil && run.received == run.sent && beaPoint.role != nil)
        #expect(network.hosts.withLock(\.count) == 1 && beaPoint.hasEnded)
    }

    @Test("N18: a network that fails, overlaps or leads nowhere leaves the transfer on Bluetooth", arguments: 0..<4)
    func failures(number: Int) async throws {
        let error = WiFiError.timedOut(interface: "wlan0")
        let adaPoint = InMemoryWiFiConnection(
            plan: .success(Self.office), address: number == 0 ? .failure(error) : .success(.v4(0x0a2a_0001)))
        let beaPoint = InMemoryWiFiConnection(
            plan: .success(Self.office), address: number == 1 ? .failure(error) : .success(.v4(0x0a2a_0002)))
        network.isDown.store(number == 3, ordering: .relaxed)
        let run = try await send(
            [adaPoint], [beaPoint], display: HotspotDisplay("y"),
            beaNetworks: number == 2 ? [IPSubnet(.v4(0x0a00_0001), prefixLength: 0)] : [])
        #expect(run.failure == nil && run.received == run.sent)
        #expect(adaPoint.hasEnded && beaPoint.hasEnded)
        #expect(network.hosts.withLock(\.count) == (number == 3 ? 3 : 0))
        let lines = (sender.notices + sender.warnings).filter { $0.hasSuffix("going on over Bluetooth") }
        #expect(lines.count == 1, "\(lines)")
        #expect(sender.sent.map(\.outcome) == [.completed])
    }

    @Test func `a link that breaks before the network is there leads to another one, without another question`() async throws {
        func point() -> InMemoryWiFiConnection { InMemoryWiFiConnection(plan: .success(Self.office)) }
        waitForNetwork()
        let (slow, adaPoint, beaPoints) = (SlowWiFiConnection(Self.office, air), point(), [point(), point()])
        let asked = Atomic(0)
        let display = HotspotDisplay("y")
        let run = try await send(
            [slow, adaPoint], beaPoints, display: display,
            consent: .ask { _ in
                asked.add(1, ordering: .relaxed)
                return true
            })
        #expect(run.failure == nil && run.received == run.sent)
        #expect(asked.load(ordering: .relaxed) == 1 && display.questions.count == 1)
        #expect(slow.inner.hasEnded && adaPoint.hasEnded && beaPoints.allSatisfy(\.hasEnded))
        #expect(adaPoint.network == beaPoints[1].network && network.hosts.withLock(\.count) == 1)
        #expect(sender.hotspotSteps.map(\.state) == [.asking, .asking, .starting, .asking, .starting, .active, .ended])
        #expect(sender.sent.map(\.outcome).last == .completed)
    }

    @Test func `a no of the sender's user makes none, and without a terminal the command says what is needed`() async throws {
        let point = InMemoryWiFiConnection(plan: .success(Self.office))
        let run = try await send([point], [], display: HotspotDisplay("y"), consent: .ask { _ in false })
        #expect(run.failure == nil && run.received == run.sent && point.network == nil && point.hasEnded)
        #expect(sender.notices.contains("no hotspot is made; sending over Bluetooth"))
    }

    @Test func `the sender is the access point where both ends can be, and one has to be`() {
        #expect(HotspotResponder.accessPoint([.accessPoint, .station], local: [.accessPoint, .station]) == .requester)
        #expect(HotspotResponder.accessPoint([.accessPoint, .station], local: .station) == .requester)
        #expect(HotspotResponder.accessPoint(.station, local: [.accessPoint, .station]) == .responder)
        #expect(HotspotResponder.accessPoint(.station, local: .station) == nil)
        #expect(HotspotResponder.accessPoint([], local: [.accessPoint, .station]) == nil)
    }
}
