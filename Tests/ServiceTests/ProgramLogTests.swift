import Logging
import Nearshare
import NearshareEngine
import NearshareInterfaces
import NearshareTesting
import Testing

/// The log lines of a node that a program starts.
@Suite struct ProgramLogTests {
    private let scratch = ScratchFolder()

    @Test("warnings of the radio go where the program's other lines go") func radio() throws {
        let environment = [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ]
        let machine = try LocalMachine(identity: .ephemeral, environment: environment)
        let (radioLine, nodeLine) = (Promise<String>(), Promise<String>())
        let settings = try machine.nodeSettings(
            as: nil, interface: nil, findsOthers: false, usesBluetooth: true, encryption: .required, limits: NodeLimits(),
            log: { line in
                if line.contains("adapter") { radioLine.fulfil(line) } else { nodeLine.fulfil(line) }
            },
            makeRadio: { log in
                return { () throws(DiscoveryError) -> Radio in
                    log.warning("the adapter does not answer")
                    throw DiscoveryError("no adapter")
                }
            })
        settings.log.warning("other")
        let open = try #require(settings.radio)
        #expect(throws: DiscoveryError.self) { _ = try open() }
        #expect(radioLine.current == "warning: the adapter does not answer" && nodeLine.current == "warning: other")
    }
}
