internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Runs the checks of ``MachineDiagnosis`` and renders their findings.
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Find the reason why peers are not found or files do not arrive.")

    @Option(
        help: ArgumentHelp("Inbox to check (default: the configured one, or ~/Inbox).", valueName: "dir"),
        completion: .directory, transform: PathArgument.expanded)
    var inbox: String?

    @Flag(help: "Also probe the addresses of this machine's networks for LocalSend: at most 254 in each of four networks.")
    var scan = false

    @OptionGroup var output: OutputOptions

    @OptionGroup var bluetooth: BluetoothOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            // Behind sudo the user's files are checked as the user.
            let user = SudoUser.current
            try user?.dropPrivileges()
            let diagnosis = MachineDiagnosis(onBehalfOf: user) { [reporter = output.reporter] in Self.render($0, to: reporter) }
            let port = await diagnosis.checkPort()
            // Only root can read the rules of the firewall.
            try user?.restorePrivileges()
            let discovery = diagnosis.checkNetworkAndMakeDiscovery(port: port)
            try user?.dropPrivileges(permanently: true)
            if !bluetooth.isOff { diagnosis.checkBluetooth(adapter: bluetooth.adapter) }
            await diagnosis.checkHotspot()
            diagnosis.checkInbox(at: inbox)
            diagnosis.checkClock()
            if let discovery,
                let settings = diagnosis.checkIdentityAndMakeSettings(
                    discovery: discovery, radio: bluetooth.makeOpener(log: global.logger), log: global.logger)
            {
                try await withNode(settings) { [scan] node in
                    diagnosis.checkLocalSend(on: node)
                    try await SignalHandling.run(onSignal: { node.beginShutdown() }) {
                        if scan { await diagnosis.scanForLocalSend(on: node) }
                        await diagnosis.checkPeers(on: node)
                    }
                }
            }
            if diagnosis.severity == .error { throw CommandFailure.silent(.failure) }
        }
    }
}

extension DoctorCommand {
    private static func render(_ finding: MachineDiagnosis.Finding, to reporter: any CommandReporter) {
        reporter.emit(
            "finding",
            [
                "severity": .string(finding.severity.rawValue), "subject": .string(finding.subject),
                "text": .string(finding.text), "advice": JSONValue(finding.advice),
            ]
        ) {
            let label =
                switch finding.severity {
                case .ok: "ok     "
                case .notice: "note   "
                case .warning: "warning"
                case .error: "PROBLEM"
                }
            Console.writeResult("\(finding.subject): \(finding.text)", after: "\(label)  ")
            if let advice = finding.advice { Console.writeResult(advice, after: "         → ") }
        }
    }
}
