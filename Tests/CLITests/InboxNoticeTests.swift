import FoundationEssentials
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("where received files go") struct InboxNoticeTests {
    private let scratch = ScratchFolder()

    @Test func `an inbox that cannot be used is told with the reason and the place where files wait`() throws {
        let machine = try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
        let usable = InboxNotice(try machine.inbox(scratch("inbox"), limits: InboxLimits()))
        #expect(usable.place == "files go to \(scratch("inbox"))" && usable.problem == nil)
        try Data().write(to: URL(filePath: scratch("file")))
        let taken = InboxNotice(try machine.inbox(scratch("file"), limits: InboxLimits()))
        #expect(taken.place == "files wait in \(scratch("state"))/nearshare/spool until \(scratch("file")) can be used")
        #expect(taken.problem?.contains("is not a folder; choose another path") == true)
        let orphan = InboxNotice(try machine.inbox(scratch("missing/inbox"), limits: InboxLimits()))
        #expect(orphan.place.hasPrefix("files wait in") && orphan.problem?.contains("could not create the inbox") == true)
        // No user can create a folder there.
        let refused = InboxNotice(try machine.inbox("/proc/nearshare", limits: InboxLimits()))
        #expect(refused.problem?.contains("could not create the inbox /proc/nearshare") == true)
        #expect(refused.problem?.contains("is missing") == false)
    }
}
