import FoundationEssentials
import Glibc
import Nearshare
import NearshareService
import NearshareTesting
import Testing

@testable import NearshareCLI

/// The options of a command line, beside a configuration file.
@Suite("options and configuration") struct OptionPrecedenceTests {
    private let scratch = ScratchFolder()

    private func machine(_ configuration: String = "") throws -> LocalMachine {
        let folder = scratch("config/nearshare")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(configuration.utf8).write(to: URL(filePath: "\(folder)/config.toml"))
        return try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
    }

    private func parse<Command>(_ line: String, as type: Command.Type = Command.self) throws -> Command {
        try #require(try NearshareCommand.parseAsRoot(line.split(separator: " ").map(String.init)) as? Command)
    }

    @Test func `the size limits of the command line come before those of the configuration`() throws {
        let machine = try machine("max-size = \"1 GB\"\nmax-per-peer = 100")
        let plain: ReceiveCommand = try parse("receive")
        #expect(plain.receiving.makeLimits(for: machine).maximumSize == 1_000_000_000)
        let given: ReceiveCommand = try parse("receive --max-size 5MB --max-per-peer 10")
        #expect(given.receiving.makeLimits(for: machine).maximumSize == 5_000_000)
        let peer = try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32)))
        #expect(plain.receiving.makeQuota(for: machine).reserve(50, for: peer) == .reserved)
        #expect(given.receiving.makeQuota(for: machine).reserve(50, for: peer) == .exceeds(limit: 10, used: 0))
        #expect(try parse("receive", as: ReceiveCommand.self).receiving.makeLimits(for: try self.machine()).maximumSize == nil)
    }

    @Test func `executable bits are kept by the option or the configuration only`() throws {
        let plain: ReceiveCommand = try parse("receive")
        let given: ReceiveCommand = try parse("receive --keep-executable")
        #expect(try !plain.receiving.makeLimits(for: machine()).keepsExecutable)
        #expect(try given.receiving.makeLimits(for: machine()).keepsExecutable)
        #expect(try plain.receiving.makeLimits(for: machine("keep-executable = true")).keepsExecutable)
    }

    @Test func `all receiving options reach the node`() throws {
        let run: MeshRunCommand = try parse(
            "mesh run --inbox /in --name anna --accept none --max-size 7 --max-per-peer 8 --keep-executable --port 9 --interface eth0 "
                + "--adapter none"
        )
        let options = run.receiving.nodeOptions(log: run.global.logger)
        #expect(options.inbox == "/in" && options.name?.claimed == "anna" && options.accept == Configuration.Accept.none)
        #expect(options.maximumSize == 7 && options.maximumPerPeer == 8 && options.port == 9 && options.interface == "eth0")
        #expect(options.radio == nil && options.keepsExecutable)
        guard case .daemon = options.purpose else {
            Issue.record("the node of `mesh run` serves one command only")
            return
        }
    }

    @Test func `an address needs discovery, as the peer may change it, and over lan no radio`() throws {
        let machine = try machine()
        let send: SendCommand = try parse("send a --to 10.0.0.1:4000 --via lan --interface lo")
        let settings = try send.transport.nodeSettings(machine, log: send.global.logger)
        #expect(settings.discovery != nil && settings.radio == nil && settings.interface == "lo")
    }

    @Test func `the interface of the configuration counts without an option`() throws {
        let machine = try machine("interface = \"lo\"\nname = \"attic\"")
        let send: SendCommand = try parse("send a --to 10.0.0.1:4000 --adapter none")
        let settings = try send.transport.nodeSettings(machine, log: send.global.logger)
        #expect(settings.interface == "lo" && settings.name.claimed == "attic" && settings.radio == nil)
    }

    @Test func `a configured interface that does not exist is refused at the start, with the file that names it`() throws {
        let machine = try machine("interface = \"absent0\"")
        let send: SendCommand = try parse("send a --to anna --adapter none")
        let error = #expect(throws: StorageError.self) {
            _ = try send.transport.nodeSettings(machine, log: send.global.logger)
        }
        #expect(
            error?.description.contains("/nearshare/config.toml: interface: there is no network interface absent0: ") == true)
    }

    @Test func `the interface and the name of the command line come before those of the configuration`() throws {
        let machine = try machine("interface = \"wlan3\"\nname = \"attic\"")
        let send: SendCommand = try parse("send a --to 10.0.0.1:4000 --adapter none --interface lo")
        let settings = try send.transport.nodeSettings(machine, log: send.global.logger)
        #expect(settings.interface == "lo")
        let run: MeshRunCommand = try parse("mesh run --name anna --interface lo --adapter none")
        let options = run.receiving.nodeOptions(log: run.global.logger)
        let receiving = try machine.nodeSettings(name: options.name, interface: options.interface, discovery: nil)
        #expect(receiving.interface == "lo" && receiving.name.claimed == "anna")
    }
}
