import Glibc
import Nearshare
import NearshareService
import NearshareTesting
import Testing

@Suite("waiting for an inbox that is not available", .timeLimit(.minutes(1))) struct InboxWatchTests {
    private let scratch = ScratchFolder()
    private var path: String { scratch("medium/folder/inbox") }

    @Test func `a directory that appears above the inbox is a change, and so is the inbox`() async throws {
        let watch = try #require(InboxWatch(path: path))
        for directory in ["medium", "medium/folder", "medium/folder/inbox"] {
            watch.arm()
            #expect(mkdir(scratch(directory), 0o700) == 0)
            #expect(try await watch.awaitChange(timeout: nil))
        }
        watch.arm()
        #expect(try await watch.awaitChange(timeout: .zero) == false)
    }

    @Test func `an item that the user removes is a change, an item that is received is none`() async throws {
        for directory in ["medium", "medium/folder", "medium/folder/inbox"] { #expect(mkdir(scratch(directory), 0o700) == 0) }
        let watch = try #require(InboxWatch(path: path))
        watch.arm()
        #expect(mkdir(path + "/received", 0o700) == 0)
        #expect(try await watch.awaitChange(timeout: .zero) == false)
        #expect(rmdir(path + "/received") == 0)
        #expect(try await watch.awaitChange(timeout: nil))
    }

    @Test func `changed permissions of a received item are no change`() async throws {
        for directory in ["medium", "medium/folder", "medium/folder/inbox"] { #expect(mkdir(scratch(directory), 0o700) == 0) }
        #expect(mkdir(path + "/received", 0o700) == 0)
        let watch = try #require(InboxWatch(path: path))
        watch.arm()
        #expect(chmod(path + "/received", 0o500) == 0)
        #expect(try await watch.awaitChange(timeout: .milliseconds(1)) == false)
        #expect(rmdir(path + "/received") == 0)
        #expect(try await watch.awaitChange(timeout: nil))
    }

    @Test func `permissions that are given back are a change`() async throws {
        for directory in ["medium", "medium/folder", "medium/folder/inbox"] { #expect(mkdir(scratch(directory), 0o700) == 0) }
        let watch = try #require(InboxWatch(path: path))
        #expect(chmod(path, 0o500) == 0)
        watch.arm()
        #expect(chmod(path, 0o700) == 0)
        #expect(try await watch.awaitChange(timeout: nil))
    }

    @Test func `a wake-up and a cancellation end the wait`() async throws {
        let watch = try #require(InboxWatch(path: path))
        watch.arm()
        watch.wake()
        #expect(try await watch.awaitChange(timeout: nil))
        let waiting = Task { try await watch.awaitChange(timeout: nil) }
        waiting.cancel()
        #expect(try await waiting.value)
    }
}
