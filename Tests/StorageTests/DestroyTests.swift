import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("the end of an identity")
struct DestroyTests {
    private let scratch = ScratchFolder()
    private var path: String { scratch("state") }

    private struct Note: Codable { var text = "remembered" }

    /// A directory with what a machine comes to have, and things of later versions.
    private func fill() throws {
        let state = try StateDirectory(path: path)
        _ = try state.identity()
        try state.update("trust.json", startingWith: Note()) { _ in }
        for name in [
            "contacts.json", "name.json", "history.jsonl", "recent-peers.json", "carried.sqlite", "carried.sqlite-wal",
            "conversations.sqlite-shm", "something later", "later/deep/er", ".hidden", "spool/t-1/items/0/photo.jpg",
            "node.lock", "notify.lock", "sessions.lock",
        ] { try scratch.write("state/\(name)", Array(name.utf8)) }
        symlink(scratch("outside"), scratch("state/link"))
        symlink(scratch("outside"), scratch("state/spool/link"))
        try scratch.write("outside/inbox/photo.jpg", [1])
    }

    private func names() throws -> [String] { try FileDescriptor.openDirectory(path: path).names() }

    @Test("P7: everything goes, whatever it is called; where links point nothing does")
    func everything() throws {
        try fill()
        let before = try StateDirectory(path: path).identity().fingerprint
        let state = try StateDirectory(path: path)
        #expect(try !state.isEmpty)
        try state.destroy()
        #expect(try names() == [])
        #expect(try state.isEmpty && !state.hasIdentity)
        #expect(try scratch.read("outside/inbox/photo.jpg") == [1])
        #expect(try scratch.status("state").st_mode & 0o777 == 0o700)
        // It goes on as on a machine where it was never used.
        #expect(try state.read(Note.self, from: "trust.json") == nil)
        #expect(try state.identity().fingerprint != before)
    }

    @Test("K8: the key's bytes are overwritten where they stood")
    func overwritten() throws {
        try fill()
        let key = try FileDescriptor.openForReading(path: scratch("state/identity.key"))
        #expect(try key.read(upTo: 4096).starts(with: Array("NSID".utf8)))
        try StateDirectory(path: path).destroy()
        try key.seek(to: 0)
        let left = try key.read(upTo: 4096)
        #expect(left.count == 77 && left.allSatisfy { $0 == 0 })
    }

    @Test("without a key, or with one that is a folder or a link, the rest goes all the same")
    func withoutKey() throws {
        for kind in 0..<3 {
            try fill()
            unlinkFile(scratch("state/identity.key"))
            try scratch.write("elsewhere", [7, 7])
            switch kind {
            case 0: break
            case 1: scratch.makeFolder("state/identity.key")
            default: symlink(scratch("elsewhere"), scratch("state/identity.key"))
            }
            try StateDirectory(path: path).destroy()
            #expect(try names() == [])
            #expect(try scratch.read("elsewhere") == [7, 7])
        }
    }

    @Test("nothing is touched while a node runs, or anything else has the directory open")
    func inUse() throws {
        try fill()
        let before = try names()
        let state = try StateDirectory(path: path)
        do {
            let nodeLock = try FileDescriptor.openForReading(path: scratch("state/node.lock"))
            #expect(flock(nodeLock.rawValue, LOCK_EX) == 0)
            try "4711\n".write(toFile: scratch("state/node.lock"), atomically: false, encoding: .utf8)
            let failure = #expect(throws: StorageError.self) { try state.destroy() }
            #expect(failure?.description.contains("(process 4711); stop it with `nearshare mesh stop`") == true)
            #expect(throws: StorageError.self) { try state.checkUnused() }
        }
        do {
            let other = try StateDirectory(path: path)
            let failure = #expect(throws: StorageError.self) { try state.destroy() }
            #expect(failure?.description.contains("another nearshare") == true)
            #expect(throws: StorageError.self) { try other.destroy() }
            #expect(other.hasIdentity)
        }
        #expect(try names() == before)
        // Asking takes nothing from others who come now.
        try state.checkUnused()
        _ = try StateDirectory(path: path)
        try state.destroy()
        #expect(try names() == [])
    }

    @Test("an application whose identity is in use keeps the user's identity as well")
    func usedApplication() throws {
        try fill()
        let state = try StateDirectory(path: path)
        var application: StateDirectory? = try StateDirectory(
            path: "\(path)/\(StateDirectory.applicationsName)/org.example.game")
        _ = try application?.identity()
        let before = try names()
        let failure = #expect(throws: StorageError.self) { try state.destroy() }
        #expect(failure?.description.contains("the application org.example.game") == true)
        #expect(try names() == before)
        application = nil
        try state.destroy()
        #expect(try names() == [])
    }

    @Test("once the process of another node has ended, its locks are released") func nodeProcess() throws {
        try fill()
        let state = try StateDirectory(path: path)
        #expect(try state.otherNodeProcess() == nil)
        // Locks the directory and the file like a node.
        let command = "exec 8<'\(path)' 9>'\(path)/node.lock'; flock -s 8; flock -x 9; echo $$ >&9; echo $$; exec sleep 600"
        let output = try #require(popen(command, "r"))
        var line = [CChar](repeating: 0, count: 32)
        let hasRead = fgets(&line, Int32(line.count), output) != nil
        let id = try #require(
            hasRead ? Int32(String(decoding: line.prefix { $0 != 10 }.map { UInt8($0) }, as: UTF8.self)) : nil)
        defer {
            kill(id, SIGKILL)
            pclose(output)
        }
        let process = try #require(try state.otherNodeProcess())
        #expect(!process.awaitEnd(timeout: .zero))
        #expect(throws: StorageError.self) { try state.destroy() }
        kill(id, SIGKILL)
        #expect(process.awaitEnd(timeout: .seconds(30)))
        try state.destroy()
        #expect(try names() == [])
        #expect(try state.otherNodeProcess() == nil)
    }

    @Test("killed in the middle, at whatever step: the next one to come finds nothing, and no half of an identity")
    func killed() throws {
        try fill()
        let all = try names()
        for kept in 0..<all.count {
            try fill()
            try #require(rename(scratch("state/identity.key"), scratch("state/identity.destroyed")) == 0)
            let rest = all.filter { $0 != "identity.key" }
            for name in rest.dropLast(kept) { try FileDescriptor.openDirectory(path: path).removeTree(name) }
            let state = try StateDirectory(path: path)
            #expect(try names() == [] && !state.hasIdentity)
        }
    }

    @Test("a process that opens the store meanwhile waits, and then gets a new identity")
    func race() throws {
        let path = self.path
        for _ in 0..<20 {
            try fill()
            let old = try StateDirectory(path: path).identity().fingerprint
            let comers = (0..<4).map { _ in
                Worker { () -> Fingerprint? in try? StateDirectory(path: path).identity().fingerprint }
            }
            let isDestroyed = Worker { () -> Bool in (try? StateDirectory(path: path).destroy()) != nil }.wait()
            let seen = Set(comers.map { $0.wait() })
            #expect(!seen.contains(nil))
            #expect(seen.subtracting([old]).count <= 1)
            let last = try StateDirectory(path: path).identity().fingerprint
            #expect(isDestroyed ? last != old : last == old)
            if isDestroyed { #expect(try StateDirectory(path: path).read(Note.self, from: "trust.json") == nil) }
        }
    }
}
