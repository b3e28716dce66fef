internal import ArgumentParser
internal import CNearshareShims
internal import Nearshare
internal import NearshareDiscovery
internal import NearshareTerminal

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Find out why peers may not be found or things may not arrive, and what to do.")

    @Option(help: ArgumentHelp("The inbox to check (default: ~/Inbox).", valueName: "dir"))
    var inbox: String?

    @Flag(help: "Write one JSON object a line.")
    var json = false

    @OptionGroup var radio: RadioOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            var report = DoctorReport(isJSON: json)
            let discovery = try machine.discovery()
            for finding in NetworkDiagnosis.collect(engine: discovery.engine).findings {
                report.add(finding.severity, finding.subject.rawValue, finding.text, finding.advice)
            }
            if !radio.isOff {
                for finding in LocalMachine.diagnoseRadio(adapter: radio.adapter) {
                    let severity: NetworkDiagnosis.Severity =
                        switch finding.severity {
                        case .fine: .fine
                        case .note: .note
                        case .problem: .problem
                        }
                    report.add(severity, "bluetooth", finding.text, finding.advice)
                }
            }
            checkInbox(machine, &report)
            checkClock(&report)
            let settings = try machine.nodeSettings(
                discovery: discovery, radio: radio.radio(log: global.logger), log: global.logger)
            let answers = try await withNode(settings) { node in
                try await SignalHandling.run(onSignal: { node.beginShutdown() }) { try await Self.askPeers(node) }
            }
            report.add(answers)
            if report.worst == .problem { throw CommandFailure(.failure, "") }
        }
    }

    private func checkInbox(_ machine: LocalMachine, _ report: inout DoctorReport) {
        do {
            let inbox = try machine.inbox(inbox)
            try inbox.check()
            let free = inbox.freeSpace.map { ", \($0.asByteCount) free" } ?? ""
            report.add(.fine, "inbox", "\(TerminalText.escaped(inbox.path, columns: 400)) can be written to\(free)", nil)
            let waiting = inbox.pendingPaths.count
            if waiting > 0 {
                report.add(
                    .warning, "inbox", "\(waiting) received items wait in the spool",
                    "`nearshare receive` moves them when the inbox is there; `nearshare inbox` lists them")
            }
        } catch {
            report.add(
                .problem, "inbox", "\(error)", "mount it, change its owner, or choose another one with --inbox")
        }
    }

    private func checkClock(_ report: inout DoctorReport) {
        if nearshare_clock_is_synchronized() == 1 {
            report.add(.fine, "clock", "the clock is kept by a time service", nil)
        } else {
            report.add(
                .note, "clock", "no time service keeps the clock",
                "`timedatectl set-ntp true` turns one on; phones ignore a machine whose clock is two minutes off")
        }
    }

    /// What those who are nearby say when they are greeted.
    private static func askPeers(_ node: Node) async throws -> [DoctorReport.Answer] {
        let peers = await Self.peersNearby(node)
        return await withTaskGroup(of: DoctorReport.Answer.self) { group in
            for peer in peers.prefix(8) {
                group.addTask {
                    do {
                        let difference = try await node.withConnection(to: peer.destination) { try await $0.clockDifference }
                        return DoctorReport.Answer(peer: peer, clockDifference: difference, failure: nil)
                    } catch {
                        return DoctorReport.Answer(peer: peer, clockDifference: nil, failure: CommandFailure(error).message)
                    }
                }
            }
            var answers: [DoctorReport.Answer] = []
            for await answer in group { answers.append(answer) }
            return answers
        }
    }

    private static func peersNearby(_ node: Node) async -> [NearbyPeer] {
        await withTaskGroup(of: [NearbyPeer]?.self) { group in
            let found = FoundPeers()
            group.addTask {
                guard let changes = try? await node.browse([.network, .bluetooth]) else { return nil }
                do {
                    for try await case .change(let change) in changes { await found.take(change) }
                } catch {}
                return nil
            }
            group.addTask {
                // Over Bluetooth one has to connect to learn a name.
                try? await Task.sleep(for: .seconds(node.hasRadio ? 5 : 2))
                return await found.peers
            }
            for await result in group {
                guard let result else { continue }
                group.cancelAll()
                return result
            }
            return []
        }
    }

    private actor FoundPeers {
        var peers: [NearbyPeer] = []

        func take(_ change: PeerTable.Change) {
            if case .found(let peer) = change { peers.append(peer) }
        }
    }
}

/// The findings, told as they come.
struct DoctorReport {
    struct Answer: Sendable {
        var peer: NearbyPeer
        var clockDifference: Duration?
        var failure: String?
    }

    let isJSON: Bool
    private(set) var worst = NetworkDiagnosis.Severity.fine

    /// More than this and phones take no packets from us (bitchat specification, section 3).
    private static let tolerableDifference = 120.0

    init(isJSON: Bool) {
        self.isJSON = isJSON
    }

    mutating func add(_ severity: NetworkDiagnosis.Severity, _ subject: String, _ text: String, _ advice: String?) {
        worst = max(worst, severity)
        if isJSON {
            JSONEvents.emit(
                "finding",
                [
                    "severity": .text("\(severity)"), "subject": .text(subject), "text": .text(text),
                    "advice": JSONValue(advice),
                ])
            return
        }
        let sign = ["fine": "ok     ", "note": "note   ", "warning": "warning", "problem": "PROBLEM"]["\(severity)"]!
        Console.result("\(sign)  \(subject): \(text)")
        if let advice { Console.result("         → \(advice)") }
    }

    mutating func add(_ answers: [Answer]) {
        if answers.isEmpty {
            add(
                .note, "peers", "nobody is nearby at the moment",
                "start `nearshare receive` on another machine in this network; some Wi-Fi networks keep their guests apart")
        }
        for answer in answers {
            let name = "\(answer.peer.name.shown) (\(answer.peer.id))"
            if let failure = answer.failure {
                add(
                    .warning, "peers", "\(name) is seen but can't be talked to: \(failure)",
                    "a firewall on either side may drop connections")
            } else if let difference = answer.clockDifference, abs(difference.inSeconds) > Self.tolerableDifference {
                add(
                    .warning, "clock",
                    "\(name)'s clock is \(Duration.seconds(abs(difference.inSeconds)).asClock) off from this one",
                    "set the wrong one of the two")
            } else {
                add(.fine, "peers", "\(name) answers", nil)
            }
        }
    }
}
