import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("files and folders to send")
struct FileSourceTests {
    private let scratch = ScratchFolder()

    private func entries(_ source: FileSource) throws -> [String] {
        let reader = try source.makeReader()
        var met: [String] = []
        while let header = try reader.nextEntry() {
            let path = header.path.map(\.shown).joined(separator: "/")
            if case .link(let target) = header.kind {
                met.append("\(path) -> \(String(decoding: target, as: UTF8.self))")
            } else {
                met.append(path)
            }
        }
        return met
    }

    @Test func `an empty path is rejected for that reason`() {
        let error = #expect(throws: StorageError.self) { _ = try FileSource(paths: [""]) }
        #expect(error?.description.contains("the path is empty") == true)
    }

    @Test("an item is called by the last component of its path, whatever the path looks like")
    func names() throws {
        try scratch.write("dir/sub/file", [1])
        let paths = ["dir/sub/file", "dir", "dir/", "dir//", "dir/.", "dir/sub/..", "dir/sub/../sub/"]
        let source = try FileSource(paths: paths.map { scratch($0) })
        #expect(source.offer.items.map(\.name.shown) == ["file", "dir", "dir", "dir", "dir", "dir", "sub"])
        #expect(throws: StorageError.self) { try FileSource(paths: ["/"]) }
        #expect(throws: StorageError.self) { try FileSource(paths: []) }
        let missing = #expect(throws: StorageError.self) { try FileSource(paths: [scratch("no\u{1b}[31m")]) }
        #expect(missing?.code == .notFound)
        #expect(missing?.description.contains("\u{1b}") == false)
    }

    @Test("a link that the person names is followed; those inside are left out, and told")
    func links() throws {
        try scratch.write("real/file", [1, 2])
        try scratch.write("tree/a", [1])
        try scratch.write("secret", [42])
        scratch.makeFolder("tree/sub")
        symlink(scratch("real/file"), scratch("named"))
        symlink("../secret", scratch("tree/out"))
        symlink(scratch("secret"), scratch("tree/absolute"))
        symlink("a", scratch("tree/inside"))
        symlink("../a", scratch("tree/sub/up"))
        symlink("nowhere", scratch("tree/dangling"))
        symlink("../../secret", scratch("tree/sub/out"))
        symlink("..", scratch("tree/loop"))
        let plain = try FileSource(paths: [scratch("named"), scratch("tree")])
        #expect(plain.offer.items[0].size == 2)
        #expect(try entries(plain) == ["named", "tree", "tree/a", "tree/sub"])
        #expect(plain.skippedCount == 7 && plain.skipped.count == 7)
        var options = FileSource.Options()
        options.links = true
        let linked = try FileSource(paths: [scratch("tree")], options: options)
        #expect(
            try entries(linked) == [
                "tree", "tree/a", "tree/dangling -> nowhere", "tree/inside -> a", "tree/sub", "tree/sub/up -> ../a",
            ])
        #expect(linked.skippedCount == 4)
    }

    @Test("sockets, FIFOs and devices are left out inside a folder, and rejected when named")
    func specials() throws {
        try scratch.write("tree/a", [1])
        mkfifo(scratch("tree/fifo"), 0o600)
        mknod(scratch("tree/socket"), S_IFSOCK | 0o600, 0)
        let source = try FileSource(paths: [scratch("tree")])
        #expect(try entries(source) == ["tree", "tree/a"])
        #expect(source.skippedCount == 2)
        for path in [scratch("tree/fifo"), scratch("tree/socket"), "/dev/null"] {
            let failure = #expect(throws: StorageError.self) { try FileSource(paths: [path]) }
            #expect(failure?.code == .rejected && failure?.description.contains("neither a file nor a folder") == true)
            // Said to programs, which run no commands.
            #expect(failure?.description.contains("nearshare send") == false)
        }
    }

    @Test("of a link that leads nowhere, the error names the target")
    func danglingLink() {
        #expect(symlink("/nowhere/to", scratch("link")) == 0)
        let failure = #expect(throws: StorageError.self) { try FileSource(paths: [scratch("link")]) }
        #expect(failure?.code == .notFound)
        #expect(failure?.description.contains("/link, a symbolic link to /nowhere/to: no such file") == true)
    }

    @Test("what is named twice, or with its folder, is sent once; a link under another name is not")
    func repeatedPaths() throws {
        try scratch.write("tree/a", [1])
        try scratch.write("b", [1])
        #expect(symlink(scratch("b"), scratch("link")) == 0)
        func names(_ paths: [LocalPath]) -> [String] { paths.map { String($0.text.dropFirst(scratch.path.count + 1)) } }
        let all = ["tree/a", "b", "tree/../b", "link", "none", "none", "tree"].map { LocalPath(scratch($0)) }
        let (first, repeated) = LocalPath.separatingRepeated(all, areFoldersWhole: true)
        #expect(names(first) == ["b", "link", "none", "none", "tree"])
        #expect(names(repeated) == ["tree/a", "tree/../b"])
    }

    @Test("what is named beside its folder is sent by its own path where the folder may be sent without it")
    func pathsBesideTheirFolder() throws {
        try scratch.write("project/build/app.apk", [1])
        mkfifo(scratch("project/fifo"), 0o600)
        let all = ["project", "project/build/app.apk", "project/./build/app.apk"].map { LocalPath(scratch($0)) }
        let (first, repeated) = LocalPath.separatingRepeated(all, areFoldersWhole: false)
        #expect(first == Array(all[..<2]) && repeated == [all[2]])
        var options = FileSource.Options()
        let isAdded = options.exclusions.add("build/")
        #expect(isAdded)
        #expect(try entries(FileSource(localPaths: first, options: options)) == ["project", "app.apk"])
        // A folder is sent without it: naming it is an error, which is reported.
        let special = [all[0], LocalPath(scratch("project/fifo"))]
        #expect(LocalPath.separatingRepeated(special, areFoldersWhole: true).first == special)
    }

    @Test("files whose content the kernel makes are rejected: their size would be told as 0")
    func generatedFiles() {
        for path in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] where access(path, R_OK) == 0 {
            #expect {
                _ = try FileSource(paths: [path])
            } throws: {
                ($0 as? StorageError)?.description.hasPrefix("the size of \(path) is not known before it is read; ") == true
            }
        }
    }

    @Test("permissions are told only when they are to be kept")
    func permissions() throws {
        try scratch.write("tree/run", [1])
        chmod(scratch("tree/run"), 0o4755)
        for keeps in [true, false] {
            var options = FileSource.Options()
            options.keepModes = keeps
            let reader = try FileSource(paths: [scratch("tree")], options: options).makeReader()
            #expect(try reader.nextEntry()?.permissions == (keeps ? 0o700 : nil))
            #expect(try reader.nextEntry()?.permissions == (keeps ? 0o755 : nil))
        }
    }

    @Test("times are told in nanoseconds, also those before 1970")
    func times() throws {
        for time in [0, 1_234_567_890_123_456_789, -1_500_000_001] as [Int64] {
            try scratch.write("file", [1], modified: time)
            #expect(try FileSource(paths: [scratch("file")]).makeReader().nextEntry()?.modified == time)
        }
    }

    @Test("types come from the content, for as many items as it is worth")
    func types() throws {
        try scratch.write("photo", Array("GIF89a".utf8) + bytes(100))
        let few = try FileSource(paths: [scratch("photo")])
        #expect(few.offer.items[0].mediaType.text == "image/gif")
        let many = try FileSource(paths: [String](repeating: scratch("photo"), count: 33))
        #expect(many.offer.items[0].mediaType == .unknown)
    }

    @Test("only so many items are described, and all are counted")
    func manyItems() throws {
        try scratch.write("f", [1, 2])
        let source = try FileSource(paths: [String](repeating: scratch("f"), count: 200))
        #expect(source.offer.items.count == Offer.maximumDescribedItems)
        #expect(source.offer.itemCount == 200 && source.offer.totalSize == 400)
        #expect(try entries(source).count == 200)
    }

    enum Change: String, CaseIterable, Sendable {
        case grown, shrunk, rewritten, becameFolder, removed
        /// Bytes that were read already have changed, and others were appended.
        case rewrittenAndGrown
        /// Content and modification time are what they were.
        case touched
    }

    @Test("A10: a file that changed after the offer is not sent", arguments: Change.allCases)
    func changedBefore(change: Change) throws {
        for inFolder in [true, false] {
            try scratch.write("t/f", bytes(100), modified: 1)
            let source = try FileSource(paths: [scratch(inFolder ? "t" : "t/f")])
            switch change {
            case .rewrittenAndGrown: try scratch.write("t/f", bytes(101, seed: 9), modified: 1)
            case .grown where inFolder: try scratch.write("t/f", bytes(101), modified: 1)
            // It is sent as it was offered.
            case .grown: continue
            case .shrunk: try scratch.write("t/f", bytes(99), modified: 1)
            // The change cannot be detected, and the receiver gets the current content.
            case .rewritten, .touched: continue
            case .becameFolder:
                unlinkFile(scratch("t/f"))
                scratch.makeFolder("t/f")
            case .removed: unlinkFile(scratch("t/f"))
            }
            let failure = #expect(throws: StorageError.self) { try entries(source) }
            #expect(failure?.code == (change == .removed && !inFolder ? .notFound : .changed))
            rmdir(scratch("t/f"))
        }
    }

    @Test(arguments: [true, false])
    func `A10: a file that has only grown since the offer is sent as it was offered, and no rewritten one`(withdraws: Bool)
        throws
    {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 600, alignment: 1)
        defer { buffer.deallocate() }
        for seed: UInt64 in [1, 9] {
            for name in ["t/a", "f"] { try scratch.write(name, bytes(100)) }
            let source = try FileSource(paths: [scratch("t"), scratch("f")])
            var offered: [EntryHeader] = []
            try source.forEachEntry { offered.append($0) }
            for name in ["t/a", "f"] { try scratch.write(name, bytes(150, seed: seed)) }
            let reader = try source.makeReader()
            if withdraws { reader.allowWithdrawal() }
            var (sent, withdrawn): ([EntryHeader], [String]) = ([], [])
            let result = Result {
                while let header = try reader.nextEntry() {
                    sent.append(header)
                    let content = try reader.read(into: buffer)
                    if reader.withdrawal != nil { withdrawn.append(header.path.map(\.shown).joined(separator: "/")) }
                    #expect(content == 0 || Array(buffer[..<content]) == bytes(100))
                }
            }
            let isWhole = if case .success = result { true } else { false }
            #expect(isWhole == (seed == 1 || withdraws))
            #expect(sent == (seed == 1 || withdraws ? offered : Array(offered.prefix(1))))
            #expect(withdrawn == (seed == 9 && withdraws ? ["t/a", "f"] : []))
        }
    }

    @Test("A10, R12: a file that changes while it is sent: grown is cut, mixtures are told", arguments: Change.allCases)
    func changedWhile(change: Change) throws {
        try scratch.write("f", bytes(1000), modified: 1)
        let reader = try FileSource(paths: [scratch("f")]).makeReader()
        #expect(try reader.nextEntry()?.size == 1000)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 600, alignment: 1)
        defer { buffer.deallocate() }
        #expect(try reader.read(into: buffer) == 600)
        switch change {
        case .grown: try scratch.write("f", bytes(5000))
        case .shrunk: try scratch.write("f", bytes(700))
        case .rewritten: try scratch.write("f", bytes(1000, seed: 9))
        case .rewrittenAndGrown: try scratch.write("f", [bytes(1000)[0] ^ 1] + bytes(5000).dropFirst())
        case .touched: try rewrite("f", bytes(1000), modified: 1)
        case .becameFolder, .removed: unlinkFile(scratch("f"))
        }
        func rest() throws -> Int {
            var total = 0
            while true {
                let count = try reader.read(into: buffer)
                if count == 0 { return total }
                total += count
            }
        }
        switch change {
        // An open file stays readable, whatever happens to its name.
        case .grown, .touched, .becameFolder, .removed: #expect(try rest() == 400)
        case .shrunk, .rewritten, .rewrittenAndGrown:
            let failure = #expect(throws: StorageError.self) { try rest() }
            #expect(failure?.code == .changed)
        }
    }

    /// Writes a file until the clock of the kernel has moved on: its steps are the resolution of change times.
    private func rewrite(_ name: String, _ content: [UInt8], modified: Int64) throws {
        let file = try FileDescriptor.openForReading(path: scratch(name))
        let version = FileVersion(try file.status())
        repeat { try scratch.write(name, content, modified: modified) } while try FileVersion(file.status()) == version
    }

    @Test("A10: a change that hides its time is told, also where the transfer has resumed behind it")
    func hiddenChange() throws {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 600, alignment: 1)
        defer { buffer.deallocate() }
        for (start, isTold) in [(0 as UInt64, true), (100, true), (500, false)] {
            try scratch.write("f", bytes(1000), modified: 1)
            let reader = try FileSource(paths: [scratch("f")]).makeReader()
            _ = try reader.nextEntry()
            try reader.seek(to: start)
            #expect(try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<300])) == 300)
            var content = bytes(1000)
            content[200] ^= 1
            try rewrite("f", content, modified: 1)
            let rest = Result { try reader.read(into: buffer) + reader.read(into: buffer) }
            #expect((try? rest.get()) == (isTold ? nil : 1000 - 300 - Int(start)))
        }
    }

    @Test("a checksum depends on the bytes and their order, and not on how they are divided")
    func checksum() {
        func checksum(_ parts: [UInt8]...) -> ContentChecksum {
            var checksum = ContentChecksum()
            for part in parts { part.withUnsafeBytes { checksum.update($0) } }
            return checksum
        }
        let all = bytes(1000)
        for size in [0, 1, 63, 64, 65, 128, 999] {
            #expect(checksum(Array(all[..<size]), Array(all[size...])) == checksum(all))
        }
        #expect(checksum(Array(all[64..<128]), Array(all[..<64])) != checksum(Array(all[..<128])))
        for index in [0, 63, 64, 500, 999] {
            var other = all
            other[index] ^= 1
            #expect(checksum(other) != checksum(all))
        }
        #expect(checksum(all + [0]) != checksum(all) && checksum([]) != checksum([0]))
    }

    @Test("a folder that has more or less in it than was offered is not sent")
    func changedFolder() throws {
        for content in [[UInt8](), [1]] {
            try scratch.write("t/a", [1])
            let source = try FileSource(paths: [scratch("t")])
            try scratch.write("t/new", content)
            let failure = #expect(throws: StorageError.self) { try entries(source) }
            #expect(failure?.code == .changed)
            unlinkFile(scratch("t/new"))
            unlinkFile(scratch("t/a"))
            #expect(throws: StorageError.self) { try entries(source) }
        }
    }

    @Test("an unreadable file is reported before the peer is asked", .enabled(if: isRoot, "needs to change its user"))
    func unreadable() throws {
        try scratch.write("t/public", [1])
        try scratch.write("t/private", [1])
        chmod(scratch("."), 0o755)
        chmod(scratch("t"), 0o755)
        chmod(scratch("t/public"), 0o644)
        // The user of a thread, set past glibc, which would set all threads' at once.
        try withPrivateMounts { [scratch] in
            try becomeNobody()
            #expect(throws: Never.self) { try FileSource(paths: [scratch("t/public")]) }
            for path in [scratch("t"), scratch("t/private")] {
                let failure = #expect(throws: StorageError.self) { try FileSource(paths: [path]) }
                #expect(failure?.code == .noPermission)
                #expect(failure?.description.contains("t/private") == true)
            }
            var options = FileSource.Options()
            options.skipsUnreadable = true
            let source = try FileSource(paths: [scratch("t"), scratch("t/private"), scratch("gone")], options: options)
            // Both passes skip the same.
            #expect(try entries(source) == ["t", "t/public"])
            #expect(source.offer.entryCount == 2 && source.paths == [scratch("t")])
            #expect(source.unreadableCount == 3 && source.skipped.allSatisfy { $0.contains("private") || $0.contains("gone") })
            // Nothing is left to send.
            #expect(throws: StorageError.self) { try FileSource(paths: [scratch("t/private")], options: options) }
        }
    }

    @Test("a state directory that the process uses is never sent, whatever path leads to it")
    func stateDirectory() throws {
        try scratch.write("home/note", [1])
        _ = try StateDirectory(path: scratch("home/state/nearshare")).identity()
        symlink(scratch("home/state"), scratch("alias"))
        let source = try FileSource(paths: [scratch("home")])
        #expect(try entries(source) == ["home", "home/note", "home/state"])
        #expect(source.skippedCount == 1 && source.skipped[0].contains("own keys"))
        for path in ["home/state/nearshare", "home/state/nearshare/identity.key", "alias/nearshare/../nearshare/identity.key"] {
            let failure = #expect(throws: StorageError.self) { try FileSource(paths: [scratch(path)]) }
            #expect(failure?.code == .rejected, "\(path)")
        }
    }

    @Test("a pattern excludes a file under whatever name it is offered")
    func excludedUnderAnotherName() throws {
        try scratch.write("a.o", [1])
        try scratch.write("b.c", [1])
        var options = FileSource.Options()
        let isAdded = options.exclusions.add("*.o")
        #expect(isAdded)
        let name = ClaimedFileName("b.o")
        let failure = #expect(throws: StorageError.self) {
            try FileSource(paths: [scratch("a.o")], named: name, options: options)
        }
        #expect(failure?.description.contains("all is excluded") == true)
        #expect(try entries(FileSource(paths: [scratch("b.c")], named: name, options: options)) == ["b.o"])
        let none = #expect(throws: StorageError.self) { try FileSource(paths: []) }
        #expect(none?.description.contains("no paths were given") == true)
    }

    @Test("sizes of sparse files that exceed 64 bits together do not trap")
    func hugeSparseFiles() throws {
        var size: UInt64 = 0
        for name in ["a", "b", "c"] {
            try scratch.write(name, [])
            // Not every file system has files of this size.
            if truncate(scratch(name), Int.max) == 0 { size = size.addingClamped(UInt64(Int.max)) }
        }
        let source = try FileSource(paths: ["a", "b", "c"].map { scratch($0) })
        #expect(source.offer.totalSize == size)
    }

    @Test("names that are not UTF-8 are sent as they are")
    func rawNames() throws {
        scratch.makeFolder("t")
        let directory = try FileDescriptor.openDirectory(path: scratch("t"))
        let raw: [CChar] = [CChar(bitPattern: 0xff), 0x61, 0]
        close(openat(directory.rawValue, raw, O_WRONLY | O_CREAT, 0o600))
        let reader = try FileSource(paths: [scratch("t")]).makeReader()
        _ = try reader.nextEntry()
        #expect(try reader.nextEntry()?.path.last?.bytes == [0xff, 0x61])
    }

    @Test("folders deeper than can be sent are an error, or skipped and named, unless they are excluded")
    func deep() throws {
        var path = "t"
        for _ in 2..<EntryHeader.maximumDepth { path += "/d" }
        try scratch.write(path + "/shallow", [1])
        try scratch.write(path + "/deep/f", [1])
        let failure = #expect(throws: StorageError.self) { try FileSource(paths: [scratch("t")]) }
        #expect(failure?.code == .rejected)
        var options = FileSource.Options()
        options.skipsUnreadable = true
        let skipping = try FileSource(paths: [scratch("t")], options: options)
        #expect(skipping.skippedCount == 1 && skipping.skipped[0].contains("/deep/f is too deep"), "\(skipping.skipped)")
        #expect(skipping.offer.entryCount == UInt64(EntryHeader.maximumDepth) + 1)
        options = FileSource.Options()
        let isAdded = options.exclusions.add("deep")
        #expect(isAdded)
        #expect(try FileSource(paths: [scratch("t")], options: options).offer.entryCount == UInt64(EntryHeader.maximumDepth))
    }

    @Test("a link whose target is not UTF-8 is skipped for that reason")
    func rawLink() throws {
        scratch.makeFolder("t")
        try scratch.write("t/f", [1])
        let target: [CChar] = [CChar(bitPattern: 0xff), 0]
        #expect(symlink(target, scratch("t/link")) == 0)
        var options = FileSource.Options()
        options.links = true
        let source = try FileSource(paths: [scratch("t")], options: options)
        #expect(source.skippedCount == 1 && source.skipped[0].hasSuffix("whose target is not UTF-8"), "\(source.skipped)")
    }

    @Test("R13: a folder of very many files is walked in little memory")
    func manyFiles() throws {
        scratch.makeFolder("t")
        let directory = try FileDescriptor.openDirectory(path: scratch("t"))
        for number in 0..<20_000 { _ = try directory.createFile("a file with a longer name, number \(number)") }
        let names = try DirectoryListing(of: directory)
        #expect(names.count == 20_000)
        // One block of names, not an object for each.
        #expect(names.byteCount < 20_000 * 48)
        let source = try FileSource(paths: [scratch("t")])
        let reader = try source.makeReader()
        var count = 0
        var last = ""
        while let header = try reader.nextEntry() {
            count += 1
            let name = header.path.last!.shown
            if count > 2 { #expect(last.utf8.lexicographicallyPrecedes(name.utf8)) }
            last = name
        }
        #expect(count == 20_001)
    }
}

@Suite("text to send")
struct TextSourceTests {
    @Test("A7: text is one item of its own kind, at most 64 KiB")
    func text() throws {
        let source = try TextSource("héllo")
        #expect(source.offer.items.map(\.kind) == [.text])
        #expect(source.offer.totalSize == 6)
        let reader = try source.makeReader()
        #expect(try reader.nextEntry()?.size == 6)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4, alignment: 1)
        defer { buffer.deallocate() }
        #expect(try reader.read(into: buffer) == 4)
        #expect(try reader.read(into: buffer) == 2)
        #expect(try reader.read(into: buffer) == 0)
        #expect(try reader.nextEntry() == nil)
        #expect(throws: StorageError.self) { try TextSource("") }
        #expect(throws: StorageError.self) { try TextSource(String(repeating: "x", count: 65_537)) }
        #expect(throws: Never.self) { try TextSource(String(repeating: "x", count: 65_536)) }
    }
}
