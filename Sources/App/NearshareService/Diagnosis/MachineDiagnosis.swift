internal import CNearshareShims
internal import Glibc
package import Logging
package import Nearshare
package import NearshareDiscovery

/// Looks for reasons why peers may not be found or files may not arrive. Findings are reported as they are made.
package struct MachineDiagnosis: Sendable {
    package typealias Finding = DiagnosticFinding<String>

    /// The result of a connection to a peer.
    package struct PeerAnswer: Sendable {
        package var name: DisplayName
        package var id: PeerID
        /// The difference between the peer's clock and this one.
        package var clockDifference: Duration?
        /// The reason why the peer did not answer.
        package var failure: String?
        /// Whether the user has blocked the peer, which was not asked then.
        package var isBlocked = false

        package init(name: DisplayName, id: PeerID, clockDifference: Duration? = nil, failure: String? = nil) {
            self.name = name
            self.id = id
            self.clockDifference = clockDifference
            self.failure = failure
        }
    }

    /// nil when the configuration or the state directory cannot be used; the other checks do not need them.
    private let machine: LocalMachine?
    private let emit: @Sendable (Finding) -> Void
    private let worst = Monitor(DiagnosticSeverity.ok)

    /// Limit on the peers that are connected to.
    private static let maximumPeerCount = 8
    /// Time in which peers announce themselves on the network.
    private static let networkTime = Duration.seconds(2)
    /// Over Bluetooth a name is learnt by connecting.
    private static let bluetoothTime = Duration.seconds(5)
    /// Limit on the wait for each peer's answer: more than connecting, the handshake and the greeting may take together.
    package static let answerTimeout = Duration.seconds(30)
    /// A phone discards packets of a sender whose clock differs by more (bitchat specification, section 3).
    private static let maximumClockDifference = Duration.seconds(120)

    /// - Parameters:
    ///   - environment: nil for that of the process.
    ///   - user: the user who has run the command through sudo, with whose rights this is called; nil for the process's own.
    ///     Nothing is created for that user.
    package init(
        environment: [String: String]? = nil, onBehalfOf user: SudoUser? = nil,
        report emit: @escaping @Sendable (Finding) -> Void
    ) {
        self.emit = emit
        let (machine, findings) = Self.machine(environment: environment, onBehalfOf: user)
        self.machine = machine
        for finding in findings { report(finding) }
    }

    private static func machine(
        environment: [String: String]?, onBehalfOf user: SudoUser?
    ) -> (LocalMachine?, [Finding]) {
        var findings: [Finding] = []
        if let user {
            let name = TerminalText.escaped(user.name)
            findings.append(Finding(.notice, "user", "run by root for \(name): settings and inbox are those of that user"))
        }
        // Root often runs the doctor only to have the firewall's rules read.
        let isRoot = user != nil || environment == nil && geteuid() == 0
        let variables = user?.environment ?? environment ?? LocalMachine.environment
        let state = Directories(environment: variables, home: user?.home ?? LocalMachine.home).state
        guard !isRoot || access(state, F_OK) == 0 else {
            let name = user.map { TerminalText.escaped($0.name) } ?? "root"
            findings.append(
                Finding(
                    .notice, "user", "\(name) has not used nearshare yet; inbox and peers are not checked",
                    advice:
                        "run `nearshare doctor` \(user == nil ? "" : "without sudo ")as the user who sends and receives as well"
                ))
            return (nil, findings)
        }
        do throws(StorageError) {
            let machine = try LocalMachine(environment: variables)
            return (machine, findings + configurationFindings(machine))
        } catch {
            return (nil, findings + [finding(error)])
        }
    }

    /// The settings that are valid by themselves, and name what does not exist.
    private static func configurationFindings(_ machine: LocalMachine) -> [Finding] {
        var findings: [Finding] = []
        do throws(StorageError) {
            try machine.requireConfiguredInterface()
        } catch {
            findings.append(
                Finding(
                    .error, "configuration", error.description,
                    advice: "correct the setting or remove it: commands that look for peers fail"))
        }
        // The chosen one, and then those that are not used as well.
        var profiles: [String?] = machine.configuration.profiles.keys.sorted()
        profiles.insert(nil, at: 0)
        for profile in profiles {
            do throws(StorageError) {
                _ = try machine.propagationProfile(profile)
            } catch {
                if !findings.contains(where: { $0.text == error.description }) { findings.append(finding(error)) }
            }
        }
        return findings
    }

    private static func finding(_ failure: StorageError) -> Finding {
        Finding(.error, "configuration", failure.description, advice: "correct what is named, and run the doctor again")
    }

    private func report(_ finding: Finding) {
        worst.withLock { $0 = max($0, finding.severity) }
        emit(finding)
    }

    /// The highest severity of the findings so far.
    package var severity: DiagnosticSeverity { worst.withLock { $0 } }

    /// The TCP port that peers connect to: that of the running node, which is a finding, or else the one that a node would have.
    package func checkPort() async -> UInt16 {
        let usual = machine?.configuration.port ?? Node.defaultPort
        guard let machine, let status = try? await withRunningNode(of: machine, { try await $0.status() }) else { return usual }
        let text = "the running node (process \(status.process)) listens on port \(status.port)"
        if status.isDaemon, status.port != usual {
            report(
                Finding(
                    .warning, "node", "\(text), not on \(usual)",
                    advice:
                        "end the program that used \(usual) and start the node again, or open \(status.port) in the firewall"))
        } else {
            report(Finding(.ok, "node", text))
        }
        return status.port
    }

    /// - Parameters:
    ///   - port: the TCP port that peers connect to; nil for the one that a node would have.
    ///   - collect: the findings for a discovery engine and that port.
    /// - Returns: the discovery engine; nil when none is available, which is a finding.
    package func checkNetworkAndMakeDiscovery(
        port: UInt16? = nil,
        collect: (_ engine: String, _ port: UInt16?) -> [NetworkDiagnosis.Finding] = {
            NetworkDiagnosis.collect(engine: $0, port: $1).findings
        }
    ) -> (any Discovery)? {
        var discovery: (any Discovery)?
        do {
            discovery = try LinuxDiscovery.make()
        } catch {
            report(Finding(.error, NetworkDiagnosis.Subject.engine.rawValue, "discovery is not available: \(error)"))
        }
        let findings = collect(
            discovery?.engine ?? "embedded responder", port ?? machine?.configuration.port ?? Node.defaultPort)
        for finding in findings where discovery != nil || finding.subject != .engine {
            report(Finding(finding.severity, finding.subject.rawValue, finding.text, advice: finding.advice))
        }
        return discovery
    }

    /// The settings of a node of this machine. Its configured interface may be missing, which is another finding. Where the user
    /// has no key yet, the node gets one that is not stored.
    /// - Returns: nil when its key cannot be used, which is a finding.
    package func checkIdentityAndMakeSettings(discovery: any Discovery, radio: RadioOpener?, log: Logger) -> NodeSettings? {
        guard let machine else { return nil }
        do throws(StorageError) {
            guard !machine.state.hasIdentity else {
                return try machine.nodeSettings(
                    interface: machine.configuration.interface, discovery: discovery, radio: radio, log: log)
            }
            report(Finding(.ok, "identity", "there is no key yet: the first command that connects to a peer makes one"))
            return try machine.nodeSettings(
                interface: machine.configuration.interface, discovery: discovery, radio: radio,
                identity: LocalMachine.temporaryIdentity(), log: log)
        } catch {
            // Another file of the state directory is no reason to give up a key that can be used.
            let isKeyUsable = machine.state.hasIdentity && (try? machine.state.identity()) != nil
            report(
                Finding(
                    .error, "identity", error.description,
                    advice: isKeyUsable
                        ? "correct what is named, and run the doctor again; the key of this machine is intact"
                        : "correct what is named; `nearshare identity destroy` removes a key that cannot be used any more"))
            return nil
        }
    }

    /// - Parameter adapter: nil for the first one that is powered on.
    package func checkBluetooth(adapter: String?) {
        for finding in LocalMachine.diagnoseBluetooth(adapter: adapter) {
            report(Finding(finding.severity, "bluetooth", finding.text, advice: finding.advice))
        }
    }

    /// - Parameter path: nil for the configured inbox.
    package func checkInbox(at path: String?) {
        guard let machine else { return }
        do throws(StorageError) {
            let inbox = try machine.inbox(path)
            let state = try inbox.check() ? "is writable" : "is made when something arrives"
            let free = inbox.freeSpace.map { ", \($0.formattedByteCount) free" } ?? ""
            report(Finding(.ok, "inbox", "\(TerminalText.escaped(inbox.path, columns: 400)) \(state)\(free)"))
            let waiting = inbox.pendingItems
            guard !waiting.isEmpty else { return }
            let large = PendingItemText.sentence(for: waiting.filter { $0.insufficientSpace != nil })
            report(
                Finding(
                    .warning, "inbox", large ?? "\(waiting.count) received items wait in the spool",
                    advice: large == nil
                        ? "`nearshare receive` moves them when the inbox is available; `nearshare inbox` lists them"
                        : "make room on its disk, or choose another inbox; `nearshare inbox` lists what waits"))
        } catch {
            let repair = error.code == .unsuitable ? "" : "mount it, change its owner, or "
            report(
                Finding(.error, "inbox", "\(error)", advice: "\(repair)choose another one with --inbox or in the configuration")
            )
        }
    }

    package func checkClock() {
        if nearshare_clock_is_synchronized() == 1 {
            report(Finding(.ok, "clock", "a time service sets the clock"))
        } else {
            report(
                Finding(
                    .notice, "clock", "no time service sets the clock",
                    advice:
                        "`\(NetworkDiagnosis.privilege)timedatectl set-ntp true` turns one on; "
                        + "phones ignore a machine whose clock is two minutes off"
                ))
        }
    }

    /// Finds out whether this machine can make a Wi-Fi network, without making one.
    package func checkHotspot(_ accessPoint: any WiFiConnection = LocalMachine.wifiConnection()) async {
        do throws(WiFiError) {
            let plan = try await accessPoint.prepare(on: machine?.configuration.interface)
            report(Finding(.ok, "hotspot", "\(plan.interface) can make a Wi-Fi network for phones (--hotspot)"))
        } catch {
            report(Finding(.notice, "hotspot", error.reason, advice: error.advice))
        }
        await accessPoint.stop()
    }

    /// Serves LocalSend devices, so that they are found.
    package func checkLocalSend(on node: Node) {
        guard let machine else { return }
        let subject = "localsend"
        guard machine.usesLocalSend else {
            return report(Finding(.ok, subject, "turned off by the configuration"))
        }
        do {
            let isKnown = machine.hasLocalSendCertificate
            let security = isKnown ? try machine.localSendSecurity() : try machine.temporaryLocalSendSecurity()
            let server = try node.serveLocalSend(for: nil, security)
            let certificate = isKnown ? ", certificate \(CertificateText.short(server.fingerprint))" : ""
            if !server.isInGroup {
                report(
                    Finding(
                        .warning, subject, "multicast is not available, so that devices with LocalSend are not found",
                        advice: "connect to a network, or allow the group 224.0.0.167"))
            } else if server.port == Node.localSendPort {
                report(Finding(.ok, subject, "port \(server.port) is free\(certificate)"))
            } else if let node = NetworkDiagnosis.nodeProcess(onTCPPort: Node.localSendPort) {
                report(
                    Finding(
                        .ok, subject,
                        "this machine's own node (process \(node)) serves LocalSend on port \(Node.localSendPort)\(certificate)"
                    ))
            } else {
                report(
                    Finding(
                        .notice, subject,
                        "another program has port \(Node.localSendPort), such as LocalSend itself; \(server.port) is used",
                        advice: "devices that hear no announcements do not find this machine; end the other program for them"))
            }
        } catch {
            report(Finding(.notice, subject, CommandFailure(error).message, advice: "only transfers with LocalSend need it"))
        }
    }

    /// Asks the hosts of this machine's networks one by one for LocalSend devices.
    package func scanForLocalSend(on node: Node) async {
        let hosts = ScanHosts.all(on: nil)
        guard let count = await node.scanForLocalSendDevices(at: hosts) else { return }
        report(
            Finding(
                count == 0 ? .notice : .ok, "localsend",
                "\(count) of \(hosts.count) addresses of these networks \(count == 1 ? "has" : "have") LocalSend",
                advice: count == 0 ? "the app has to be open there; some Wi-Fi networks isolate their clients" : nil))
    }

    /// Connects to the peers nearby.
    package func checkPeers(on node: Node) async { await checkAnswers(of: await peersNearby(node), on: node) }

    /// Connects to peers, and reports which of them answer. All findings wait for the last answer.
    /// - Parameter timeout: for each answer, which a peer could withhold (Q9).
    package func checkAnswers(of peers: [NearbyPeer], on node: Node, timeout: Duration = answerTimeout) async {
        let trust = (try? machine?.trust.read()) ?? TrustStore()
        let answers = await withTaskGroup(of: PeerAnswer.self) { group in
            for peer in peers.prefix(Self.maximumPeerCount) {
                group.addTask {
                    var answer = PeerAnswer(name: trust.shownName(claiming: peer.id, named: peer.name), id: peer.id)
                    answer.isBlocked = trust.trustStatus(claiming: peer.id, named: peer.name).isBlocked
                    if answer.isBlocked { return answer }
                    do {
                        if let reply = try await withTimeout(timeout, { try await Self.ask(peer, on: node) }) {
                            answer.clockDifference = reply.clockDifference
                        } else {
                            answer.failure = "no reply within \(timeout.components.seconds) s"
                        }
                    } catch {
                        answer.failure = CommandFailure(error).message
                    }
                    return answer
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        for finding in Self.findings(answers, unaskedCount: peers.count - answers.count) { report(finding) }
    }

    private struct PeerReply: Sendable {
        /// nil for a LocalSend device.
        var clockDifference: Duration?
    }

    /// Connects to a peer, which proves its key or certificate.
    private static func ask(_ peer: NearbyPeer, on node: Node) async throws -> PeerReply {
        guard peer.certificate == nil else {
            _ = try await node.localSendTarget(peer.destination)
            return PeerReply()
        }
        return PeerReply(
            clockDifference: try await node.withConnection(to: peer.destination) { try await $0.clockDifference })
    }

    private func peersNearby(_ node: Node) async -> [NearbyPeer] {
        let found = Monitor<[PeerID: NearbyPeer]>([:])
        await withTimeout(node.hasRadio ? Self.bluetoothTime : Self.networkTime) {
            guard let changes = try? await node.browse([.network, .bluetooth]) else { return }
            do {
                for try await change in changes.compactMap(\.change) where change.isPresent {
                    found.withLock { $0[change.peer.id] = change.peer }
                }
            } catch {
                // Findings about the network give the reason.
            }
        }
        return NearbyPeerTable.sorted(found.withLock { $0 })
    }

    package static func findings(_ answers: [PeerAnswer], unaskedCount: Int = 0) -> [Finding] {
        guard !answers.isEmpty else {
            return [
                Finding(
                    .notice, "peers", "no peer is nearby at the moment",
                    advice:
                        "start `nearshare receive` on another machine in this network; "
                        + "some Wi-Fi networks isolate their clients"
                )
            ]
        }
        let findings: [Finding] = answers.map { answer in
            let name = answer.name.identified(by: answer.id)
            if answer.isBlocked {
                return Finding(.notice, "peers", "\(name) is nearby, and blocked: it was not asked whether it answers")
            }
            if let failure = answer.failure {
                return Finding(
                    .warning, "peers", "\(name) is seen but does not answer: \(failure)",
                    advice: "its nearshare may have ended, or a firewall on either side drops or refuses connections")
            }
            if let difference = answer.clockDifference, max(difference, .zero - difference) > maximumClockDifference {
                let shown = max(difference, .zero - difference).asClock
                return Finding(
                    .warning, "clock", "\(name)'s clock is \(shown) off from this one",
                    advice: "correct the clock that is wrong")
            }
            return Finding(.ok, "peers", "\(name) answers")
        }
        guard unaskedCount > 0 else { return findings }
        let others = unaskedCount == 1 ? "1 more peer is nearby, and was" : "\(unaskedCount) more peers are nearby, and were"
        return findings + [Finding(.notice, "peers", "\(others) not asked")]
    }
}
