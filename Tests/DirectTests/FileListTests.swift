import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

/// Records what is compared, and finds nothing.
private struct RecordingComparer: FileComparer {
    private(set) var headers: [EntryHeader] = []
    private(set) var numbers: [UInt64] = []

    mutating func compare(_ header: EntryHeader, encodedHeader: [UInt8], number: UInt64) throws(Never) -> FilePresence {
        headers.append(header)
        numbers.append(number)
        return .absent
    }

    mutating func decide(number: UInt64, digest: [UInt8]) throws(Never) -> FilePresence { .absent }
}

/// The files of a receiver by their paths; what it was asked is kept.
private struct MemoryComparer: FileComparer {
    var files: [[ClaimedFileName]: [UInt8]]
    var newer: Set<[ClaimedFileName]> = []
    private var asked: [UInt64: (encoded: [UInt8], path: [ClaimedFileName])] = [:]
    private(set) var hashedCount = 0

    init(_ files: [[ClaimedFileName]: [UInt8]], newer: Set<[ClaimedFileName]> = []) {
        (self.files, self.newer) = (files, newer)
    }

    mutating func compare(_ header: EntryHeader, encodedHeader: [UInt8], number: UInt64) throws(Never) -> FilePresence {
        guard let bytes = files[header.path] else { return .absent }
        asked[number] = (encodedHeader, header.path)
        if UInt64(bytes.count) == header.size { return .candidate }
        return newer.contains(header.path) ? .newer : .absent
    }

    mutating func decide(number: UInt64, digest: [UInt8]) throws(Never) -> FilePresence {
        guard let (encoded, path) = asked[number], let bytes = files[path] else { return .absent }
        hashedCount += 1
        var own = FileDigest(encodedHeader: encoded)
        bytes.withUnsafeBytes { own.update($0) }
        if own.finalize() == digest { return .identical }
        return newer.contains(path) ? .newer : .absent
    }
}

@Suite("files that are present") struct FileListTests {
    private struct Agreement {
        var present: PresentFiles
        var answer: (identical: FileSet, newer: FileSet)
        var list: FileList
        var comparer: MemoryComparer
        var byteCount: Int
    }

    /// Runs the comparison over pieces of random size.
    private func compare(_ content: MemoryContent, with comparer: MemoryComparer, seed: UInt64 = 1) throws -> Agreement {
        var random = SeededRandom(seed: seed)
        var comparer = comparer
        var outgoing = OutgoingFileList(of: content.offer)
        var incoming = IncomingFileList(of: content.offer)
        var total = 0
        func move() throws {
            var provider = MemoryProvider(content, largestRead: 7)
            while !outgoing.isPartFinished {
                var buffer = [UInt8](repeating: 0, count: Int.random(in: 1...90, using: &random))
                let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
                total += count
                try buffer[..<count].withUnsafeBytes { try incoming.consume($0, with: &comparer) }
            }
        }
        try move()
        #expect(incoming.isListed)
        incoming.beginComparison()
        if !incoming.isComplete {
            outgoing.begin(hashing: incoming.candidates)
            try move()
        }
        #expect(incoming.isComplete)
        return Agreement(
            present: incoming.presentFiles, answer: incoming.answer, list: outgoing.list, comparer: comparer, byteCount: total)
    }

    private func files(of content: MemoryContent) -> [MemoryContent.Entry] {
        content.entries.filter { $0.header.kind == .file }
    }

    /// Sends the content without the present files.
    private func send(
        _ content: MemoryContent, _ present: PresentFiles, accepting accepted: PresentFiles
    ) throws -> (receiver: MemoryReceiver, byteCount: Int) {
        var provider = MemoryProvider(content)
        var outgoing = OutgoingContent(from: .beginning, present: present)
        var incoming = IncomingContent(offer: content.offer, resumePoint: .start, present: accepted)
        var receiver = MemoryReceiver()
        var total = 0
        while !outgoing.isFinished {
            var buffer = [UInt8](repeating: 0, count: 64)
            let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
            total += count
            try buffer[..<count].withUnsafeBytes { try incoming.consume($0, into: &receiver) }
        }
        #expect(incoming.isComplete && incoming.contentByteCount == content.offer.totalSize)
        #expect(incoming.finishedEntryCount == content.offer.entryCount)
        return (receiver, total)
    }

    @Test("only files that are missing or differ are sent, for any tree", arguments: seeds(0..<100))
    func randomTrees(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let content = MemoryContent.random(using: &random, largest: 300)
        var stored: [[ClaimedFileName]: [UInt8]] = [:]
        var changed: Set<[ClaimedFileName]> = []
        for file in files(of: content) {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: break
            case 1 where !file.bytes.isEmpty:
                stored[file.header.path] = [file.bytes[0] ^ 1] + file.bytes.dropFirst()
                changed.insert(file.header.path)
            case 2:
                stored[file.header.path] = file.bytes + [1]
                changed.insert(file.header.path)
            default: stored[file.header.path] = file.bytes
            }
        }
        let agreement = try compare(content, with: MemoryComparer(stored), seed: seed)
        let (receiver, _) = try send(content, agreement.present, accepting: agreement.present)
        var expected = 0
        for (sent, received) in zip(content.entries, receiver.entries) {
            let stored = stored[sent.header.path]
            // Two entries of one path may differ.
            let isPresent = sent.header.kind == .file && stored == sent.bytes
            if isPresent { expected += 1 }
            #expect(received.header == sent.header)
            #expect(received.bytes == (isPresent ? [] : sent.bytes), "seed \(seed)")
        }
        let counts = agreement.present.counts
        #expect(counts?.presentCount ?? 0 == UInt64(expected))
        #expect(counts?.fileCount ?? 0 == UInt64(files(of: content).count))
    }

    @Test func `a file is hashed only where its size is equal`() throws {
        let content = MemoryContent(file: "a", [1, 2, 3])
        let path = content.entries[0].header.path
        let other = try compare(content, with: MemoryComparer([path: [1, 2]]))
        #expect(other.comparer.hashedCount == 0 && other.present.counts?.presentCount == 0)
        let same = try compare(content, with: MemoryComparer([path: [1, 2, 3]]))
        #expect(same.comparer.hashedCount == 1 && same.present.counts?.presentCount == 1)
        #expect(same.byteCount == other.byteCount + ContentStreamFormat.fileDigestByteCount)
    }

    @Test func `a file that is kept because it is newer is not sent`() throws {
        let content = MemoryContent(file: "a", [1, 2, 3])
        let path = content.entries[0].header.path
        for there in [[1], [3, 2, 1]] as [[UInt8]] {
            let agreement = try compare(content, with: MemoryComparer([path: there], newer: [path]))
            #expect(agreement.answer.newer.contains(0) && !agreement.answer.identical.contains(0))
            #expect(agreement.present.counts == ComparedFiles(fileCount: 1, presentCount: 0, newerCount: 1))
            let (receiver, byteCount) = try send(content, agreement.present, accepting: agreement.present)
            #expect(receiver.entries[0].bytes.isEmpty && byteCount < 100)
        }
    }

    @Test("A11: a file that the receiver has not found identical must be sent")
    func claimedPresence() throws {
        let content = MemoryContent(file: "a", [1, 2, 3])
        let path = content.entries[0].header.path
        let agreed = try compare(content, with: MemoryComparer([path: [1, 2, 3]])).present
        let refused = try compare(content, with: MemoryComparer([path: [3, 2, 1]])).present
        #expect(throws: (any Error).self) { try send(content, agreed, accepting: refused) }
        #expect(throws: (any Error).self) { try send(content, agreed, accepting: .none) }
        // Another header than the listed one: here another time.
        var later = content
        later.entries[0].header.modified = 7
        let other = try compare(later, with: MemoryComparer([path: [1, 2, 3]])).present
        #expect(throws: (any Error).self) { try send(later, other, accepting: agreed) }
        #expect(throws: Never.self) { try send(later, agreed, accepting: agreed) }
    }

    @Test("A10: a source that has lost a file since it was listed is noticed")
    func lostFile() {
        let content = MemoryContent(file: "a", [1, 2, 3])
        var list = OutgoingFileList(of: content.offer)
        var buffer = [UInt8](repeating: 0, count: 500)
        var provider = MemoryProvider(content)
        _ = buffer.withUnsafeMutableBytes { list.fill($0, from: &provider) }
        #expect(list.isPartFinished && list.list.count == 1)
        list.begin(hashing: Samples.files([true]))
        let count = buffer.withUnsafeMutableBytes { list.fill($0, from: &provider) }
        #expect(count == 0 && list.isPartFinished && list.hasLostFiles)
    }

    // MARK: Violations

    private func listed(_ number: UInt64, _ header: EntryHeader) -> [UInt8] {
        [ContentStreamFormat.listed] + number.bigEndianBytes + UInt16(header.encoded.count).bigEndianBytes + header.encoded
    }

    private func refusal(_ parts: [[UInt8]], of offer: Offer, comparesAfter: Int? = nil) -> String? {
        var incoming = IncomingFileList(of: offer)
        var comparer = MemoryComparer([[ClaimedFileName("a")!]: [1, 2, 3]])
        do {
            for (index, part) in parts.enumerated() {
                if index == comparesAfter { incoming.beginComparison() }
                try part.withUnsafeBytes { try incoming.consume($0, with: &comparer) }
            }
            return nil
        } catch IncomingContentError<Never>.violation(let what) {
            return what.description
        } catch {
            return "unexpected: \(error)"
        }
    }

    @Test("R7: a list that contradicts its offer is a violation")
    func badLists() throws {
        let content = MemoryContent(file: "a", [1, 2, 3])
        let (offer, header) = (content.offer, content.entries[0].header)
        var folder = header
        (folder.kind, folder.size) = (.folder, 0)
        var large = header
        large.size = 4
        var stream = header
        stream.size = nil
        var item = header
        item.item = 1
        // X5: a name that is not in the offer which the user has seen.
        var other = header
        other.path = [Samples.name("b")]
        let end = [ContentStreamFormat.listEnd]
        let digest = [ContentStreamFormat.fileDigest] + Samples.digest
        #expect(refusal([listed(0, header), end], of: offer) == nil)
        #expect(refusal([listed(0, header) + listed(0, header)], of: offer) != nil)
        #expect(refusal([listed(1, header)], of: offer) != nil)
        #expect(refusal([listed(.max, header)], of: offer) != nil)
        for bad in [folder, large, stream, item, other] { #expect(refusal([listed(0, bad)], of: offer) != nil) }
        #expect(refusal([[9]], of: offer) == "file list: unknown mark 9")
        #expect(refusal([[ContentStreamFormat.listed] + [UInt8](repeating: 0, count: 8) + [0xff, 0xff]], of: offer) != nil)
        // Before and after the digests.
        #expect(refusal([listed(0, header) + end + digest], of: offer) == "content before it was asked for")
        #expect(refusal([listed(0, header) + end, digest], of: offer, comparesAfter: 1) == nil)
        #expect(refusal([listed(0, header) + end, digest + digest], of: offer, comparesAfter: 1) != nil)
        #expect(refusal([listed(0, header) + end, end], of: offer, comparesAfter: 1) == "file list: not a digest")
    }

    @Test("R7: a changed list is rejected where it no longer fits the offer, and never traps", arguments: seeds(0..<300))
    func mutated(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let content = MemoryContent.random(using: &random, largest: 20)
        var outgoing = OutgoingFileList(of: content.offer)
        var provider = MemoryProvider(content)
        var bytes: [UInt8] = []
        while !outgoing.isPartFinished {
            var buffer = [UInt8](repeating: 0, count: 100)
            let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
            bytes += buffer[..<count]
        }
        #expect(refusal([bytes], of: content.offer) == nil)
        var incoming = IncomingFileList(of: content.offer)
        var comparer = RecordingComparer()
        do {
            let changed = changedList(of: content, using: &random) ?? bytes.mutated(using: &random)
            try changed.withUnsafeBytes { try incoming.consume($0, with: &comparer) }
        } catch IncomingContentError<Never>.violation {
            // The entries before the violation have been compared.
        }
        // No entry is compared with files of the receiver that the offer does not allow.
        let (headers, numbers) = (comparer.headers, comparer.numbers)
        #expect(headers.allSatisfy { $0.kind == .file && $0.size != nil && $0.item < content.offer.itemCount }, "seed \(seed)")
        #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "seed \(seed)")
        #expect(numbers.allSatisfy { $0 < content.offer.entryCount }, "seed \(seed)")
        #expect(headers.reduce(0) { $0 + ($1.size ?? 0) } <= content.offer.totalSize ?? 0, "seed \(seed)")
    }

    /// The list of a content's files with one that is repeated, in another place, or of another size; nil for a content without
    /// files, and in some cases, where bytes are to be changed instead.
    private func changedList(of content: MemoryContent, using random: inout SeededRandom) -> [UInt8]? {
        var files = content.entries.map(\.header).enumerated().map { (number: UInt64($0), header: $1) }
        files.removeAll { $0.header.kind != .file || $0.header.size == nil }
        guard !files.isEmpty else { return nil }
        let (one, other) = (files.indices.randomElement(using: &random)!, files.indices.randomElement(using: &random)!)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: files.insert(files[one], at: other)
        case 1: files.swapAt(one, other)
        case 2: files[one].header.size! += UInt64.random(in: 1...20, using: &random)
        default: return nil
        }
        return files.flatMap { listed($0.number, $0.header) } + [ContentStreamFormat.listEnd]
    }

    @Test func `a file set keeps its members and refuses what it cannot hold`() throws {
        var files = FileSet()
        for number in 0..<20 { files.append(number % 3 == 0) }
        #expect((0..<20).allSatisfy { files.contains($0) == ($0 % 3 == 0) } && !files.contains(20) && !files.contains(-1))
        #expect(files.memberCount == 7)
        files.remove(3)
        files.insert(4)
        files.insert(99)
        #expect(!files.contains(3) && files.contains(4) && files.memberCount == 7 && files.count == 20)
        let id = Samples.id
        let encoded = ControlFrame.candidates(id, files).encoded
        #expect(try ControlFrame.decode(encoded) == .candidates(id, files))
        var bits = encoded
        bits[bits.count - 1] |= 1
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(bits) }
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(encoded + [0]) }
        var many = Array(encoded[..<9])
        many += UInt32(FileSet.maximumCount + 1).bigEndianBytes + [UInt8](repeating: 0, count: FileSet.maximumCount / 8 + 1)
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(many) }
        let both = ControlFrame.present(id, identical: files, newer: files)
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(both.encoded) }
    }

    @Test("A12: a list that contradicts its offer is rejected before it is read")
    func contradictingLists() throws {
        func entry(_ item: UInt32, _ name: String, _ size: UInt64?) -> EntryHeader {
            EntryHeader(
                item: item, kind: .file, path: [ClaimedFileName(name)!], size: size, modified: nil, permissions: nil)
        }
        let items = [("a", UInt64(3)), ("b", UInt64(4))].map { name, size in
            OfferedItem(kind: .file, name: ClaimedFileName(name)!, size: size, entryCount: 1, mediaType: .unknown)
        }
        // The second item is not described.
        let offer = Offer(items: [items[0]], itemCount: 2, entryCount: 2, totalSize: 7)
        let (a, b) = (entry(0, "a", 3), entry(1, "b", 4))
        for valid in [[], [a], [a, b]] { try offer.check(listed: valid) }
        let lists = [
            [a, b, entry(1, "c", 0)], [b], [b, a], [a, entry(2, "b", 4)], [a, entry(1, "b", 5)], [a, entry(1, "b", 3)],
            [a, entry(1, "b", nil)], [entry(0, "x", 3)], [entry(0, "a", 2)], [a, entry(0, "a", 4)],
            [a, entry(1, "b", .max)],
        ]
        for list in lists { #expect(throws: MalformedInput.self, "\(list)") { try offer.check(listed: list) } }
    }

    @Test("A12: entries are those that were listed, in their order, and nothing else")
    func listedContents() throws {
        let content = MemoryContent(file: "a", [1, 2, 3])
        var (other, larger) = (content.entries[0].header.listed, content.entries[0].header.listed)
        other.path = [Samples.name("b")]
        larger.size = 4
        func accepts(_ contents: [EntryHeader]) throws -> Bool {
            var (provider, outgoing) = (MemoryProvider(content), OutgoingContent(from: .beginning))
            var incoming = IncomingContent(offer: content.offer, resumePoint: .start, contents: contents)
            var receiver = MemoryReceiver()
            var buffer = [UInt8](repeating: 0, count: 500)
            let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
            do {
                try buffer[..<count].withUnsafeBytes { try incoming.consume($0, into: &receiver) }
            } catch IncomingContentError<Never>.violation(let what) {
                #expect(what.description == "another entry than was listed")
                return false
            }
            return incoming.isComplete
        }
        #expect(try accepts([content.entries[0].header.listed]) && accepts([]))
        #expect(try !accepts([other]) && !accepts([larger]))
    }

    @Test("R1: a list of contents has at most 256 entries, 64 KiB and 4,096 components of paths")
    func contentsBounds() throws {
        let long = EntryHeader(
            item: 0, kind: .file, path: (0..<16).map { _ in Samples.name(String(repeating: "x", count: 250)) }, size: 1,
            modified: nil, permissions: nil)
        let frame = ControlFrame.contents(Samples.id, [EntryHeader](repeating: long, count: 100))
        #expect(frame.encoded.count <= ControlFrame.maximumContentsByteCount)
        guard case .contents(_, let kept) = try ControlFrame.decode(frame.encoded) else { throw MalformedInput("no contents") }
        #expect(kept == [EntryHeader](repeating: long, count: 16))
        let short = EntryHeader(
            item: 0, kind: .file, path: [Samples.name("a")], size: 1, modified: nil, permissions: nil)
        let many = ControlFrame.contents(Samples.id, [EntryHeader](repeating: short, count: 300)).encoded
        guard case .contents(_, let first) = try ControlFrame.decode(many) else { throw MalformedInput("no contents") }
        #expect(first.count == ControlFrame.maximumContentsCount)
        // One more, with its number changed as well.
        let entry = short.encoded
        var more = many + UInt16(entry.count).bigEndianBytes + entry
        more.replaceSubrange(9..<11, with: UInt16(257).bigEndianBytes)
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(more) }
        let deep = EntryHeader(
            item: 0, kind: .file, path: (0..<100).map { _ in Samples.name("a") }, size: 1, modified: nil, permissions: nil)
        let level = ControlFrame.contents(Samples.id, [EntryHeader](repeating: deep, count: 50)).encoded
        guard case .contents(_, let listed) = try ControlFrame.decode(level) else { throw MalformedInput("no contents") }
        #expect(listed.count == 40)
        var deeper = level + UInt16(deep.encoded.count).bigEndianBytes + deep.encoded
        deeper.replaceSubrange(9..<11, with: UInt16(41).bigEndianBytes)
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(deeper) }
        let tooLong = frame.encoded + [UInt8](repeating: 0, count: ControlFrame.maximumContentsByteCount)
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(tooLong) }
        var dated = long
        dated.modified = 1
        #expect(throws: MalformedInput.self) { try ControlFrame.decode(ControlFrame.contents(Samples.id, [dated]).encoded) }
    }

    // MARK: Frames

    private let now = MonotonicInstant(nanoseconds: 0)

    private func accepted(_ features: TransferFeatures = .listsFiles) throws -> OutgoingTransfers {
        var transfers = OutgoingTransfers()
        let offer = TransferOffer(
            id: Samples.id, timeout: .seconds(60), resumeKey: Samples.digest, context: [], offer: Samples.offers[0],
            features: features)
        let reactions = transfers.offer(offer, now: now)
        #expect(reactions == (features.isEmpty ? [] : [.send(.features(features))]) + [.send(.offer(offer))])
        _ = try transfers.receiveAccept(Samples.id, window: 100, now: now)
        return transfers
    }

    @Test func `a receiver may ask for the list, then for digests, then tell what is present`() throws {
        let (id, files) = (Samples.id, Samples.files([true]))
        var transfers = try accepted()
        let listed = try transfers.receiveListFiles(id)
        #expect(listed == [.listFiles(id)])
        let granted = try transfers.receiveCredit(id, upTo: 200)
        #expect(granted == [.windowRaised(id, upTo: 200)])
        let digests = try transfers.receiveCandidates(id, files)
        #expect(digests == [.sendDigests(id, of: files)])
        let present = try transfers.receivePresent(id, identical: files, newer: Samples.files([false]))
        #expect(present == [.filesPresent(id, identical: files, newer: Samples.files([false]))])
        let resumed = try transfers.receiveResume(id, at: .start)
        #expect(resumed == [.startSending(id, from: .start)])
    }

    @Test("A11: a comparison that was not announced, or is out of order, is a violation")
    func outOfOrder() throws {
        let (id, files) = (Samples.id, Samples.files([true]))
        var unannounced = try accepted([])
        #expect(throws: MalformedInput.self) { try unannounced.receiveListFiles(id) }
        var early = try accepted()
        #expect(throws: MalformedInput.self) { try early.receiveCandidates(id, files) }
        #expect(throws: MalformedInput.self) { try early.receivePresent(id, identical: files, newer: files) }
        var twice = try accepted()
        _ = try twice.receiveListFiles(id)
        #expect(throws: MalformedInput.self) { try twice.receiveListFiles(id) }
        #expect(throws: MalformedInput.self) { try twice.receiveStored(id) }
        _ = try twice.receivePresent(id, identical: files, newer: files)
        #expect(throws: MalformedInput.self) { try twice.receivePresent(id, identical: files, newer: files) }
        #expect(throws: MalformedInput.self) { try twice.receiveCandidates(id, files) }
    }

    @Test("A1: the list counts for the window, and comes only after it was asked for")
    func window() throws {
        var limits = DirectLimits()
        limits.window = 100
        var transfers = IncomingTransfers(limits: limits)
        let offer = TransferOffer(
            id: Samples.id, timeout: .seconds(60), resumeKey: Samples.digest, context: [], offer: Samples.offers[0])
        _ = transfers.receiveOffer(offer, now: now)
        let early = transfers.listFiles(Samples.id)
        #expect(early.isEmpty)
        _ = transfers.accept(Samples.id, now: now)
        #expect(throws: MalformedInput.self) { try transfers.receiveContent(Samples.id, byteCount: 1) }
        let asked = transfers.listFiles(Samples.id)
        #expect(asked == [.send(.listFiles(Samples.id))])
        let first = try transfers.receiveContent(Samples.id, byteCount: 60)
        #expect(first == .deliver)
        let mayFinish = transfers.beginFinishing(Samples.id)
        #expect(!mayFinish)
        let granted = transfers.recordStored(Samples.id, upTo: 60)
        #expect(granted == [.send(.credit(Samples.id, upTo: 160))])
        let resumed = transfers.resume(Samples.id, at: .start)
        #expect(resumed == [.send(.resume(Samples.id, .start))])
        // The list's part of the window stays used.
        let second = try transfers.receiveContent(Samples.id, byteCount: 100)
        #expect(second == .deliver)
        #expect(throws: MalformedInput.self) { try transfers.receiveContent(Samples.id, byteCount: 1) }
    }
}
