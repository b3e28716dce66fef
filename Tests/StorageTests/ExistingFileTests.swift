import Glibc
import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("items whose names exist") struct ExistingFileTests {
    /// An inbox with the folder `trip` in it, sent once, and the source that can be changed.
    private struct Rig {
        let inbox: InboxRig
        var scratch: ScratchFolder { inbox.scratch }

        init(_ policy: ExistingFilePolicy) throws {
            var limits = InboxRig.limits
            limits.existing = policy
            inbox = try InboxRig(limits: limits)
            for (name, size) in [("a", 10), ("b", 2000), ("sub/c", 30), ("sub/empty", 0)] {
                try scratch.write("source/trip/\(name)", bytes(size, seed: UInt64(size)), modified: 1_000_000_000_000_000_000)
            }
            symlink("a", scratch("source/trip/link"))
            try inbox.receive(try source())
        }

        func source() throws -> FileSource {
            var options = FileSource.Options()
            options.links = true
            return try FileSource(paths: [scratch("source/trip")], options: options, detector: InboxRig.detector)
        }

        func sink(mayCompare: @escaping (String) -> Bool = { _ in true }) throws -> any ResourceSink {
            try inbox.inbox.makeSink(
                for: try source().offer, from: anna, resumeKey: someKey, mayCompare: mayCompare, clock: inbox.clock.read)
        }

        /// Sends the source again without a comparison.
        func resend() throws -> DeliveredItem {
            try #require(try inbox.receive(try source()).first)
        }

        /// Sends the source again without the files that a comparison finds in the inbox.
        func compareAndSend() throws -> (item: DeliveredItem, counts: ComparedFiles?, byteCount: Int) {
            let sink = try sink()
            let result = try TransferRig(comparesFiles: true).move(try source(), to: sink)
            return (try #require(result.delivered?.first), result.compared, result.streamByteCount)
        }

        func inode(_ name: String) throws -> ino_t { try scratch.status("inbox/\(name)").st_ino }
    }

    private func entries(_ source: FileSource) throws -> [EntryHeader] {
        var headers: [EntryHeader] = []
        try source.forEachEntry { headers.append($0) }
        return headers
    }

    @Test func `an item that is there already is not kept twice`() throws {
        let rig = try Rig(.skipIdentical)
        let before = try rig.inode("trip/b")
        for item in [try rig.resend(), try rig.compareAndSend().item] {
            #expect(item.isPresent && item.path == rig.scratch("inbox/trip"))
        }
        #expect(rig.scratch.tree("inbox").filter { $0.hasPrefix("d") } == ["d trip", "d trip/sub"])
        #expect(try rig.inode("trip/b") == before)
        #expect(try rig.scratch.status("inbox/trip/b").st_nlink == 1)
    }

    @Test func `everything is kept without a policy`() throws {
        let rig = try Rig(.keepBoth)
        #expect(try !rig.sink().comparesFiles)
        let item = try rig.resend()
        #expect(!item.isPresent && item.path == rig.scratch("inbox/trip (2)"))
    }

    @Test func `any difference in content, kind or target makes another item`() throws {
        for change in ["a", "link", "sub", "more"] {
            let rig = try Rig(.skipIdentical)
            let path = rig.scratch("source/trip/\(change)")
            switch change {
            case "a": try rig.scratch.write("source/trip/a", bytes(10, seed: 99))
            case "link":
                unlink(path)
                symlink("b", path)
            case "sub":
                unlink("\(path)/c")
                unlink("\(path)/empty")
                rmdir(path)
                try rig.scratch.write("source/trip/sub", [1])
            default: try rig.scratch.write("source/trip/more", [])
            }
            let item = try rig.compareAndSend().item
            #expect(!item.isPresent && item.path == rig.scratch("inbox/trip (2)"), "\(change)")
            #expect(item.isMergeable)
            #expect(item.changedNames.listed.map(\.stored.shown) == ["\"trip (2)\""])
            // Copies, not links: two delivered files must not change together.
            #expect(try rig.scratch.status("inbox/trip/b").st_nlink == 1)
            #expect(try rig.scratch.read("inbox/trip (2)/b") == rig.scratch.read("source/trip/b"))
        }
    }

    @Test func `what is present is not sent, whatever is merged`() throws {
        for policy in [ExistingFilePolicy.skipIdentical, .update, .overwrite] {
            let rig = try Rig(policy)
            try rig.scratch.write("source/trip/a", bytes(11, seed: 5))
            let whole = try TransferRig.streamByteCount(of: try rig.source())
            let result = try rig.compareAndSend()
            #expect(result.counts == ComparedFiles(fileCount: 4, presentCount: 3, newerCount: 0), "\(policy)")
            #expect(result.byteCount < whole - 1500)
            let folder = policy == .skipIdentical ? "trip (2)" : "trip"
            #expect(try rig.scratch.read("inbox/\(folder)/a") == bytes(11, seed: 5))
            #expect(try rig.scratch.read("inbox/\(folder)/b") == bytes(2000, seed: 2000))
            #expect(result.item.replacedCount == (policy == .skipIdentical ? 0 : 1))
            #expect(rig.inbox.inbox.pendingPaths.isEmpty)
        }
    }

    @Test(
        "files whose names became equal are found under their numbers when they are sent again",
        arguments: [ExistingFilePolicy.skipIdentical, .update, .overwrite])
    func equalNames(policy: ExistingFilePolicy) throws {
        let rig = try Rig(policy)
        for (name, size) in [("b ", 400), ("b  ", 500), ("x\u{1}", 7), ("x\u{2}", 7), ("x_", 8)] {
            try rig.scratch.write("source/trip/\(name)", bytes(size, seed: UInt64(size)))
        }
        _ = try rig.compareAndSend()
        for _ in 0..<2 {
            let again = try rig.compareAndSend()
            #expect(again.item.isPresent)
            #expect(again.counts == ComparedFiles(fileCount: 9, presentCount: 9, newerCount: 0))
        }
        // A changed one is sent alone.
        try rig.scratch.write("source/trip/b ", bytes(401))
        #expect(try rig.compareAndSend().counts?.sentCount == 1)
    }

    @Test func `only older files are updated, also those that were received`() throws {
        for compares in [false, true] {
            let rig = try Rig(.update)
            try rig.scratch.write("source/trip/a", bytes(12, seed: 7), modified: 2_000_000_000_000_000_000)
            try rig.scratch.write("source/trip/b", bytes(2000, seed: 8), modified: 1_500_000_000_000_000_000)
            try rig.scratch.write("inbox/trip/b", [1, 2], modified: 1_600_000_000_000_000_000)
            let item = compares ? try rig.compareAndSend().item : try rig.resend()
            #expect(try rig.scratch.read("inbox/trip/a") == bytes(12, seed: 7))
            #expect(try rig.scratch.read("inbox/trip/b") == [1, 2])
            #expect(item.replacedCount == 1 && item.newerCount == (compares ? 0 : 1))
        }
    }

    @Test func `a transfer that was cut is resumed and merged`() throws {
        let rig = try Rig(.overwrite)
        try rig.scratch.write("source/trip/b", bytes(2000, seed: 8))
        for cut in [700, 1500] {
            let sink = try rig.sink()
            _ = try TransferRig(cut: cut, comparesFiles: true).move(try rig.source(), to: sink)
            sink.suspend()
        }
        let result = try rig.compareAndSend()
        #expect(result.item.replacedCount == 1)
        #expect(try rig.scratch.read("inbox/trip/b") == bytes(2000, seed: 8))
        #expect(try rig.scratch.read("inbox/trip/a") == bytes(10, seed: 10))
        #expect(try rig.scratch.status("inbox/trip/a").st_nlink == 1)
    }

    @Test func `an item that was kept beside an earlier one is not kept a third time`() throws {
        let rig = try Rig(.skipIdentical)
        try rig.scratch.write("source/trip/a", bytes(10, seed: 77))
        #expect(try rig.resend().path.hasSuffix("/trip (2)"))
        // Each version is found again, and only the newest one needs no content.
        for _ in 0..<2 {
            let again = try rig.compareAndSend()
            #expect(again.item.isPresent && again.item.path.hasSuffix("/trip (2)"))
            #expect(again.counts?.sentCount == 0)
        }
        try rig.scratch.write("source/trip/a", bytes(10, seed: 10), modified: 1_000_000_000_000_000_000)
        let first = try rig.compareAndSend()
        #expect(first.item.isPresent && first.item.path.hasSuffix("/trip"))
        try rig.scratch.write("source/trip/a", bytes(10, seed: 78))
        #expect(try rig.compareAndSend().item.path.hasSuffix("/trip (3)"))
        #expect(rig.scratch.tree("inbox").filter { !$0.contains("/") }.count == 3)
    }

    @Test func `limits count what is missing`() throws {
        let rig = try Rig(.update)
        var limits = InboxRig.limits
        (limits.existing, limits.maximumSize) = (.update, 3 * Offer.diskByteCountPerEntry + 1000)
        let small = try InboxRig(scratch: rig.scratch, limits: limits)
        try rig.scratch.write("source/trip/a", bytes(10, seed: 3))
        let admitted = Monitor<[UInt64]>([])
        func send() throws {
            let sink = try small.inbox.makeSink(
                for: try rig.source().offer, from: anna, resumeKey: someKey,
                reserveQuota: { (byteCount) throws(StorageError) in admitted.withLock { $0.append(byteCount) } },
                clock: small.clock.read)
            try TransferRig(comparesFiles: true).move(try rig.source(), to: sink)
        }
        try send()
        // The two folders, the link and the changed file.
        #expect(admitted.withLock { $0 } == [4 * Offer.diskByteCountPerEntry + 10])
        #expect(try rig.scratch.read("inbox/trip/a") == bytes(10, seed: 3))
        try rig.scratch.write("source/trip/b", bytes(2000, seed: 4))
        #expect(throws: StorageError.self) { try send() }
        #expect(try rig.scratch.read("inbox/trip/b") == bytes(2000, seed: 2000))
    }

    @Test("Q7: space is admitted before content also where no file can be compared", arguments: [true, false])
    func admission(isAdmitted: Bool) throws {
        let rig = try Rig(.update)
        let admitted = Monitor<[UInt64]>([])
        // A foreign peer lists no files, and its driver does not compare.
        let sink = try rig.inbox.inbox.makeSink(
            for: try rig.source().offer, from: anna, resumeKey: someKey,
            reserveQuota: { (byteCount) throws(StorageError) in
                admitted.withLock { $0.append(byteCount) }
                if !isAdmitted { throw StorageError(.noSpace, "the peer's share is used up") }
            }, clock: rig.inbox.clock.read)
        _ = try sink.resumePoint()
        if isAdmitted {
            try sink.resume(at: .start)
        } else {
            #expect(throws: StorageError.self) { try sink.resume(at: .start) }
        }
        #expect(admitted.withLock { $0.count } == 1)
    }

    @Test func `hashing of a large file ends when it is cancelled`() async throws {
        let rig = try Rig(.update)
        // Hashing so much takes longer than any test.
        let size = UInt64(1) << 42
        for name in ["source/trip/large", "inbox/trip/large"] {
            try rig.scratch.write(name, [])
            try #require(truncate(rig.scratch(name), off_t(size)) == 0)
        }
        var limits = InboxRig.limits
        (limits.existing, limits.maximumSize) = (.update, 1 << 50)
        let large = try InboxRig(scratch: rig.scratch, limits: limits)
        let source = try rig.source()
        let headers = try entries(source)
        let sink = try large.inbox.makeSink(for: source.offer, from: anna, resumeKey: someKey, clock: large.clock.read)
        _ = try sink.resumePoint()
        let number = try #require(headers.firstIndex { $0.path.last == ClaimedFileName("large") })
        let presence = try sink.compare(headers[number], encodedHeader: headers[number].encoded, number: UInt64(number))
        #expect(presence == .candidate)
        let (hashing, reading) = (Box(sink), Box(try source.makeReader()))
        async let isHashed = BlockingThread.run {
            (try? hashing.value.compareDigest([UInt8](repeating: 0, count: 32), number: UInt64(number))) != nil
        }
        async let isRead = BlockingThread.run {
            var header: EntryHeader?
            repeat { header = (try? reading.value.nextEntry()) ?? nil } while header != nil && header?.size != size
            guard header != nil else { return false }
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
            defer { buffer.deallocate() }
            while let count = try? reading.value.read(into: buffer) { if count == 0 { return true } }
            return false
        }
        hashing.value.cancel()
        reading.value.cancel()
        let ends = try await [isHashed, isRead]
        #expect(ends == [false, false])
    }

    private struct Box<Value>: @unchecked Sendable {
        let value: Value
        init(_ value: Value) { self.value = value }
    }

    // MARK: Attacks

    @Test("P15: a text replaces no file, and its name is not compared", arguments: [ExistingFilePolicy.update, .overwrite])
    func text(policy: ExistingFilePolicy) throws {
        var limits = InboxRig.limits
        limits.existing = policy
        let rig = try InboxRig(limits: limits)
        try rig.scratch.write("inbox/thesis.txt", bytes(8))
        let file = InMemorySource([.file("thesis.txt", bytes(8, seed: 3), modified: .max)])
        var offer = file.offer
        offer.items[0].kind = .text
        let source = InMemorySource(file.entries, offer: offer)
        #expect(try !rig.sink(source.offer).comparesFiles)
        for number in 2...3 {
            let item = try #require(try rig.receive(source).first)
            #expect(item.path == rig.scratch("inbox/thesis (\(number)).txt"))
        }
        #expect(try rig.scratch.read("inbox/thesis.txt") == bytes(8))
    }

    @Test("X5: a time in the future does not win against later versions")
    func future() throws {
        let rig = try Rig(.update)
        try rig.scratch.write("source/trip/a", bytes(12, seed: 7), modified: .max)
        #expect(try rig.compareAndSend().item.replacedCount == 1)
        try rig.scratch.write("source/trip/a", bytes(13, seed: 8))
        #expect(try rig.compareAndSend().item.replacedCount == 1)
        #expect(try rig.scratch.read("inbox/trip/a") == bytes(13, seed: 8))
    }

    @Test("A12: what was kept for another list of the same offer is not resumed")
    func otherList() throws {
        let rig = try InboxRig()
        let source = InMemorySource([
            .folder(["docs"], item: 0), .file(in: ["docs", "evil.desktop"], bytes(400), item: 0),
            .file(in: ["docs", "b"], bytes(2000, seed: 2), item: 0),
        ])
        func sink(_ listed: [EntryHeader]) throws -> any ResourceSink {
            try rig.inbox.makeSink(
                for: source.offer, listed: listed, from: anna, resumeKey: someKey, clock: rig.clock.read)
        }
        let listed = source.entries.map(\.header.listed)
        // Each try ends before the next one begins.
        do {
            let first = try sink([])
            _ = try TransferRig(recordSize: 50, cut: 1000).move(source, to: first)
            first.suspend()
        }
        #expect(try sink([]).resumePoint() != .start)
        let third = try sink(listed)
        #expect(try third.resumePoint() == .start)
        #expect(try TransferRig(recordSize: 50).move(source, to: third).resumed == 0)
    }

    @Test("P15: a file is replaced by a file only, and nothing through a link")
    func kinds() throws {
        let rig = try Rig(.overwrite)
        let outside = try rig.scratch.write("outside", [9])
        let inbox = rig.scratch("inbox/trip")
        unlink("\(inbox)/a")
        symlink(outside, "\(inbox)/a")
        unlink("\(inbox)/b")
        mkdir("\(inbox)/b", 0o700)
        renameFile("\(inbox)/sub", rig.scratch("elsewhere"))
        symlink(rig.scratch("elsewhere"), "\(inbox)/sub")
        for _ in 0..<2 { _ = try rig.compareAndSend() }
        #expect(try rig.scratch.read("outside") == [9])
        #expect(try rig.scratch.status("inbox/trip/b").isFolder)
        #expect(try rig.scratch.read("inbox/trip/a (2)") == bytes(10, seed: 10))
        #expect(try rig.scratch.read("inbox/trip/b (2)") == bytes(2000, seed: 2000))
        #expect(try rig.scratch.read("inbox/trip/sub (2)/c") == bytes(30, seed: 30))
        #expect(rig.scratch.tree("elsewhere") == ["f c", "f empty"])
    }

    @Test(
        "what cannot be merged is kept once, however often the same is sent",
        arguments: [ExistingFilePolicy.update, .overwrite])
    func keptOnce(policy: ExistingFilePolicy) throws {
        let rig = try Rig(policy)
        let inbox = rig.scratch("inbox/trip")
        unlink("\(inbox)/b")
        mkdir("\(inbox)/b", 0o700)
        unlink("\(inbox)/link")
        symlink("sub", "\(inbox)/link")
        renameFile("\(inbox)/sub", rig.scratch("elsewhere"))
        try rig.scratch.write("inbox/trip/sub", [1])
        // An item as a whole, of another kind.
        try rig.scratch.write("single/trip", bytes(50, seed: 50))
        func sendSingle() throws {
            try rig.inbox.receive(try FileSource(paths: [rig.scratch("single/trip")], detector: InboxRig.detector))
        }
        for _ in 0..<3 {
            _ = try rig.compareAndSend()
            _ = try rig.resend()
            try sendSingle()
        }
        #expect(
            rig.scratch.tree("inbox").filter { $0.contains("(") }.sorted() == [
                "d trip/sub (2)", "f trip (2)", "f trip/b (2)", "f trip/sub (2)/c", "f trip/sub (2)/empty",
                "l trip/link (2)",
            ])
        // Both ends are told under which names, and nothing of it is sent again.
        let again = try rig.compareAndSend()
        #expect(again.item.isPresent && !again.item.isMerged)
        #expect(
            again.item.changedNames.listed.map { String(decoding: $0.stored.bytes, as: UTF8.self) }.sorted() == [
                "b (2)", "link (2)", "sub (2)",
            ])
        #expect(again.counts?.sentCount == 0 && again.counts?.presentCount == 4)
        // A changed one is kept beside both.
        try rig.scratch.write("source/trip/b", bytes(2000, seed: 3))
        try rig.scratch.write("single/trip", bytes(50, seed: 51))
        for _ in 0..<2 {
            _ = try rig.compareAndSend()
            try sendSingle()
        }
        #expect(rig.scratch.tree("inbox").filter { $0.contains("(3)") }.sorted() == ["f trip (3)", "f trip/b (3)"])
        #expect(!rig.scratch.tree("inbox").contains { $0.contains("(4)") })
    }

    @Test("P15: a file that changes after the comparison is not taken for what was sent")
    func changedMeanwhile() throws {
        let rig = try Rig(.skipIdentical)
        let source = try rig.source()
        let headers = try entries(source)
        let sink = try rig.sink()
        _ = try sink.resumePoint()
        let number = try #require(headers.firstIndex { $0.path.last == ClaimedFileName("b") })
        let encoded = headers[number].encoded
        #expect(try sink.compare(headers[number], encodedHeader: encoded, number: UInt64(number)) == .candidate)
        var digest = FileDigest(encodedHeader: encoded)
        bytes(2000, seed: 2000).withUnsafeBytes { digest.update($0) }
        #expect(try sink.compareDigest(digest.finalize(), number: UInt64(number)) == .identical)
        try rig.scratch.write("inbox/trip/b", bytes(2000, seed: 3))
        try sink.resume(at: .start)
        try sink.begin(headers[0], at: 0, entriesDigest: [UInt8](repeating: 1, count: 32))
        try sink.endEntry()
        #expect(throws: StorageError.self) {
            try sink.keepPresent(headers[number], number: UInt64(number), entriesDigest: [UInt8](repeating: 1, count: 32))
        }
        sink.discard()
    }

    @Test("X5: only items of the sender are compared, each file once, and nothing outside the inbox")
    func oracle() throws {
        let rig = try Rig(.skipIdentical)
        #expect(try !rig.sink(mayCompare: { _ in false }).comparesFiles)
        #expect(try rig.sink(mayCompare: { $0 == rig.scratch("inbox/trip") }).comparesFiles)
        let name = { ClaimedFileName($0)! }
        func file(_ path: [String], size: UInt64) -> EntryHeader {
            EntryHeader(item: 0, kind: .file, path: path.map(name), size: size, modified: nil, permissions: nil)
        }
        mkfifo(rig.scratch("inbox/trip/fifo"), 0o600)
        try rig.scratch.write("inbox/secret", [1])
        try rig.scratch.write("outside", [1])
        symlink(rig.scratch("outside"), rig.scratch("inbox/trip/out"))
        let sink = try rig.sink()
        func presence(_ path: [String], size: UInt64, _ number: UInt64) throws -> FilePresence {
            let header = file(path, size: size)
            return try sink.compare(header, encodedHeader: header.encoded, number: number)
        }
        #expect(try presence(["secret"], size: 1, 0) == .absent)
        #expect(try presence(["trip", "..", "secret"], size: 1, 1) == .absent)
        #expect(try presence(["..", "outside"], size: 1, 2) == .absent)
        #expect(try presence(["trip", "out"], size: 1, 3) == .absent)
        #expect(try presence(["trip", "fifo"], size: 0, 4) == .absent)
        // The size cannot be guessed by many tries.
        #expect(try presence(["trip", "a"], size: 11, 5) == .absent)
        #expect(try presence(["trip", "a"], size: 10, 6) == .absent)
        #expect(try presence(["trip", "b"], size: 2000, 7) == .candidate)
        // A digest that was made up, and one for a file that is no candidate.
        #expect(try sink.compareDigest([UInt8](repeating: 0, count: 32), number: 7) == .absent)
        #expect(try sink.compareDigest([UInt8](repeating: 0, count: 32), number: 6) == .absent)
        #expect(throws: StorageError.self) {
            try sink.resume(at: .start)
            try sink.keepPresent(
                file(["trip", "b"], size: 2000), number: 7, entriesDigest: [UInt8](repeating: 1, count: 32))
        }
        sink.discard()
    }
}
