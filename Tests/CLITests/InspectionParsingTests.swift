import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("command lines of browse, inbox and doctor") struct InspectionParsingTests {
    @Test func `the options of browse are parsed`() throws {
        let browse: BrowseCommand = try parse(words("browse --timeout 5 --via lan --interface eth0 --json"))
        #expect(!browse.watch && browse.output.json)
        #expect(browse.timeout?.duration == .seconds(5))
        #expect(browse.via == .network)
        #expect(browse.nearby.interface == "eth0")
    }

    @Test func `the options of inbox are parsed`() throws {
        let inbox: InboxListCommand = try parse(words("inbox --inbox /tmp/in --json"))
        #expect(inbox.inbox == "/tmp/in" && inbox.output.json)
    }

    @Test func `the options of doctor are parsed`() throws {
        let doctor: DoctorCommand = try parse(words("doctor --inbox /tmp/in --adapter none --json"))
        #expect(doctor.inbox == "/tmp/in" && doctor.output.json && doctor.bluetooth.isOff)
    }

    @Test(arguments: [
        "browse --via mesh", "browse --timeout 0.01", "browse anna", "inbox x", "inbox rm", "inbox clean x",
        "history --limit 0", "history --sent --received", "doctor x",
        "browse --via bluetooth --adapter none",
    ])
    func `invalid arguments of commands that list are rejected`(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }
}
