import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("changes of the files of contacts")
struct ContactMonitorTests {
    private let scratch = ScratchFolder()

    private func state() throws -> StateDirectory { try StateDirectory(path: scratch("state")) }

    private struct Note: Codable {
        var text = ""
    }

    @Test("a file that another process replaces, writes over or moves away is a change, other files are none")
    func changes() throws {
        let (watched, other) = try (state(), state())
        let monitor = try #require(ContactMonitor(of: watched))
        for name in ["trust.json", "contacts.json"] {
            try other.update(name, startingWith: Note()) { $0.text = "one" }
            #expect(monitor.waitForChange())
            try scratch.write("state/\(name)", [])
            #expect(monitor.waitForChange())
            #expect(rename(scratch("state/\(name)"), scratch(name)) == 0)
            #expect(monitor.waitForChange())
        }
        for name in ["name.json", "trust.json.new"] {
            try other.update(name, startingWith: Note()) { $0.text = "two" }
            try scratch.write("state/\(name)", [])
        }
        let isRelevant = monitor.readChanges()
        #expect(!isRelevant)
    }

    @Test("where the directory is gone, the files may have changed after each interval")
    func removedDirectory() throws {
        // The kernel removes the watch once the directory is closed as well.
        let monitor = try #require(ContactMonitor(of: state()))
        #expect(monitor.interval == nil)
        #expect(rmdir(scratch("state")) == 0)
        #expect(monitor.waitForChange())
        #expect(monitor.interval != nil)
    }

    @Test("a monitor that is closed ends the wait")
    func ends() async throws {
        let monitor = try #require(ContactMonitor(of: state()))
        async let hasChanged = BlockingThread.run { monitor.waitForChange() }
        monitor.close()
        let result = try await hasChanged
        #expect(!result && !monitor.waitForChange())
    }
}
