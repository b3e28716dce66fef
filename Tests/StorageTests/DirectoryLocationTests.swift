import Glibc
import Testing

@testable import NearshareStorage

@Suite("where a directory is")
struct DirectoryLocationTests {
    private let scratch = ScratchFolder()

    private func location(_ name: String) -> DirectoryLocation { DirectoryLocation(path: scratch(name)) }

    @Test("P17: a directory contains itself and what is below it, whether that exists or not")
    func below() throws {
        try scratch.write("state/spool/file", [1])
        let state = location("state")
        for name in ["state", "state/spool", "state/none", "state/spool/none/deep", "state/spool/..", "state/./spool"] {
            #expect(state.contains(location(name)), "\(name)")
        }
        for name in ["", "other", "statement", "none/state", "state/.."] {
            #expect(!state.contains(location(name)), "\(name)")
        }
        #expect(location("").contains(state) && DirectoryLocation(path: "/").contains(state))
        // Neither of the two exists.
        #expect(location("config/own").contains(location("config/own/inbox")))
        #expect(location("config").contains(location("config/own")) && !location("config/own").contains(location("config")))
        #expect(!location("config/own").contains(location("config/other")))
    }

    @Test("P17: a path back from a folder that does not exist leads nowhere yet")
    func backFromMissing() throws {
        try scratch.write("state/file", [1])
        for name in ["none/../state", "none/deep/..", "none/../../other"] { #expect(location(name).isUndecided, "\(name)") }
        for name in ["state/..", "state/../none", "none/deep", "none/..deep"] {
            #expect(!location(name).isUndecided, "\(name)")
        }
    }

    @Test("P17: symbolic links lead to the same directory")
    func links() throws {
        try scratch.write("state/spool/file", [1])
        #expect(symlink(scratch("state"), scratch("link")) == 0)
        #expect(symlink(scratch("state/spool"), scratch("deep")) == 0)
        for name in ["link", "link/none", "deep", "deep/none"] {
            #expect(location("state").contains(location(name)), "\(name)")
        }
        #expect(!location("state").contains(location("deep/../..")))
    }

    @Test("P17: a mount of a directory elsewhere is that directory", .enabled(if: isRoot, "mounting needs root"))
    func mounts() throws {
        let scratch = ScratchFolder()
        try withPrivateMounts {
            scratch.makeFolder("state")
            scratch.makeFolder("bound")
            guard mount(scratch("state"), scratch("bound"), nil, 4096, nil) == 0 else { throw MountFailure(what: "bind") }
            let (state, bound) = (DirectoryLocation(path: scratch("state")), DirectoryLocation(path: scratch("bound")))
            #expect(state.contains(bound) && bound.contains(state))
            #expect(state.contains(DirectoryLocation(path: scratch("bound/none"))))
        }
    }
}
