import FoundationEssentials
import Glibc
import NearshareBase
import NearshareDatabase
import NearshareInterfaces
import NearshareTesting
import Testing

/// The contract of every bundle store, checked on the in-memory form and on SQLite.
@Suite("contract: bundle store")
struct BundleStoreTests {
    enum Kind: CaseIterable {
        case memory
        case sqlite

        func store(in scratch: ScratchFolder, _ quota: BundleStoreQuota = BundleStoreQuota()) throws -> any BundleStore {
            switch self {
            case .memory: InMemoryBundleStore(quota: quota)
            case .sqlite: try SQLiteBundleStore(directory: scratch.path, quota: quota)
            }
        }
    }

    private let scratch = ScratchFolder()

    private func bundle(
        _ number: UInt8, byteCount: Int = 100, from previousNode: UInt64? = nil, host: UInt64? = nil, expiry: Int64 = 1_000
    ) -> PersistedBundle {
        PersistedBundle(
            id: BundleID(bytes: [UInt8](repeating: number, count: 16))!, copy: [UInt8](repeating: number, count: byteCount),
            previousNode: previousNode.map { EndpointID(rawValue: $0) }, host: host, expiry: WallTime(milliseconds: expiry))
    }

    @Test("bundles are returned in the order of insertion, until they are removed", arguments: Kind.allCases)
    func inAndOut(kind: Kind) throws {
        let store = try kind.store(in: scratch)
        let all = [bundle(3), bundle(1, from: 7, host: 5), bundle(2, from: .max, host: .max)]
        for bundle in all { try store.insert(bundle) }
        try store.insert(all[0])
        #expect(try store.bundles() == all)
        #expect(try store.copy(of: all[1].id) == all[1].copy)
        try store.remove([all[1].id, bundle(9).id])
        #expect(try store.bundles() == [all[0], all[2]])
        #expect(try store.copy(of: all[1].id) == nil)
        try store.removeAll()
        #expect(try store.bundles().isEmpty)
    }

    @Test("forwards are counted", arguments: Kind.allCases)
    func forwards(kind: Kind) throws {
        let store = try kind.store(in: scratch)
        try store.insert(bundle(1))
        try store.recordForward(of: bundle(1).id)
        try store.recordForward(of: bundle(1).id)
        try store.recordForward(of: bundle(2).id)
        // The next write includes them.
        try store.recordDelivery(bundle(5).id, expiry: WallTime(milliseconds: 1))
        #expect(try store.bundles().map(\.forwardCount) == [2])
    }

    @Test("expired bundles and deliveries are removed", arguments: Kind.allCases)
    func expiry(kind: Kind) throws {
        let store = try kind.store(in: scratch)
        try store.insert(bundle(1, expiry: 50))
        try store.insert(bundle(2, expiry: 51))
        try store.recordDelivery(bundle(3).id, expiry: WallTime(milliseconds: 50))
        try store.recordDelivery(bundle(4).id, expiry: WallTime(milliseconds: 60))
        try store.recordDelivery(bundle(4).id, expiry: WallTime(milliseconds: 70))
        try store.removeExpired(now: WallTime(milliseconds: 50))
        #expect(try store.bundles().map(\.id) == [bundle(2).id])
        let delivered = try store.deliveries()
        #expect(delivered.map(\.id) == [bundle(4).id] && delivered.map(\.expiry.milliseconds) == [70])
    }

    @Test("changes are applied together, in their order; a bundle beyond the quota is rejected alone", arguments: Kind.allCases)
    func changes(kind: Kind) throws {
        let store = try kind.store(in: scratch, BundleStoreQuota(byteCount: 250))
        let rejected = try store.apply([
            .insert(bundle(1)), .insert(bundle(2)), .insert(bundle(3)), .remove(bundle(1).id), .insert(bundle(4)),
            .recordDelivery(bundle(5).id, expiry: WallTime(milliseconds: 9)),
        ])
        #expect(rejected == [bundle(3).id])
        #expect(try store.bundles().map(\.id) == [bundle(2).id, bundle(4).id])
        #expect(try store.contains(bundle(2).id) && !store.contains(bundle(1).id))
        #expect(try store.deliveries().map(\.id) == [bundle(5).id])
    }

    @Test("B5: each previous node is limited to its share, and all together to the quota", arguments: Kind.allCases)
    func quota(kind: Kind) throws {
        let store = try kind.store(in: scratch, BundleStoreQuota(byteCount: 1_000, byteCountPerPreviousNode: 400))
        for number in 0..<4 { try store.insert(bundle(UInt8(number), from: 1)) }
        #expect(throws: StorageError.self) { try store.insert(bundle(10, from: 1)) }
        #expect(throws: StorageError.self) { try store.insert(bundle(10, byteCount: 401, from: 2)) }
        for number in 20..<24 { try store.insert(bundle(UInt8(number), from: 2)) }
        for number in 30..<32 { try store.insert(bundle(UInt8(number))) }
        do {
            try store.insert(bundle(40))
            Issue.record("more than the quota was accepted")
        } catch {
            #expect(error.code == .overLimit)
        }
        try store.remove([bundle(0).id])
        try store.insert(bundle(41))
        #expect(try store.bundles().count == 10)
    }
}

@Suite("bundles in SQLite")
struct SQLiteBundleStoreTests {
    private let scratch = ScratchFolder()

    @Test("K8: the files are accessible to the user alone, even if an earlier one was not, and no symbolic link is followed")
    func permissions() throws {
        close(open(scratch("carried.sqlite"), O_CREAT | O_WRONLY, 0o600))
        chmod(scratch("carried.sqlite"), 0o644)
        let store = try SQLiteBundleStore(directory: scratch.path)
        try store.recordDelivery(BundleID(bytes: [UInt8](repeating: 1, count: 16))!, expiry: WallTime(milliseconds: 1))
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.path)
        #expect(names.contains("carried.sqlite"))
        for name in names {
            var status = stat()
            #expect(stat(scratch(name), &status) == 0 && status.st_mode & 0o777 == 0o600, "\(name)")
        }
        let other = ScratchFolder()
        symlink(scratch("carried.sqlite"), other("carried.sqlite"))
        #expect(throws: StorageError.self) { try SQLiteBundleStore(directory: other.path) }
    }

    @Test("removed bundles leave nothing in the files")
    func removal() throws {
        let store = try SQLiteBundleStore(directory: scratch.path)
        let secret = "a body that is not sealed"
        try store.insert(
            PersistedBundle(
                id: BundleID(bytes: [UInt8](repeating: 1, count: 16))!, copy: Array(secret.utf8), previousNode: nil,
                expiry: WallTime(milliseconds: 1_000)))
        #expect(try scratch.holds(secret))
        try store.removeAll()
        #expect(try !scratch.holds(secret))
    }

    @Test("B5, B6: bundles of others that displace each other, acknowledgements and deliveries leave the files within 4 MiB")
    func boundOnDisk() throws {
        let store = try SQLiteBundleStore(directory: scratch.path)
        var random = SeededRandom(seed: 4)
        func bundle(byteCount: Int, isOwn: Bool) -> PersistedBundle {
            let number: UInt64 = random.next()
            return PersistedBundle(
                id: BundleID(bytes: random.bytes(16))!, copy: random.bytes(byteCount),
                previousNode: isOwn ? nil : EndpointID(rawValue: number), host: isOwn ? nil : number,
                expiry: WallTime(milliseconds: Int64(number >> 24)))
        }
        func fileByteCount() throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: scratch.path).reduce(0) { sum, name in
                var status = stat()
                return stat(scratch(name), &status) == 0 ? sum + Int(status.st_size) : sum
            }
        }
        // The number of bundles that a router accepts, of a size of which one fits into a page of SQLite.
        let (count, acknowledgementCount) = ((3 << 19) / (1_950 + 113), 500)
        var stored: [BundleID] = []
        var largest = 0
        for round in 0..<225 {
            var changes: [BundleStoreChange] = []
            if round == 0 {
                changes += (0..<acknowledgementCount).map { _ in .insert(bundle(byteCount: 230, isOwn: true)) }
            }
            for _ in 0..<10 {
                if stored.count == count { changes.append(.remove(stored.removeFirst())) }
                let new = bundle(byteCount: 1_950, isOwn: false)
                stored.append(new.id)
                changes.append(.insert(new))
            }
            for number in 0..<40 {
                let id = BundleID(bytes: random.bytes(16))!
                changes.append(.recordDelivery(id, expiry: WallTime(milliseconds: Int64(40 * round + number))))
            }
            #expect(try store.apply(changes).isEmpty)
            largest = max(largest, try fileByteCount())
        }
        #expect(try store.bundles().count == count + acknowledgementCount)
        #expect(largest > 2 << 20 && largest < 4 << 20, "\(largest)")
        // The deliveries that expire last stay recorded.
        let deliveries = try store.deliveries().map(\.expiry.milliseconds)
        #expect((7_168...8_192).contains(deliveries.count) && deliveries.min() == Int64(9_000 - deliveries.count))
    }

    @Test("a damaged file is reported as damaged")
    func damaged() throws {
        try Data("no database at all, and long enough to be read as the head of one: ".utf8)
            .write(to: URL(filePath: scratch("carried.sqlite")))
        do {
            _ = try SQLiteBundleStore(directory: scratch.path)
            Issue.record("the damaged file was opened")
        } catch {
            #expect(error.description.contains("damaged"))
        }
    }

    @Test("everything that was confirmed is stored after kill -9", arguments: 1...5)
    func killed(round: Int) throws {
        let probe = TestProducts.directory + "/bundle-store-probe"
        var pipes: [Int32] = [0, 0]
        #expect(pipe(&pipes) == 0)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, pipes[1], 1)
        posix_spawn_file_actions_addclose(&actions, pipes[0])
        var pid: pid_t = 0
        var arguments: [UnsafeMutablePointer<CChar>?] = [strdup(probe), strdup(scratch.path), nil]
        #expect(posix_spawn(&pid, probe, &actions, nil, &arguments, environ) == 0)
        close(pipes[1])
        var output: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 4_096)
        while output.count(where: { $0 == UInt8(ascii: "\n") }) < 40 * round {
            let count = read(pipes[0], &block, block.count)
            guard count > 0 else { break }
            output += block[..<count]
        }
        kill(pid, SIGKILL)
        while true {
            let count = read(pipes[0], &block, block.count)
            guard count > 0 else { break }
            output += block[..<count]
        }
        waitpid(pid, nil, 0)
        let lines = output.split(separator: UInt8(ascii: "\n"))
        let confirmed = lines.compactMap { Int(String(decoding: $0, as: UTF8.self)) }.max() ?? 0
        #expect(confirmed >= 40 * round)
        let stored = try SQLiteBundleStore(directory: scratch.path).bundles()
        // One more may have been stored without having been confirmed.
        #expect(stored.count >= confirmed && stored.count <= confirmed + 1)
        for (index, bundle) in stored.enumerated() {
            #expect(bundle.copy == [UInt8](repeating: UInt8(truncatingIfNeeded: index + 1), count: 700))
        }
    }
}

/// The executables that SwiftPM has built beside the tests.
private enum TestProducts {
    static var directory: String {
        let own = CommandLine.arguments[0]
        let executable = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? own
        for argument in [own, executable] + CommandLine.arguments
        where argument.contains("/.build/") || argument.contains(".xctest") {
            let folder = argument.split(separator: "/").dropLast().joined(separator: "/")
            if FileManager.default.fileExists(atPath: "/\(folder)/bundle-store-probe") { return "/\(folder)" }
        }
        return "."
    }
}
