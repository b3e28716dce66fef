import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareStorage

@Suite("inbox: kills, full disks, absent disks")
struct BreakageTests {
    /// Files of all the sizes that make a difference: noted down at once, soon sent again, empty.
    static let mixed = InMemorySource([
        .file("first", bytes(100), item: 0),
        .folder(["tree"], item: 1),
        .folder(["tree", "a"], item: 1),
        .file(in: ["tree", "a", "1"], bytes(300, seed: 2), item: 1),
        .file(in: ["tree", "a", "2"], [], item: 1),
        .folder(["tree", "b"], item: 1),
        .folder(["tree", "b", "c"], item: 1),
        .file(in: ["tree", "b", "c", "big"], bytes(1 << 20, seed: 3), item: 1),
        .link(["tree", "b", "l"], to: "c/big", item: 1),
        .file(in: ["tree", "z"], bytes(200, seed: 4), item: 1),
        .file("last", bytes(50, seed: 5), item: 2),
    ])

    static let mixedTree = [
        "f first", "f last", "d tree", "d tree/a", "f tree/a/1", "f tree/a/2", "d tree/b", "d tree/b/c", "f tree/b/c/big",
        "l tree/b/l", "f tree/z",
    ]

    /// Cuts that fall between all the things that happen; dense around the beginning and the end of the large file.
    private static func cuts() throws -> [Int] {
        let length = try TransferRig.streamByteCount(of: mixed)
        let big = 1 << 20
        return Array(stride(from: 20, to: length - big, by: 61)) + [length - big, length - big / 2]
            + Array(stride(from: big, to: length - 60, by: 47))
    }

    @Test(
        "P13: after a kill at any point nothing has a final name, and what is sent again arrives whole", arguments: [0, 1, 5])
    func killed(secondsBetweenCalls: Int) throws {
        for cut in try Self.cuts() {
            let rig = try InboxRig()
            // The faster the clock, the more often the journal is written.
            let clock: @Sendable () -> MonotonicInstant = {
                rig.clock.advance(by: .seconds(secondsBetweenCalls))
                return rig.clock.now
            }
            func sink() throws -> any ResourceSink {
                try rig.inbox.makeSink(for: Self.mixed.offer, from: anna, resumeKey: someKey, clock: clock)
            }
            // Neither suspended nor discarded: what a killed process leaves.
            _ = try TransferRig(recordSize: 4096, cut: cut).move(Self.mixed, to: try sink())
            #expect(rig.scratch.tree("inbox").isEmpty, "cut at \(cut)")
            // And killed once more a little later.
            _ = try TransferRig(recordSize: 4096, cut: 90).move(Self.mixed, to: try sink())
            #expect(rig.scratch.tree("inbox").isEmpty, "cut at \(cut)")
            let result = try TransferRig(recordSize: 4096).move(Self.mixed, to: try sink())
            #expect(result.delivered?.count == 3, "cut at \(cut)")
            #expect(rig.scratch.tree("inbox") == Self.mixedTree, "cut at \(cut)")
            for entry in Self.mixed.entries where entry.header.kind == .file {
                let path = entry.header.path.map(\.shown).joined(separator: "/")
                #expect(try rig.scratch.read("inbox/\(path)") == entry.content, "cut at \(cut): \(path)")
            }
            #expect(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().isEmpty)
        }
    }

    @Test("P13: what a killed process wrote after its journal, and the sender names otherwise now, is removed")
    func killedThenRenamed() throws {
        let rig = try InboxRig()
        func source(_ names: [String]) -> InMemorySource {
            InMemorySource([
                .folder(["t"]), .file(in: ["t", "a"], bytes(2 << 20)), .file(in: ["t", names[0]], [1]),
                .folder(["t", names[1]]),
                .file(in: ["t", names[1], "x"], [2]), .file(in: ["t", "z"], bytes(100)),
            ])
        }
        let before = source(["m", "n"])
        // The journal is written when `a` begins and never again.
        let length = try TransferRig.streamByteCount(of: before)
        _ = try TransferRig(cut: length - 80).move(before, to: try rig.sink(before.offer))
        let after = source(["o", "p"])
        let result = try TransferRig().move(after, to: try rig.sink(after.offer))
        #expect(result.resumed == 2 << 20)
        #expect(rig.scratch.tree("inbox") == ["d t", "f t/a", "f t/o", "d t/p", "f t/p/x", "f t/z"])
    }

    @Test("Q3: a sink gives names to nothing but what was offered")
    func otherContent() throws {
        let offered = InMemorySource([.file("cat.jpg", bytes(10), item: 0), .file("b", [1], item: 1)])
        let others: [[InMemorySource.Entry]] = [
            [.file("evil.desktop", bytes(10), item: 0), .file("b", [1], item: 1)],
            [.file("cat.jpg", bytes(11), item: 0), .file("b", [1], item: 1)],
            [.folder(["cat.jpg"], item: 0), .file("b", [1], item: 1)], [.file("cat.jpg", bytes(10), item: 0)],
            [.file("cat.jpg", bytes(10), item: 0), .file("b", [1], item: 1), .file("c", [1], item: 2)],
            [.file("cat.jpg", bytes(10), item: 0), .file("b", [1], item: 1), .file("c", [1], item: 1)],
        ]
        for entries in others {
            let rig = try InboxRig()
            let failure = #expect(throws: StorageError.self) { try drive(entries, into: try rig.sink(offered.offer)) }
            #expect(failure?.code == .rejected)
            #expect(rig.scratch.tree("inbox").isEmpty)
        }
    }

    @Test("Q1: a journal with numbers at their edges is not used, or only as far as the files agree")
    func journalNumbers() throws {
        let rig = try InboxRig()
        let source = InMemorySource([.file("a", bytes(500), item: 0), .file("b", bytes(5000), item: 1)])
        do {
            let sink = try rig.sink(source.offer)
            try TransferRig(recordSize: 100, cut: 3000).move(source, to: sink)
            sink.suspend()
        }
        let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
        let path = "state/spool/\(staged)/\(TransferCheckpoint.fileName)"
        let journal = try JSONDecoder().decode(TransferCheckpoint.self, from: Data(try rig.scratch.read(path)))
        for number: UInt64 in [0, 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, .max] {
            let changes: [(inout TransferCheckpoint) -> Void] = [
                { $0.completeEntries = number }, { $0.completeBytes = number }, { $0.namesByteCount = number },
                { $0.file?.size = number }, { $0.item = UInt32(truncatingIfNeeded: number) },
            ]
            for change in changes {
                var forged = journal
                change(&forged)
                try rig.scratch.write(path, forged.encoded)
                try rig.scratch.write("state/spool/\(staged)/\(TransferCheckpoint.durableFileName)", forged.encoded)
                let sink = try rig.sink(source.offer)
                guard let point = try? sink.resumePoint() else { continue }
                #expect(point.partialSize <= 5000 && point.completeByteCount <= UInt64(Int64.max))
                if (try? sink.resume(at: point)) != nil { _ = try? bytes(1).withUnsafeBytes { try sink.write($0) } }
            }
        }
    }

    @Test("P13: a journal from before a loss of power counts only as far as it was made durable")
    func lostPower() throws {
        let rig = try InboxRig()
        let entries = (0..<40).map { InMemorySource.Entry.file(in: ["t", "f\($0)"], bytes(500, seed: UInt64($0 + 1))) }
        let source = InMemorySource([.folder(["t"])] + entries)
        let clock: @Sendable () -> MonotonicInstant = {
            rig.clock.advance(by: .seconds(2))
            return rig.clock.now
        }
        func sink() throws -> any ResourceSink {
            try rig.inbox.makeSink(for: source.offer, from: anna, resumeKey: someKey, clock: clock)
        }
        _ = try TransferRig(cut: 18_000).move(source, to: try sink())
        let latest = try sink().resumePoint().completeEntries
        let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
        let path = "state/spool/\(staged)/\(TransferCheckpoint.fileName)"
        var journal = try JSONDecoder().decode(TransferCheckpoint.self, from: Data(try rig.scratch.read(path)))
        journal.bootID = "another"
        try rig.scratch.write(path, journal.encoded)
        let believed = try sink().resumePoint().completeEntries
        #expect(believed > 0 && believed < latest)
        // A state that the machine has lost.
        try rig.scratch.write("state/spool/\(staged)/items/0/t/f\(latest - 2)", [])
        _ = try TransferRig().move(source, to: try sink())
        for (number, entry) in entries.enumerated() {
            #expect(try rig.scratch.read("inbox/t/f\(number)") == entry.content)
        }
    }

    @Test(
        "a journal, a list of names or a folder that is damaged means starting again",
        arguments: [
            TransferCheckpoint.fileName, CompletedNames.fileName, "items/0/t",
        ])
    func damaged(part: String) throws {
        for damage in [[], Array("{".utf8), [UInt8](repeating: 0xff, count: 5000)] {
            let rig = try InboxRig()
            let source = InMemorySource([
                .folder(["t"]), .file(in: ["t", "a"], bytes(1000)), .file(in: ["t", "b"], bytes(1000)),
            ])
            do {
                let sink = try rig.sink(source.offer)
                try TransferRig(recordSize: 100, cut: 1500).move(source, to: sink)
                sink.suspend()
            }
            let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
            let directory = try FileDescriptor.openDirectory(path: rig.scratch("state/spool/\(staged)"))
            directory.unlink(TransferCheckpoint.durableFileName)
            if part.hasPrefix("items") {
                try directory.openDirectory("items").openDirectory("0").removeTree("t")
            } else {
                try rig.scratch.write("state/spool/\(staged)/\(part)", damage)
            }
            try TransferRig().move(source, to: try rig.sink(source.offer))
            #expect(rig.scratch.tree("inbox") == ["d t", "f t/a", "f t/b"])
            #expect(try rig.scratch.read("inbox/t/a") == bytes(1000))
        }
    }

    @Test("P3: forged names in a journal have no effect")
    func forgedJournal() throws {
        let rig = try InboxRig()
        let source = InMemorySource([.file("x", bytes(5000))])
        try rig.scratch.write("victim", bytes(5000))
        do {
            let sink = try rig.sink(source.offer)
            try TransferRig(recordSize: 100, cut: 3000).move(source, to: sink)
            sink.suspend()
        }
        let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
        let path = "state/spool/\(staged)/\(TransferCheckpoint.fileName)"
        for stored in ["../../../../../victim", rig.scratch("victim"), "..", ""] {
            var journal = try JSONDecoder().decode(TransferCheckpoint.self, from: Data(try rig.scratch.read(path)))
            journal.file?.stored = stored
            try rig.scratch.write(path, journal.encoded)
            try rig.scratch.write("state/spool/\(staged)/\(TransferCheckpoint.durableFileName)", journal.encoded)
            #expect(try rig.sink(source.offer).resumePoint() == .start)
        }
        #expect(try rig.scratch.read("victim") == bytes(5000))
    }

    @Test("two transfers of one key at once never share a folder, and both arrive")
    func sameKeyTwice() throws {
        let rig = try InboxRig()
        let source = InMemorySource([.file("x", bytes(3000))])
        let first = try rig.sink(source.offer)
        try TransferRig(recordSize: 100, cut: 1500).move(source, to: first)
        #expect(try rig.receive(source).map(\.path) == [rig.scratch("inbox/x")])
        first.suspend()
        let other = Fingerprint(bytes: [UInt8](repeating: 1, count: 32))!
        #expect(try rig.sink(source.offer, from: other).resumePoint() == .start)
    }

    @Test("what waits in the spool is kept when the same is sent once more, and survives a restart")
    func waitsAcrossRestarts() throws {
        let scratch = ScratchFolder()
        try scratch.write("inbox", [])
        let source = InMemorySource([.file("x", bytes(10))])
        for _ in 1...2 {
            #expect(try InboxRig(scratch: scratch).receive(source).map(\.isInInbox) == [false])
        }
        unlinkFile(scratch("inbox"))
        let rig = try InboxRig(scratch: scratch)
        rig.inbox.removeStaleTransfers(now: WallTime(milliseconds: .max / 2))
        #expect(rig.inbox.deliverPending().map(\.path) == [scratch("inbox/x"), scratch("inbox/x (2)")])
        #expect(rig.inbox.deliverPending().isEmpty)
    }

    @Test func `a file is no inbox, nor is a link that leads nowhere, and the error says so`() throws {
        let scratch = ScratchFolder()
        try scratch.write("file", [1])
        symlink(scratch("missing"), scratch("dangling"))
        for (name, words) in [("file", "is not a folder"), ("dangling", "is a link to a folder that is missing")] {
            let inbox = try InboxRig(scratch: scratch, inboxPath: scratch(name)).inbox
            let atCheck = #expect(throws: StorageError.self) { try inbox.check() }
            let atUse = #expect(throws: StorageError.self) { try inbox.prepare() }
            for error in [atCheck, atUse] { #expect(error?.description.contains(words) == true) }
        }
        let below = try InboxRig(scratch: scratch, inboxPath: scratch("file/inbox")).inbox
        #expect(throws: StorageError.self) { try below.check() }
        let missing = try InboxRig(scratch: scratch, inboxPath: scratch("inbox")).inbox
        #expect(try missing.check() == false)
    }

    @Test(.enabled(if: !isRoot)) func `an inbox in a missing folder of a read-only one names the permission`() throws {
        let scratch = ScratchFolder()
        mkdir(scratch("closed"), 0o500)
        let inbox = try InboxRig(scratch: scratch, inboxPath: scratch("closed/sub/inbox")).inbox
        let atCheck = #expect(throws: StorageError.self) { try inbox.check() }
        let atUse = #expect(throws: StorageError.self) { try inbox.prepare() }
        for error in [atCheck, atUse] {
            #expect(error?.code == .noPermission && error?.description.contains("closed is not writable") == true)
        }
    }

    // MARK: Amounts

    @Test("R8, R13: limits are held against the offer and while writing")
    func limits() throws {
        var limits = InboxRig.limits
        limits.maximumSize = 1000
        limits.maximumEntries = 3
        let rig = try InboxRig(limits: limits)
        func code(_ body: () throws -> Void) -> StorageError.Code? {
            do { try body() } catch { return (error as? StorageError)?.code }
            return nil
        }
        let big = InMemorySource([.file("x", bytes(1001))])
        #expect(code { _ = try rig.sink(big.offer) } == .overLimit)
        let many = InMemorySource((0..<4).map { .file("x", [], item: $0) })
        #expect(code { _ = try rig.sink(many.offer) } == .overLimit)
        let stream = InMemorySource([.file("x", bytes(1001), hasKnownSize: false)])
        #expect(code { _ = try TransferRig(recordSize: 300).move(stream, to: try rig.sink(stream.offer)) } == .overLimit)
        // Together they are too much, though the offer said nothing.
        let parts = InMemorySource([
            .file("a", bytes(600), item: 0, hasKnownSize: false), .file("b", bytes(600), item: 1, hasKnownSize: false),
        ])
        #expect(
            code { _ = try TransferRig(recordSize: 300).move(parts, to: try rig.sink(parts.offer, key: [2])) } == .overLimit)
        #expect(rig.scratch.tree("inbox").isEmpty)
    }

    @Test("R8: an offer that does not fit beside the reserve is rejected, saying how much is missing")
    func reserve() throws {
        var limits = InboxRig.limits
        limits.minimumFreeByteCount = .max
        let rig = try InboxRig(limits: limits)
        #expect(rig.inbox.freeSpace == 0)
        let source = InMemorySource([.file("x", bytes(2000))])
        let failure = #expect(throws: StorageError.self) { try rig.sink(source.offer).checkLimits() }
        #expect(failure?.code == .noSpace)
        #expect(failure?.description.hasPrefix("6.1 KB are still to be received, and 0 B of the disk can be used") == true)
    }

    @Test("R8: a full disk keeps what has come and says how much is missing", .enabled(if: isRoot, "mounting needs root"))
    func fullDisk() throws {
        let scratch = ScratchFolder()
        try withPrivateMounts {
            try mountMemory(at: scratch("small"), megabytes: 4)
            mkdir(scratch("small/state"), 0o700)
            let inbox = try Inbox(
                path: scratch("small/inbox"), spoolPath: scratch("small/spool"), limits: InboxRig.limits,
                detector: InboxRig.detector)
            let clock = ManualClock()
            func sink(_ offer: Offer) throws -> any ResourceSink {
                try inbox.makeSink(for: offer, from: anna, resumeKey: someKey, clock: clock.read)
            }
            // Known to be too much: refused before a byte is written.
            let known = InMemorySource([.file("x", bytes(6 << 20))])
            let early = #expect(throws: StorageError.self) { try sink(known.offer).checkLimits() }
            #expect(early?.code == .noSpace)
            // Fits when it begins, but another process fills the disk meanwhile.
            let source = InMemorySource([.file("x", bytes(3 << 20))])
            do {
                let sink = try sink(source.offer)
                try TransferRig(recordSize: 65_536, cut: 1 << 20).move(source, to: sink)
                sink.suspend()
            }
            let resumed = try sink(source.offer)
            let point = try resumed.resumePoint()
            #expect(point.partialSize > 900_000)
            try resumed.resume(at: point)
            try resumed.begin(source.entries[0].header, at: point.partialSize, entriesDigest: [])
            let filler = try #require(try FileDescriptor.openDirectory(path: scratch("small")).createFile("filler"))
            while (try? filler.write(bytes(4096))) != nil {}
            let late = #expect(throws: StorageError.self) {
                try source.entries[0].content[Int(point.partialSize)...].withUnsafeBytes { try resumed.write($0) }
            }
            #expect(late?.code == .noSpace)
            #expect(late?.description.contains("2.1 MB are still to come") == true)
            resumed.suspend()
            #expect(try FileDescriptor.openDirectory(path: scratch("small/inbox")).names().isEmpty)
        }
    }

    @Test(
        "R8: a disk that fills up loses nothing, and the same send goes on when there is room",
        .enabled(if: isRoot, "mounting needs root"))
    func fullThenRoomy() throws {
        let scratch = ScratchFolder()
        try withPrivateMounts {
            try mountMemory(at: scratch("small"), megabytes: 8)
            let inbox = try Inbox(
                path: scratch("small/inbox"), spoolPath: scratch("small/spool"), limits: InboxRig.limits,
                detector: InboxRig.detector)
            let clock = ManualClock()
            let source = InMemorySource(
                [.folder(["t"])] + (0..<6).map { .file(in: ["t", "f\($0)"], bytes(600_000, seed: UInt64($0 + 1))) })
            func sink() throws -> any ResourceSink {
                try inbox.makeSink(for: source.offer, from: anna, resumeKey: someKey, clock: clock.read)
            }
            do {
                let sink = try sink()
                // Another program fills the disk after the space was checked.
                let filling = Prepared(source: source) { try? remountMemory(at: scratch("small"), megabytes: 2) }
                let failure = #expect(throws: StorageError.self) { try TransferRig(recordSize: 65_536).move(filling, to: sink) }
                #expect(failure?.code == .noSpace)
                sink.suspend()
            }
            try remountMemory(at: scratch("small"), megabytes: 8)
            let result = try TransferRig(recordSize: 65_536).move(source, to: try sink())
            #expect(result.resumed >= 600_000)
            let folder = try FileDescriptor.openDirectory(path: scratch("small/inbox/t"))
            for number in 0..<6 {
                #expect(
                    try folder.openForReading("f\(number)").read(upTo: 1 << 20) == bytes(600_000, seed: UInt64(number + 1)))
            }
        }
    }

    @Test("R13: more items than a process may have open files arrive")
    func manyItems() async {
        await #expect(processExitsWith: .success) {
            var few = rlimit(rlim_cur: 64, rlim_max: 64)
            guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &few) == 0 else {
                throw RigFailure(description: "no limit")
            }
            let rig = try InboxRig()
            let source = InMemorySource((0..<300).map { .file("same", [UInt8(truncatingIfNeeded: $0)], item: $0) })
            let delivered = try rig.receive(source)
            guard delivered.count == 300, delivered.allSatisfy(\.isInInbox), rig.scratch.tree("inbox").count == 300 else {
                throw RigFailure(description: "\(delivered.count) arrived")
            }
        }
    }

    @Test("Q7: a claimed size reserves no more than a step ahead of what was received")
    func reservation() throws {
        let rig = try InboxRig(scratch: ScratchFolder(onDisk: true))
        let size: UInt64 = 512 << 20
        let name = try #require(ClaimedFileName("x"))
        let offer = Offer(
            items: [OfferedItem(kind: .file, name: name, size: size, entryCount: 1, mediaType: .unknown)], itemCount: 1,
            entryCount: 1, totalSize: size)
        let sink = try rig.sink(offer)
        try sink.resume(at: try sink.resumePoint())
        let header = EntryHeader(item: 0, kind: .file, path: [name], size: size, modified: nil, permissions: nil)
        try sink.begin(header, at: 0, entriesDigest: [UInt8](repeating: 1, count: 32))
        let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
        func used() throws -> UInt64 { UInt64(try rig.scratch.status("state/spool/\(staged)/items/0/x").st_blocks) * 512 }
        #expect(try used() == 0)
        try bytes(69).withUnsafeBytes { try sink.write($0) }
        #expect(try used() <= 2 << 20)
        let block = bytes(1 << 20)
        for number in 1...40 {
            try block.withUnsafeBytes { try sink.write($0) }
            #expect(try used() <= UInt64(number) << 20 + 18 << 20)
        }
        sink.suspend()
        #expect(try used() <= 42 << 20)
        try rig.sink(offer).discard()
    }

    @Test("Q7: what is kept of unfinished transfers is known by sender, bounded in number, and removed when it is old")
    func kept() throws {
        let rig = try InboxRig()
        let other = try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32)))
        func leave(_ source: InMemorySource, key: [UInt8], from sender: Fingerprint) throws {
            let sink = try rig.sink(source.offer, key: key, from: sender)
            try TransferRig(recordSize: 100, cut: try TransferRig.streamByteCount(of: source) - 1).move(source, to: sink)
            sink.suspend()
        }
        func kept(_ sender: Fingerprint, except keys: [[UInt8]] = []) -> UInt64 {
            rig.inbox.partialByteCount(of: sender, except: keys)
        }
        #expect(kept(anna) == 0)
        try leave(InMemorySource([.file("x", bytes(50_000))]), key: [1], from: anna)
        let single = kept(anna)
        #expect(single >= 54_096 && kept(other) == 0 && kept(anna, except: [[1]]) == 0)
        let many = InMemorySource([.folder(["t"])] + (0..<100).map { .file(in: ["t", "f\($0)"], []) })
        try leave(many, key: [2], from: anna)
        #expect(kept(anna) >= single + 100 * 4096 && kept(anna, except: [[2]]) == single)
        for number in 0..<30 { try leave(InMemorySource([.file("y", bytes(10))]), key: [3, UInt8(number)], from: other) }
        let names = try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names()
        #expect(names.count == 2 + StagingArea.maximumUnfinishedCount)
        #expect(kept(anna) > single, "another sender's are not removed")
        rig.inbox.removeStaleTransfers(now: WallTime(milliseconds: .max / 2))
        #expect(kept(anna) == 0 && kept(other) == 0)
    }

    @Test("Q7: empty files and folders take their share of a limit and of the disk's reserve")
    func emptyEntries() throws {
        var limits = InboxRig.limits
        limits.maximumSize = 1000
        let rig = try InboxRig(limits: limits)
        let many = InMemorySource([.folder(["t"])] + (0..<100).map { .file(in: ["t", "f\($0)"], []) })
        let failure = #expect(throws: StorageError.self) { try rig.sink(many.offer) }
        #expect(failure?.code == .overLimit)
        #expect(try rig.receive(InMemorySource([.file("x", bytes(1000))])).count == 1)
        (limits.maximumSize, limits.minimumFreeByteCount) = (nil, .max)
        let full = try InboxRig(limits: limits)
        let noSpace = #expect(throws: StorageError.self) { try full.sink(many.offer).checkLimits() }
        #expect(noSpace?.code == .noSpace)
    }

    // MARK: Disks that come and go

    @Test("an inbox that is gone with the folder around it is asked about as one whose disk may not be mounted")
    func parentGone() throws {
        let scratch = ScratchFolder()
        scratch.makeFolder("disk")
        let inbox = try InboxRig(scratch: scratch, inboxPath: scratch("disk/inbox")).inbox
        try inbox.prepare()
        #expect(rename(scratch("disk"), scratch("away")) == 0)
        let error = #expect(throws: StorageError.self) { try inbox.prepare() }
        #expect(error?.code == .notFound && error?.description.contains("is its disk still mounted?") == true)
    }

    @Test(
        "an inbox that is unmounted is not made again underneath, and is found when it is back",
        .enabled(if: isRoot, "mounting needs root"))
    func unmounted() throws {
        let scratch = ScratchFolder()
        try withPrivateMounts {
            for isMountPoint in [true, false] {
                let disk = scratch("disk-\(isMountPoint)")
                try mountMemory(at: disk, megabytes: 4)
                let path = isMountPoint ? disk : "\(disk)/inbox"
                let inbox = try Inbox(
                    path: path, spoolPath: scratch("spool"), limits: InboxRig.limits, detector: InboxRig.detector)
                try inbox.prepare()
                let clock = ManualClock()
                let source = InMemorySource([.file("x", bytes(1000))])
                func send() throws -> [DeliveredItem] {
                    let sink = try inbox.makeSink(for: source.offer, from: anna, resumeKey: someKey, clock: clock.read)
                    return try #require(try TransferRig().move(source, to: sink).delivered)
                }
                #expect(try send().map(\.isInInbox) == [true])
                try unmount(disk)
                #expect(throws: StorageError.self) { try inbox.prepare() }
                #expect(try send().map(\.isInInbox) == [false])
                #expect(inbox.deliverPending().isEmpty)
                #expect(try FileDescriptor.openDirectory(path: disk).names().isEmpty)
                try mountMemory(at: disk, megabytes: 4)
                #expect(inbox.deliverPending().map(\.path) == ["\(path)/x"])
            }
        }
    }

    @Test("P10: a read-only inbox makes everything wait in the spool", .enabled(if: isRoot, "mounting needs root"))
    func readOnly() throws {
        let scratch = ScratchFolder()
        try withPrivateMounts {
            try mountMemory(at: scratch("inbox"), megabytes: 1, isReadOnly: true)
            let rig = try InboxRig(scratch: scratch)
            #expect(throws: StorageError.self) { try rig.inbox.prepare() }
            let delivered = try rig.receive(InMemorySource([.file("x", [1])]))
            #expect(delivered.map(\.isInInbox) == [false])
            #expect(delivered.first?.path.hasPrefix(scratch("state/spool/")) == true)
        }
    }

    @Test("P10: an inbox that is full makes what has come wait, whole", .enabled(if: isRoot, "mounting needs root"))
    func fullInbox() throws {
        let disk = ScratchFolder()
        try withPrivateMounts {
            try mountMemory(at: disk("inbox"), megabytes: 1)
            try disk.write("away", [])
            let rig = try InboxRig(scratch: disk, inboxPath: disk("gone/inbox"))
            let source = InMemorySource([.file("x", bytes(3 << 20))])
            #expect(try rig.receive(source).map(\.isInInbox) == [false])
            let other = try InboxRig(scratch: disk, inboxPath: disk("inbox"))
            #expect(other.inbox.deliverPending().isEmpty)
            #expect(disk.tree("inbox").isEmpty)
            try remountMemory(at: disk("inbox"), megabytes: 8)
            #expect(other.inbox.deliverPending().map(\.size) == [3 << 20])
            #expect(try disk.read("inbox/x") == bytes(3 << 20))
        }
    }

    @Test(
        "P10: two mounts of one file system are two: what cannot be renamed is copied",
        .enabled(if: isRoot, "mounting needs root"))
    func boundInbox() throws {
        let scratch = ScratchFolder()
        try withPrivateMounts {
            scratch.makeFolder("real")
            scratch.makeFolder("inbox")
            guard mount(scratch("real"), scratch("inbox"), nil, 4096, nil) == 0 else { throw MountFailure(what: "bind") }
            let rig = try InboxRig(scratch: scratch)
            #expect(try rig.receive(SinkContractTests.small).map(\.isInInbox) == [true, true])
            #expect(scratch.tree("inbox").count == 7)
            #expect(try scratch.read("real/tree/a") == bytes(20))
        }
    }
}

/// A source that runs a closure each time before it is read, which is after the receiver has checked its space.
private struct Prepared: ResourceSource {
    let source: InMemorySource
    let prepare: @Sendable () -> Void

    var offer: Offer { source.offer }

    func makeReader() throws(StorageError) -> any ResourceReader {
        prepare()
        return try source.makeReader()
    }
}
