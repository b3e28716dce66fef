import Synchronization
import Testing

@testable import NearshareService

@Suite("the programs that setup runs") struct MachineSetupTests {
    /// Stands for the programs of the system: some fail, and all are recorded.
    private final class Programs: Sendable {
        private let started = Mutex<[String]>([])
        private let failing: Set<String>

        init(failing: Set<String>) { self.failing = failing }

        var lines: [String] { started.withLock { $0 } }

        /// - Returns: whether the program succeeds.
        func run(_ words: [String], isQuiet: Bool) -> Bool {
            let line = words.joined(separator: " ")
            started.withLock { $0.append("\(line)\(isQuiet ? " (quiet)" : "")") }
            return !failing.contains(line)
        }
    }

    private func setup(_ programs: Programs) -> MachineSetup {
        MachineSetup { words, isQuiet in programs.run(words, isQuiet: isQuiet) }
    }

    private let installed = "systemctl --user cat nearshare.service"
    private let active = "systemctl --user is-active nearshare.service"

    @Test("a service that is not installed is not asked for its state") func missing() {
        let programs = Programs(failing: [installed])
        #expect(setup(programs).serviceState() == .missing)
        #expect(programs.lines == ["\(installed) (quiet)"])
    }

    @Test("an installed service runs or is stopped", arguments: [true, false]) func state(isActive: Bool) {
        let programs = Programs(failing: isActive ? [] : [active])
        #expect(setup(programs).serviceState() == (isActive ? .running : .stopped))
        #expect(programs.lines == ["\(installed) (quiet)", "\(active) (quiet)"])
    }

    @Test("the service is started now and at each login", arguments: [true, false]) func enabling(succeeds: Bool) {
        let line = "systemctl --user enable --now nearshare.service"
        let programs = Programs(failing: succeeds ? [] : [line])
        #expect(setup(programs).enableService() == succeeds)
        #expect(programs.lines == [line])
    }

    @Test("the first command of the firewall that fails is the last one") func firewall() {
        let commands = [["sudo", "allow"], ["sudo", "store"], ["sudo", "reload"]]
        let programs = Programs(failing: ["sudo store"])
        #expect(setup(programs).openFirewall(with: commands) == ["sudo", "store"])
        #expect(programs.lines == ["sudo allow", "sudo store"])
        #expect(setup(Programs(failing: [])).openFirewall(with: commands) == nil)
    }
}
