import Nearshare
import NearshareInterfaces
import Testing

@testable import NearshareService

@Suite struct HotspotOperationTests {
    private static let network = WiFiNetwork(ssid: "nearshare-0123", passphrase: "abcd-efgh-jkmn")
    private static let alone = WiFiPlan(interface: "wlan0", replacedConnection: nil, sharedConnection: nil)
    private static let connected = WiFiPlan(interface: "wlan0", replacedConnection: "Office", sharedConnection: nil)

    private struct BodyError: Error {}

    /// The steps of an operation, and its questions.
    private final class Record: Reporter {
        private let state = Monitor<(steps: [HotspotStep], questions: [String])>(([], []))

        var steps: [HotspotStep] { state.withLock(\.steps) }
        var lines: [String] { steps.compactMap(\.sentence) }
        var questions: [String] { state.withLock(\.questions) }

        func report(_ event: OperationEvent) {
            if case .hotspot(let step) = event { state.update { $0.steps.append(step) } }
        }

        func asks(_ answer: Bool) -> HotspotOperation.Consent {
            .ask { question in
                self.state.update { $0.questions.append(question) }
                return answer
            }
        }
    }

    private static func operation(
        _ point: InMemoryWiFiConnection, _ consent: HotspotOperation.Consent, _ record: Record = Record()
    ) -> HotspotOperation {
        HotspotOperation(point, network: network, interface: nil, consent: consent, reporter: record)
    }

    @Test func `a network lasts as long as the body, which gets its address`() async throws {
        let point = InMemoryWiFiConnection(plan: .success(Self.connected))
        let record = Record()
        let result = try await Self.operation(point, record.asks(true), record).run(interruption: NoInterruption()) { hotspot in
            #expect(point.network == Self.network && !point.hasEnded)
            return "\(hotspot.address) \(hotspot.plan.interface)"
        }
        #expect(result == "10.42.0.1 wlan0" && point.hasEnded)
        #expect(record.questions.count == 1 && record.questions[0].contains(#"the Wi-Fi network "Office""#))
        #expect(record.lines.last == #"the hotspot is off; wlan0 returns to "Office""#)
        #expect(record.steps.map(\.state) == [.asking, .starting, .ended] && record.steps.last?.replaced == "Office")
    }

    @Test func `a network that takes and shares nothing needs no consent`() async throws {
        let point = InMemoryWiFiConnection(plan: .success(Self.alone))
        try await Self.operation(point, .unavailable).run(interruption: NoInterruption()) { _ in }
        #expect(point.network != nil)
    }

    @Test func `a no, and a missing terminal, start nothing`() async {
        for (consent, status) in [(Record().asks(false), ExitStatus.declined), (.unavailable, .usage)] {
            let point = InMemoryWiFiConnection(plan: .success(Self.connected))
            let record = Record()
            let failure = await #expect(throws: CommandFailure.self) {
                try await Self.operation(point, consent, record).run(interruption: NoInterruption()) { _ in }
            }
            #expect(failure?.status == status && point.network == nil && point.hasEnded)
            #expect(record.steps.compactMap(\.reason) == (status == .declined ? [.declined] : []))
        }
    }

    @Test func `consequences name what is taken away and what is shared, escaped`() {
        #expect(HotspotOperation.consequences(of: Self.alone) == nil)
        let lost = HotspotOperation.consequences(of: Self.connected)
        #expect(lost?.contains("no internet meanwhile") == true)
        let both = HotspotOperation.consequences(
            of: WiFiPlan(interface: "wlan0", replacedConnection: "a\u{1b}[2J", sharedConnection: "Wired"))
        #expect(both?.contains("\u{1b}") == false && both?.contains("no internet") == false)
        #expect(both?.contains(#"use the connection "Wired""#) == true)
    }

    @Test func `a network that cannot be made, or started, is the failure`() async {
        for (point, reason) in [
            (InMemoryWiFiConnection(plan: .failure(.noDevice)), HotspotStep.Reason.unavailable),
            (InMemoryWiFiConnection(plan: .success(Self.alone), address: .failure(.noDevice)), .failed),
        ] {
            let record = Record()
            await #expect(throws: WiFiError.noDevice) {
                try await Self.operation(point, .given, record).run(interruption: NoInterruption()) { _ in
                    Issue.record("there is no network")
                }
            }
            #expect(record.steps.last?.state == .abandoned && record.steps.last?.reason == reason)
        }
    }

    @Test func `an end of the network ends the body, and is the failure`() async {
        for fails in [false, true] {
            let point = InMemoryWiFiConnection(plan: .success(Self.connected))
            let record = Record()
            await #expect(throws: WiFiError.deviceGone(interface: "wlan0")) {
                try await Self.operation(point, .given, record).run(interruption: NoInterruption()) { hotspot in
                    point.fail(.deviceGone(interface: "wlan0"))
                    #expect(await hotspot.waitForFailure())
                    if fails { throw BodyError() }
                }
            }
            #expect(record.lines.allSatisfy { !$0.contains("off") })
            #expect(record.steps.last?.state == .ended && record.steps.last?.reason == .failed)
        }
    }

    @Test func `an error of the body ends the network`() async {
        let point = InMemoryWiFiConnection(plan: .success(Self.connected))
        await #expect(throws: BodyError.self) {
            try await Self.operation(point, .given).run(interruption: NoInterruption()) { _ in throw BodyError() }
        }
        #expect(point.hasEnded)
    }

    @Test func `an interruption while it starts ends it`() async {
        struct AtOnce: InterruptionHandler {
            func run<Result: Sendable>(
                onInterrupt: @escaping @Sendable (Interruption) -> Void,
                _ body: @escaping @Sendable () async throws -> Result
            ) async throws -> Result {
                onInterrupt(.cancelled)
                return try await body()
            }
        }
        let point = InMemoryWiFiConnection(plan: .success(Self.connected), address: nil)
        await #expect(throws: WiFiError.stopped) {
            try await Self.operation(point, .given).run(interruption: AtOnce()) { _ in }
        }
        #expect(point.hasEnded)
    }
}
