import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("inbox: hostile names and places")
struct InboxAttackTests {
    static let escapes = [
        "../x", "a/../../x", "/etc/x", "..\\x", "C:\\x", "\\\\h\\s\\x", "//x", "", ".", "..", "x/", "a\0b", "...", "~/x",
    ]

    @Test("P1: a name never leaves the inbox", arguments: escapes)
    func escapingFile(name: String) throws {
        let rig = try InboxRig()
        let delivered = try drive([.file(name, [1, 2])], into: try rig.sink(InMemorySource([.file(name, [1, 2])]).offer))
        let tree = rig.scratch.tree("inbox")
        #expect(tree.count == 1)
        #expect(tree.first?.hasPrefix("f ") == true)
        #expect(delivered.first?.path == rig.scratch("inbox/\(tree.first!.dropFirst(2))"))
        #expect(rig.scratch.tree(".").filter { !$0.hasPrefix("d state") && !$0.hasPrefix("f state") }.count == 2)
    }

    @Test("P2: an entry of a folder never leaves it", arguments: escapes)
    func escapingEntry(name: String) throws {
        let rig = try InboxRig()
        let entries: [InMemorySource.Entry] = [
            .folder(["t"]), .folder(["t", name]), .file(in: ["t", name, name], [1]), .file(in: ["t", "z" + name], [2]),
        ]
        _ = try drive(entries, into: try rig.sink(InMemorySource(entries).offer))
        let tree = rig.scratch.tree("inbox")
        #expect(tree.count == 4)
        #expect(tree.allSatisfy { $0.hasPrefix("d t") || $0.hasPrefix("f t/") })
    }

    @Test("P2: an entry whose folder has not come is rejected")
    func orphan() throws {
        let rig = try InboxRig()
        let entries: [InMemorySource.Entry] = [.folder(["t"]), .file(in: ["t", "never", "x"], [1])]
        #expect(throws: StorageError.self) { try drive(entries, into: try rig.sink(InMemorySource(entries).offer)) }
    }

    @Test("P3: a staging folder swapped for a link during the transfer is not followed")
    func swappedParent() throws {
        let rig = try InboxRig()
        rig.scratch.makeFolder("outside")
        let entries: [InMemorySource.Entry] = [.folder(["t"]), .file(in: ["t", "a"], [1]), .file(in: ["t", "b"], [2])]
        let sink = try rig.sink(InMemorySource(entries).offer)
        try sink.resume(at: try sink.resumePoint())
        for entry in entries.prefix(2) {
            try sink.begin(entry.header, at: 0, entriesDigest: [])
            try entry.content.withUnsafeBytes { if !$0.isEmpty { try sink.write($0) } }
            try sink.endEntry()
        }
        let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
        let holder = rig.scratch("state/spool/\(staged)/items/0")
        renameFile("\(holder)/t", "\(holder)/moved")
        symlink(rig.scratch("outside"), "\(holder)/t")
        try sink.begin(entries[2].header, at: 0, entriesDigest: [])
        try entries[2].content.withUnsafeBytes { try sink.write($0) }
        try sink.endEntry()
        // Another name beside the item is not what was offered.
        #expect(throws: StorageError.self) { try sink.finish() }
        #expect(rig.scratch.tree("outside").isEmpty && rig.scratch.tree("inbox").isEmpty)
    }

    @Test("P3: a holder swapped for a link before delivery is not followed")
    func swappedHolder() throws {
        let rig = try InboxRig()
        try rig.scratch.write("outside/secret", [42])
        let source = InMemorySource([.file("a", [1])])
        let sink = try rig.sink(source.offer)
        try sink.resume(at: try sink.resumePoint())
        try sink.begin(source.entries[0].header, at: 0, entriesDigest: [])
        try [UInt8](arrayLiteral: 1).withUnsafeBytes { try sink.write($0) }
        try sink.endEntry()
        let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
        let holder = rig.scratch("state/spool/\(staged)/items/0")
        renameFile(holder, holder + "-moved")
        symlink(rig.scratch("outside"), holder)
        #expect(throws: StorageError.self) { try sink.finish() }
        #expect(rig.scratch.tree("inbox").isEmpty)
        #expect(try rig.scratch.read("outside/secret") == [42])
    }

    @Test("P3: a link in the place of the inbox's own staging folder is not followed")
    func plantedStaging() throws {
        let scratch = ScratchFolder(onDisk: true)
        let memory = ScratchFolder()
        try #require(try scratch.status(".").st_dev != memory.status(".").st_dev, "needs two file systems")
        memory.makeFolder("inbox")
        memory.makeFolder("outside")
        symlink(memory("outside"), memory("inbox/.nearshare"))
        let rig = try InboxRig(scratch: scratch, inboxPath: memory("inbox"))
        let delivered = try rig.receive(InMemorySource([.file("a", [1])]))
        #expect(memory.tree("outside").isEmpty)
        // It cannot be copied in safely, so it waits.
        #expect(delivered.map(\.isInInbox) == [false])
        unlinkFile(memory("inbox/.nearshare"))
        #expect(rig.inbox.deliverPending().map(\.isInInbox) == [true])
        #expect(try memory.read("inbox/a") == [1])
    }

    @Test(
        "P3: a staging folder in the inbox that another user owns is not written into",
        .enabled(if: isRoot, "needs to give a folder away"))
    func othersStaging() throws {
        let scratch = ScratchFolder(onDisk: true)
        let memory = ScratchFolder()
        try #require(try scratch.status(".").st_dev != memory.status(".").st_dev, "needs two file systems")
        memory.makeFolder("inbox")
        memory.makeFolder("inbox/.nearshare")
        #expect(chown(memory("inbox/.nearshare"), 12_345, 12_345) == 0)
        let rig = try InboxRig(scratch: scratch, inboxPath: memory("inbox"))
        // It waits in the spool.
        let delivered = try rig.receive(InMemorySource([.file("a", [1])]))
        #expect(delivered.map(\.isInInbox) == [false])
        #expect(try FileDescriptor.openDirectory(path: memory("inbox/.nearshare")).names().isEmpty)
        #expect(try memory.status("inbox/.nearshare").st_uid == 12_345)
        rmdir(memory("inbox/.nearshare"))
        #expect(rig.inbox.deliverPending().map(\.path) == [memory("inbox/a")])
    }

    enum Occupant: String, CaseIterable, Sendable {
        case file, hardLink, link, danglingLink, fifo, socket, folder
    }

    @Test("P4: whatever has the final name already stays as it is", arguments: Occupant.allCases)
    func occupied(occupant: Occupant) throws {
        let rig = try InboxRig()
        try rig.inbox.prepare()
        try rig.scratch.write("private", [42])
        let name = rig.scratch("inbox/x.txt")
        switch occupant {
        case .file: try rig.scratch.write("inbox/x.txt", [42])
        case .hardLink: link(rig.scratch("private"), name)
        case .link: symlink(rig.scratch("private"), name)
        case .danglingLink: symlink(rig.scratch("nowhere"), name)
        case .fifo: mkfifo(name, 0o600)
        case .socket: mknod(name, S_IFSOCK | 0o600, 0)
        case .folder: rig.scratch.makeFolder("inbox/x.txt")
        }
        let before = try rig.scratch.status("inbox/x.txt")
        let delivered = try rig.receive(InMemorySource([.file("x.txt", [1])]))
        #expect(delivered.map(\.path) == [rig.scratch("inbox/x (2).txt")])
        let after = try rig.scratch.status("inbox/x.txt")
        #expect(after.st_ino == before.st_ino && after.st_mode == before.st_mode && after.st_size == before.st_size)
        #expect(try rig.scratch.read("private") == [42])
        #expect(!rig.scratch.exists("nowhere"))
    }

    @Test(
        "P4: a partial file that is no plain file of ours any more is not gone on with",
        arguments: [
            Occupant.hardLink, .link, .fifo, .folder,
        ])
    func occupiedPartial(occupant: Occupant) throws {
        let rig = try InboxRig()
        let source = InMemorySource([.file("x", bytes(5000))])
        do {
            let sink = try rig.sink(source.offer)
            try TransferRig(recordSize: 100, cut: 3000).move(source, to: sink)
            sink.suspend()
        }
        try rig.scratch.write("private", bytes(5000))
        let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
        let partial = rig.scratch("state/spool/\(staged)/items/0/x")
        unlinkFile(partial)
        switch occupant {
        case .hardLink: link(rig.scratch("private"), partial)
        case .link: symlink(rig.scratch("private"), partial)
        case .fifo: mkfifo(partial, 0o600)
        default: mkdir(partial, 0o700)
        }
        let result = try TransferRig().move(source, to: try rig.sink(source.offer))
        #expect(result.resumed == 0)
        #expect(try rig.scratch.read("inbox/x") == bytes(5000))
        #expect(try rig.scratch.read("private") == bytes(5000))
    }

    @Test(
        "P5: nothing hidden and no startup file at top level",
        arguments: [
            (".bashrc", "_bashrc"), (".ssh/authorized_keys", "_ssh_authorized_keys"),
            (".config/autostart/x.desktop", "_config_autostart_x.desktop"), (".nearshare", "_nearshare"),
        ])
    func hidden(name: String, stored: String) throws {
        let rig = try InboxRig()
        let entries: [InMemorySource.Entry] = [
            .file(name, [1], item: 0), .folder([name], item: 1), .file(in: [name, ".gitignore"], [2], item: 1),
        ]
        _ = try drive(entries, into: try rig.sink(InMemorySource(entries).offer))
        let twin = SafeFileName(ClaimedFileName(name)!).numbered(2).text
        #expect(Set(rig.scratch.tree("inbox")) == ["f \(stored)", "d \(twin)", "f \(twin)/.gitignore"])
    }

    @Test("P9: the number for one of many items of a name takes few lookups, and there is always one")
    func numbers() {
        for count in 0...300 {
            #expect(InboxDirectory.firstFreeNumber(after: 0) { $0 <= count } == count + 1)
        }
        var lookupCount = 0
        let free = InboxDirectory.firstFreeNumber(after: 0) { number in
            lookupCount += 1
            return number <= 100_000
        }
        #expect(free == 100_001 && lookupCount < 50, "\(lookupCount)")
    }

    @Test(
        "P6: a link that leads out is rejected",
        arguments: [
            "/etc/passwd", "../x", "../../x", "a/../../x", "a/../b", "", "\0", "./../x",
        ])
    func escapingLink(target: String) throws {
        let rig = try InboxRig()
        let entries: [InMemorySource.Entry] = [.folder(["t"]), .link(["t", "l"], to: target)]
        let sink = try rig.sink(InMemorySource(entries).offer)
        let failure = #expect(throws: StorageError.self) { try drive(entries, into: sink) }
        #expect(failure?.code == .rejected)
    }

    @Test("P6: an item that is itself a link is rejected, and any link where none are allowed")
    func forbiddenLinks() throws {
        let rig = try InboxRig()
        let item = InMemorySource([.link(["l"], to: "x")])
        #expect(throws: StorageError.self) { try drive(item.entries, into: try rig.sink(item.offer)) }
        var limits = InboxRig.limits
        limits.allowsLinks = false
        let strict = try InboxRig(limits: limits)
        let inside = InMemorySource([.folder(["t"]), .link(["t", "l"], to: "x")])
        #expect(throws: StorageError.self) { try drive(inside.entries, into: try strict.sink(inside.offer)) }
    }

    @Test("P6: a link that stays inside is made, and never written through")
    func insideLink() throws {
        let rig = try InboxRig()
        let entries: [InMemorySource.Entry] = [
            .folder(["t"]), .folder(["t", "a"]), .link(["t", "a", "up"], to: "../b/file"), .folder(["t", "b"]),
            .file(in: ["t", "b", "file"], [1]), .link(["t", "l"], to: "b"), .file(in: ["t", "l"], [2]),
        ]
        _ = try drive(entries, into: try rig.sink(InMemorySource(entries).offer))
        #expect(try rig.scratch.read("inbox/t/a/up") == [1])
        // The same name once more is another file, not what the link leads to.
        #expect(try rig.scratch.read("inbox/t/l (2)") == [2])
        #expect(rig.scratch.tree("inbox/t/b") == ["f file"])
    }

    @Test(
        "P6, T4: the names in a link's target are those under which files are stored",
        arguments: [FileNameRules.linux, .windows])
    func safeTarget(_ rules: FileNameRules) {
        let targets = ["../a\u{1b}[2J/b\u{202e}c", "./d//e", "-x/..", "f:g"]
        let safe = targets.map { LinkTarget.safe(Array($0.utf8), rules: rules) }
        #expect(safe == ["../a_[2J/b_c", "./d//e", "_x/..", rules == .linux ? "f:g" : "f_g"])
    }

    @Test(
        "P6, P12: no bit for writing by others, and none for executing files unless the receiver keeps them",
        arguments: [(false, false, 0o600, 0o700), (true, false, 0o644, 0o705), (true, true, 0o755, 0o705)]
            as [(Bool, Bool, mode_t, mode_t)])
    func modes(_ keeps: Bool, _ keepsExecutable: Bool, _ fileMode: mode_t, _ folderMode: mode_t) throws {
        var limits = InboxRig.limits
        limits.keepsPermissions = keeps
        limits.keepsExecutable = keepsExecutable
        let rig = try InboxRig(limits: limits)
        var file = InMemorySource.Entry.file(in: ["t", "f"], [1])
        file.header.permissions = 0o7777
        var folder = InMemorySource.Entry.folder(["t"])
        folder.header.permissions = 0o7027
        _ = try drive([folder, file], into: try rig.sink(InMemorySource([folder, file]).offer))
        #expect(try rig.scratch.status("inbox/t/f").st_mode & 0o7777 == fileMode)
        #expect(try rig.scratch.status("inbox/t").st_mode & 0o7777 == folderMode)
    }

    @Test("P12: inbox 0700, files 0600, whatever the umask", arguments: [mode_t(0), 0o277, 0o777])
    func umasks(mask: mode_t) async throws {
        // The umask belongs to the process, and so to all tests at once: each gets a process of its own.
        switch mask {
        case 0: await #expect(processExitsWith: .success) { try receiveUnder(umask: 0) }
        case 0o277: await #expect(processExitsWith: .success) { try receiveUnder(umask: 0o277) }
        default: await #expect(processExitsWith: .success) { try receiveUnder(umask: 0o777) }
        }
    }

    @Test("P7: sweeping removes only files that are ours, idle and not locked")
    func sweeps() throws {
        let rig = try InboxRig()
        let source = InMemorySource([.file("x", bytes(5000))])
        func leave(_ key: UInt8) throws {
            let sink = try rig.sink(source.offer, key: [UInt8](repeating: key, count: 32))
            try TransferRig(recordSize: 100, cut: 3000).move(source, to: sink)
            sink.suspend()
        }
        try leave(1)
        try leave(2)
        try rig.scratch.write("state/spool/t-mine/file", [1])
        try rig.scratch.write("state/spool/notes.txt", [1])
        symlink(rig.scratch("state"), rig.scratch("state/spool/t-link"))
        rig.scratch.makeFolder("state/spool/c-1-1")
        let held = try rig.sink(source.offer, key: [UInt8](repeating: 2, count: 32))
        let now = WallTime(milliseconds: Int64(time(nil)) * 1000)
        rig.inbox.removeStaleTransfers(now: now)
        #expect(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().count == 5)
        rig.inbox.removeStaleTransfers(now: WallTime(milliseconds: now.milliseconds + 8 * 86_400_000))
        withExtendedLifetime(held) {}
        let left = try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names()
        #expect(left.count == 3)
        #expect(left.contains("notes.txt") && left.contains("t-link"))
        #expect(rig.scratch.exists("state"))
    }

    @Test("P8: awkward names and depths")
    func awkward() throws {
        let rig = try InboxRig()
        let names = [
            "CON", "nul.txt", "dot.", "space ", "a:b", "-rf", "~root", "*", "two\nlines", String(repeating: "ü", count: 127),
        ]
        let entries = names.enumerated().map { InMemorySource.Entry.file($1, [1], item: UInt32($0)) }
        _ = try drive(entries, into: try rig.sink(InMemorySource(entries).offer))
        let tree = rig.scratch.tree("inbox")
        #expect(tree.count == names.count)
        for name in tree.map({ $0.dropFirst(2) }) {
            #expect(name.utf8.count <= SafeFileName.maximumByteCount)
            #expect(
                !name.contains { ":*\n~".contains($0) } && !name.hasPrefix("-") && !name.hasSuffix(".") && !name.hasSuffix(" "))
        }
    }

    @Test("P8: too deep and too long paths are rejected")
    func deep() throws {
        let rig = try InboxRig()
        var entries: [InMemorySource.Entry] = []
        for depth in 1...300 { entries.append(.folder((1...depth).map { _ in "d" })) }
        #expect(throws: StorageError.self) { try drive(entries, into: try rig.sink(InMemorySource(entries).offer)) }
        let long = String(repeating: "n", count: 250)
        let wide = (1...20).map { depth in InMemorySource.Entry.folder((1...depth).map { _ in long }) }
        #expect(throws: StorageError.self) { try drive(wide, into: try rig.sink(InMemorySource(wide).offer, key: [1])) }
    }

    @Test("P9: names that look alike, in every way, stay apart")
    func twins() throws {
        let rig = try InboxRig()
        let names = ["photo.jpg", "photo.jpg", "PHOTO.jpg", "caf\u{e9}", "cafe\u{301}", "a?b", "a*b", ".nearshare", "x.part"]
        let entries = names.enumerated().map { InMemorySource.Entry.file($1, [UInt8($0)], item: UInt32($0)) }
        let delivered = try drive(entries, into: try rig.sink(InMemorySource(entries).offer))
        #expect(delivered.count == names.count)
        #expect(rig.scratch.tree("inbox").count == names.count)
        for item in delivered {
            #expect(try FileDescriptor.openForReading(path: item.path).read(upTo: 10) == [UInt8(item.item)])
        }
        let folded = Set(delivered.map { $0.path.lowercased() })
        #expect(folded.count == names.count)
    }

    @Test("P9: entries of one folder that become alike get numbers, and each changed name is counted")
    func twinsInside() throws {
        let rig = try InboxRig()
        let entries: [InMemorySource.Entry] = [
            .folder(["t"]), .file(in: ["t", "a\\b"], [1]), .file(in: ["t", "a\nb"], [2]), .file(in: ["t", "a\nb"], [3]),
            .folder(["t", "a\u{202e}b"]), .file(in: ["t", "a\u{202e}b", "x"], [4]),
        ]
        let sink = try rig.sink(InMemorySource(entries).offer)
        _ = try drive(entries, into: sink)
        #expect(
            rig.scratch.tree("inbox") == [
                "d t", "f t/a_b", "f t/a_b (2)", "f t/a_b (3)", "d t/a_b (4)", "f t/a_b (4)/x",
            ])
        #expect(sink.changedNames.count == 4)
        #expect(sink.changedNames.listed.map(\.stored.shown).first == "a_b")
    }

    @Test("names that the file system can hold stay as they are inside a folder")
    func keptInside() throws {
        let rig = try InboxRig()
        let names = ["a:b", "a?b", "a*b", "aux.c", "Acme Inc.", "<x>|\"y\"", String(repeating: "n", count: 255)]
        let entries = [.folder(["t"])] + names.map { InMemorySource.Entry.file(in: ["t", $0], Array($0.utf8)) }
        let sink = try rig.sink(InMemorySource(entries).offer)
        _ = try drive(entries, into: sink)
        for name in names { #expect(try rig.scratch.read("inbox/t/\(name)") == Array(name.utf8)) }
        #expect(sink.changedNames.isEmpty)
    }

    @Test("an interrupted transfer counts each changed name once, and lists at most a handful")
    func changedNamesAcrossAttempts() throws {
        let entries =
            [.folder(["t"])] + (0..<9).map { InMemorySource.Entry.file(in: ["t", "\($0)\n"], bytes(200, seed: UInt64($0))) }
        let source = InMemorySource(entries)
        let length = try TransferRig.streamByteCount(of: source)
        for cut in stride(from: 0, to: length, by: 97) {
            let rig = try InboxRig()
            do {
                let sink = try rig.sink(source.offer)
                try TransferRig(recordSize: 50, cut: cut).move(source, to: sink)
                sink.suspend()
            }
            let sink = try rig.sink(source.offer)
            try TransferRig(recordSize: 50).move(source, to: sink)
            #expect(sink.changedNames.count == 9, "cut at \(cut)")
            #expect(sink.changedNames.listed.map(\.stored.shown) == (0..<5).map { "\($0)_" }, "cut at \(cut)")
        }
    }

    @Test("a copy onto a file system that holds less changes names inside a folder, and loses none")
    func copyForWindows() throws {
        let scratch = ScratchFolder()
        for name in ["a:b", "a?b", "a_b", "sub./CON", "plain"] { try scratch.write("from/t/\(name)", Array(name.utf8)) }
        scratch.makeFolder("to")
        let (from, to) = (
            try FileDescriptor.openDirectory(path: scratch("from")), try FileDescriptor.openDirectory(path: scratch("to"))
        )
        try FileTree.copy("t", in: from, to: "t", in: to, rules: .windows)
        #expect(
            scratch.tree("to") == ["d t", "f t/a_b", "f t/a_b (2)", "f t/a_b (3)", "f t/plain", "d t/sub", "f t/sub/_CON"])
        #expect(try scratch.read("to/t/a_b (3)") == Array("a_b".utf8))
    }

    @Test("P10: an inbox that is a link, relative, missing or has a slash at its end")
    func inboxPaths() throws {
        let scratch = ScratchFolder()
        scratch.makeFolder("real")
        symlink(scratch("real"), scratch("link"))
        for path in ["\(scratch("link"))", "\(scratch("link"))/", "\(scratch(".//real/."))"] {
            let rig = try InboxRig(scratch: scratch, inboxPath: path)
            #expect(try rig.receive(InMemorySource([.file("../x", [1])])).map(\.isInInbox) == [true])
        }
        #expect(scratch.tree("real").count == 3)
        let up = String(repeating: "../", count: 60)
        let relative = try InboxRig(scratch: scratch, inboxPath: "\(up)\(scratch("new").dropFirst())")
        let delivered = try relative.receive(InMemorySource([.file("../x", [1])]))
        #expect(delivered.first?.path.hasPrefix("/") == true)
        #expect(scratch.tree("new") == ["f _._x"])
        #expect(try scratch.status("new").st_mode & 0o777 == 0o700)
        #expect(throws: StorageError.self) { try InboxRig(scratch: scratch, inboxPath: "") }
        let missing = try InboxRig(scratch: scratch, inboxPath: scratch("no/such/place"))
        #expect(throws: StorageError.self) { try missing.inbox.prepare() }
    }

    @Test("P10: an inbox on another file system than the spool gets whole files and keeps no litter")
    func otherFileSystem() throws {
        let disk = ScratchFolder(onDisk: true)
        let memory = ScratchFolder()
        try #require(try disk.status(".").st_dev != memory.status(".").st_dev, "needs two file systems")
        let rig = try InboxRig(scratch: disk, inboxPath: memory("inbox"))
        try rig.receive(SinkContractTests.small)
        #expect(memory.tree("inbox").count == 7)
        #expect(try FileDescriptor.openDirectory(path: memory("inbox/.nearshare")).names().isEmpty)
        #expect(try memory.status("inbox/.nearshare").st_mode & 0o777 == 0o700)
    }

    @Test("P10: what waits in the spool is copied to an inbox on another file system as a whole")
    func spoolToOtherFileSystem() throws {
        let disk = ScratchFolder(onDisk: true)
        let memory = ScratchFolder()
        try memory.write("inbox", [])
        let rig = try InboxRig(scratch: disk, inboxPath: memory("inbox"))
        #expect(try rig.receive(SinkContractTests.small).map(\.isInInbox) == [false, false])
        #expect(rig.inbox.pendingPaths.count == 2)
        unlinkFile(memory("inbox"))
        let delivered = rig.inbox.deliverPending()
        #expect(delivered.map(\.claimedName.shown) == ["one.txt", "tree"])
        #expect(try memory.read("inbox/tree/sub/b") == bytes(33, seed: 2))
        #expect(memory.tree("inbox").count == 7)
        #expect(rig.inbox.pendingPaths.isEmpty)
        #expect(try FileDescriptor.openDirectory(path: memory("inbox/.nearshare")).names().isEmpty)
        #expect(try FileDescriptor.openDirectory(path: disk("state/spool")).names().isEmpty)
    }

    @Test(
        "P11: names that are no text, or pretend to read otherwise",
        arguments: [
            [0xff, 0xfe], [0xc0, 0xaf, 0x78], [0xed, 0xa0, 0x80], Array("photo\u{202e}gpj.exe".utf8), Array("a\u{200b}b".utf8),
            Array("a\u{2028}b".utf8), [0x9b, 0x33],
        ])
    func noText(name: [UInt8]) throws {
        let rig = try InboxRig()
        let claimed = ClaimedFileName(bytes: name)!
        var entry = InMemorySource.Entry.file("x", [1])
        entry.header.path = [claimed]
        let delivered = try drive([entry], into: try rig.sink(InMemorySource([entry]).offer))
        let stored = try #require(rig.scratch.tree("inbox").first).dropFirst(2)
        #expect(stored.unicodeScalars.allSatisfy { $0.isASCII && $0.value > 0x20 && $0.value < 0x7f })
        #expect(delivered.first?.claimedName == claimed)
    }

    @Test("P14: name, claim and content that do not agree are told")
    func typeWarning() throws {
        let rig = try InboxRig()
        let program = Array("MZ".utf8) + [UInt8](repeating: 0, count: 58) + [64, 0, 0, 0] + Array("PE\0\0".utf8) + bytes(500)
        let delivered = try rig.receive(
            InMemorySource([.file("photo.jpg", program, item: 0), .file("plain.txt", Array("hello\n".utf8), item: 1)]))
        #expect(delivered[0].typeWarning?.hasPrefix("named photo.jpg, but the content is application/") == true)
        #expect(delivered[1].detectedType == "text/plain")
        #expect(delivered[1].typeWarning == nil)
    }
}

private func receiveUnder(umask mask: mode_t) throws {
    let scratch = ScratchFolder()
    scratch.makeFolder("state")
    umask(mask)
    let rig = try InboxRig(scratch: scratch)
    try rig.inbox.prepare()
    _ = try drive(SinkContractTests.small.entries, into: try rig.sink(SinkContractTests.small.offer))
    func mode(_ name: String) throws -> mode_t { try scratch.status(name).st_mode & 0o7777 }
    guard try mode("inbox") == 0o700, try mode("inbox/one.txt") == 0o600, try mode("inbox/tree") == 0o700,
        try mode("inbox/tree/sub/b") == 0o600, try mode("state/spool") == 0o700
    else { throw RigFailure(description: "wrong modes") }
}
