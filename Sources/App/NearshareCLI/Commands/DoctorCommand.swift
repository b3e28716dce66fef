internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Find the reason why peers are not found or files do not arrive.")

    @Option(help: ArgumentHelp("Inbox to check (default: ~/Inbox).", valueName: "dir"))
    var inbox: String?

    @Flag(help: "Write one JSON object per line.")
    var json = false

    @OptionGroup var radio: RadioOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let worst = Monitor(MachineDiagnosis.Finding.Severity.fine)
            let diagnosis = MachineDiagnosis(machine: machine) { [json] finding in
                worst.withLock { $0 = max($0, finding.severity) }
                finding.write(isJSON: json)
            }
            let discovery = try machine.discovery()
            diagnosis.checkNetwork(engine: discovery.engine)
            if !radio.isOff { diagnosis.checkRadio(adapter: radio.adapter) }
            diagnosis.checkInbox(at: inbox)
            diagnosis.checkClock()
            let settings = try machine.nodeSettings(
                discovery: discovery, radio: radio.radio(log: global.logger), log: global.logger)
            try await withNode(settings) { node in
                try await SignalHandling.run(onSignal: { node.beginShutdown() }) { await diagnosis.checkPeers(on: node) }
            }
            if worst.withLock({ $0 }) == .problem { throw CommandFailure(.failure, "") }
        }
    }
}

extension MachineDiagnosis.Finding {
    fileprivate func write(isJSON: Bool) {
        if isJSON {
            return JSONEvents.emit(
                "finding",
                [
                    "severity": .text("\(severity)"), "subject": .text(subject), "text": .text(text),
                    "advice": JSONValue(advice),
                ])
        }
        let sign =
            switch severity {
            case .fine: "ok     "
            case .note: "note   "
            case .warning: "warning"
            case .problem: "PROBLEM"
            }
        Console.result("\(sign)  \(subject): \(text)")
        if let advice { Console.result("         → \(advice)") }
    }
}
