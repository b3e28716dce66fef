import FoundationEssentials
import Glibc
import Logging
import Nearshare
import NearshareInterfaces
import NearshareService
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@Suite("what the doctor finds out from peers")
struct PeerDiagnosisTests {
    private func finding(_ difference: Duration?, failure: String? = nil) throws -> MachineDiagnosis.Finding {
        let answer = MachineDiagnosis.PeerAnswer(
            name: try DisplayName("anna"), id: PeerID(bytes: [UInt8](repeating: 1, count: 8))!, clockDifference: difference,
            failure: failure)
        return try #require(MachineDiagnosis.findings([answer]).first)
    }

    @Test("a peer that answers is fine, also with a clock that is a little off", arguments: [0, 120, -120])
    func fine(_ seconds: Int) throws {
        #expect(try finding(.seconds(seconds)).severity == .ok)
    }

    @Test("a clock that is off by more than phones tolerate is a warning", arguments: [121, -121, 86_400])
    func clock(_ seconds: Int) throws {
        let finding = try finding(.seconds(seconds))
        #expect(finding.severity == .warning && finding.subject == "clock" && finding.advice != nil)
    }

    @Test("a peer that does not answer is a warning that says why")
    func failure() throws {
        let finding = try finding(nil, failure: "timed out")
        #expect(finding.severity == .warning && finding.text.contains("timed out"))
    }

    @Test func `a blocked peer is a notice, and no fault`() throws {
        var answer = MachineDiagnosis.PeerAnswer(
            name: try DisplayName("anna"), id: PeerID(bytes: [UInt8](repeating: 1, count: 8))!)
        answer.isBlocked = true
        let finding = try #require(MachineDiagnosis.findings([answer]).first)
        #expect(finding.severity == .notice && finding.text.contains("blocked") && finding.advice == nil)
    }

    @Test("peers that are not asked are counted", arguments: [(1, "1 more peer is"), (4, "4 more peers are")])
    func unasked(_ count: Int, _ words: String) throws {
        let id = try #require(PeerID(bytes: [UInt8](repeating: 1, count: 8)))
        let answer = MachineDiagnosis.PeerAnswer(name: try DisplayName("anna"), id: id)
        let findings = MachineDiagnosis.findings([answer], unaskedCount: count)
        #expect(findings.map(\.severity) == [.ok, .notice] && findings.last?.text.hasPrefix("\(words) nearby") == true)
    }

    @Test("an empty network is reported as a notice")
    func none() {
        #expect(MachineDiagnosis.findings([]).map(\.severity) == [.notice])
    }
}

@Suite("what the doctor finds out about this machine", .leavesNothing)
struct MachineDiagnosisTests {
    private final class Findings: Sendable {
        private let findings = Mutex<[MachineDiagnosis.Finding]>([])
        func append(_ finding: MachineDiagnosis.Finding) { findings.withLock { $0.append(finding) } }
        var all: [MachineDiagnosis.Finding] { findings.withLock { $0 } }
    }

    private let scratch = ScratchFolder()
    private let findings = Findings()

    private var environment: [String: String] {
        [
            "HOME": scratch.path, "XDG_CONFIG_HOME": scratch("config"), "XDG_STATE_HOME": scratch("state"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ]
    }

    @Test("a configuration that cannot be read is a problem, and the other checks still run")
    func configuration() throws {
        try FileManager.default.createDirectory(atPath: scratch("config/nearshare"), withIntermediateDirectories: true)
        try Data("port = \"none\"".utf8).write(to: URL(filePath: scratch("config/nearshare/config.toml")))
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        #expect(findings.all.map(\.subject) == ["configuration"] && diagnosis.severity == .error)
        diagnosis.checkInbox(at: nil)
        diagnosis.checkClock()
        _ = diagnosis.checkNetworkAndMakeDiscovery()
        #expect(Set(findings.all.map(\.subject)).isSuperset(of: ["clock", "engine", "interfaces"]))
    }

    @Test("settings that name what does not exist are problems")
    func settings() throws {
        try FileManager.default.createDirectory(atPath: scratch("config/nearshare"), withIntermediateDirectories: true)
        try Data("interface = \"absent0\"\nprofile = \"absent\"".utf8)
            .write(to: URL(filePath: scratch("config/nearshare/config.toml")))
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        #expect(findings.all.map(\.subject) == ["configuration", "configuration"] && diagnosis.severity == .error)
        #expect(findings.all.first?.text.contains("/config.toml: interface: there is no network interface absent0: ") == true)
        #expect(findings.all.last?.text.contains("absent;") == true)
    }

    @Test("P17: an inbox among keys and settings is a problem")
    func privateInbox() throws {
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        diagnosis.checkInbox(at: scratch("state/nearshare"))
        #expect(findings.all.map(\.subject) == ["inbox"] && diagnosis.severity == .error)
        #expect(findings.all.first?.text.contains("is nearshare's own directory") == true)
        #expect(findings.all.first?.advice == "choose another one with --inbox or in the configuration")
    }

    @Test("a profile that is not valid is a problem once, whether it is used or not", arguments: ["", "profile = \"far\"\n"])
    func profiles(use: String) throws {
        try FileManager.default.createDirectory(atPath: scratch("config/nearshare"), withIntermediateDirectories: true)
        try Data("\(use)[profiles.far]\nhop-limit = 70000".utf8)
            .write(to: URL(filePath: scratch("config/nearshare/config.toml")))
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        #expect(findings.all.map(\.subject) == ["configuration"] && diagnosis.severity == .error)
        #expect(findings.all.first?.text.contains("profiles.far: ") == true)
    }

    @Test("a hotspot that is not possible is a notice with a remedy")
    func hotspot() async throws {
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        await diagnosis.checkHotspot(InMemoryWiFiConnection(plan: .failure(.networkingOff)))
        let plan = WiFiPlan(interface: "wlan0", replacedConnection: "Office", sharedConnection: nil)
        let point = InMemoryWiFiConnection(plan: .success(plan))
        await diagnosis.checkHotspot(point)
        #expect(findings.all.map(\.severity) == [.notice, .ok] && findings.all.map(\.subject) == ["hotspot", "hotspot"])
        #expect(findings.all[0].advice == "`nmcli networking on` switches it on")
        #expect(point.network == nil && point.hasEnded)
    }

    @Test("a key that cannot be used is a problem")
    func identity() throws {
        _ = try LocalMachine(environment: environment).state.identity()
        let folder = scratch("state/nearshare")
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: "\(folder)/\(name)")
        }
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        let discovery = InMemorySegment().join(host: "10.0.0.1")
        #expect(diagnosis.checkIdentityAndMakeSettings(discovery: discovery, radio: nil, log: Logger(label: "test")) == nil)
        #expect(findings.all.map(\.subject) == ["identity"] && diagnosis.severity == .error)
    }

    @Test func `a damaged trust store is a problem that does not lead to the end of the key`() throws {
        let identity = try LocalMachine(environment: environment).state.identity()
        let path = scratch("state/nearshare/trust.json")
        try Data("{".utf8).write(to: URL(filePath: path))
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        let discovery = InMemorySegment().join(host: "10.0.0.1")
        #expect(diagnosis.checkIdentityAndMakeSettings(discovery: discovery, radio: nil, log: Logger(label: "test")) == nil)
        let finding = try #require(findings.all.first)
        #expect(finding.subject == "identity" && finding.severity == .error)
        #expect(finding.text.contains("put a backup of it back") && finding.text.contains("without your friends"))
        #expect(finding.advice?.contains("destroy") == false && finding.advice?.contains("intact") == true)
        #expect(try LocalMachine(environment: environment).state.identity().fingerprint == identity.fingerprint)
    }

    @Test("looking creates neither a key nor an inbox")
    func nothing() throws {
        func look() throws {
            let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
            diagnosis.checkInbox(at: nil)
            let discovery = InMemorySegment().join(host: "10.0.0.1")
            let settings = try #require(
                diagnosis.checkIdentityAndMakeSettings(discovery: discovery, radio: nil, log: Logger(label: "test")))
            #expect(settings.name.claimed == (try LocalMachine(environment: environment).name().claimed))
        }
        try look()
        #expect(access(scratch("Inbox"), F_OK) != 0)
        #expect(findings.all.contains { $0.subject == "inbox" && $0.text.contains("is made when something arrives") })
        #expect(findings.all.contains { $0.subject == "identity" && $0.text.contains("there is no key yet") })
        try look()
        #expect(try !LocalMachine(environment: environment).state.hasIdentity)
    }

    @Test("Q9: a claimed clock at the end of its range is a warning, and holds no finding back")
    func endOfTime() async throws {
        let stage = ServiceStage()
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        var settings = try bea.settings()
        settings.wallClock = { WallTime(milliseconds: .min) }
        try await withNode(settings) { receiver in
            let listener = try receiver.listen(joinsMesh: false)
            let peer = NearbyPeer(
                id: bea.id, name: bea.name, addresses: [LinkAddress(host: bea.host, port: listener.port)])
            try await withNode(try ada.settings()) { await diagnosis.checkAnswers(of: [peer], on: $0) }
        }
        #expect(findings.all.map(\.subject) == ["clock"] && diagnosis.severity == .warning)
        #expect(findings.all.first?.text.contains("bea") == true)
    }

    @Test("Q9: a peer that accepts the link and is silent is reported when its time is over")
    func silence() async throws {
        let stage = ServiceStage()
        let ada = try stage.user("ada")
        let listener = try stage.transport.listen(port: 0, interface: nil)
        defer { listener.close() }
        let diagnosis = MachineDiagnosis(environment: environment) { [findings] in findings.append($0) }
        let id = try #require(PeerID(bytes: [UInt8](repeating: 1, count: 8)))
        let peer = NearbyPeer(
            id: id, name: try DisplayName("mallory"), addresses: [LinkAddress(host: "10.0.0.9", port: listener.port)])
        try await withNode(try ada.settings()) { await diagnosis.checkAnswers(of: [peer], on: $0, timeout: .zero) }
        #expect(findings.all.map(\.subject) == ["peers"] && diagnosis.severity == .warning)
        #expect(findings.all.first?.text.contains("no reply within 0 s") == true)
    }

    @Test("the firewall is asked for the configured port")
    func port() throws {
        try FileManager.default.createDirectory(atPath: scratch("config/nearshare"), withIntermediateDirectories: true)
        try Data("port = 4711".utf8).write(to: URL(filePath: scratch("config/nearshare/config.toml")))
        var ports: [UInt16?] = []
        _ = MachineDiagnosis(environment: environment) { _ in }.checkNetworkAndMakeDiscovery { _, port in
            ports.append(port)
            return []
        }
        #expect(ports == [4711])
    }
}
