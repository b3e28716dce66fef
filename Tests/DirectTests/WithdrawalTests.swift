import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

/// Walks content, and withdraws some entries: from the beginning, or after a part of their content.
private struct LossyProvider: ContentProvider {
    private var base: MemoryProvider
    private let content: MemoryContent
    private let losses: [Int: Int]
    private var number = -1
    private var position = 0

    /// - Parameter losses: by the numbers of the entries, the bytes that can be read; 0 for none.
    init(_ content: MemoryContent, losses: [Int: Int]) {
        (base, self.content, self.losses) = (MemoryProvider(content), content, losses)
    }

    mutating func nextEntry() throws(Never) -> EntryHeader? {
        (number, position) = (number + 1, 0)
        return base.nextEntry()
    }
    mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(Never) -> Int {
        let room = min(buffer.count, (losses[number] ?? .max) - position)
        let count = base.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room]))
        position += count
        return count
    }
    mutating func seek(to offset: UInt64) throws(Never) {
        base.seek(to: offset)
        position = Int(offset)
    }
    var isWithdrawn: Bool { losses[number].map { position >= $0 } ?? false }
}

@Suite("entries that the sender withdraws") struct WithdrawalTests {
    private let now = MonotonicInstant(nanoseconds: 0)

    private func entry(_ item: UInt32, _ path: [String], _ bytes: Int?) -> MemoryContent.Entry {
        MemoryContent.Entry(
            header: EntryHeader(
                item: item, kind: bytes == nil ? .folder : .file, path: path.map(Samples.name), size: UInt64(bytes ?? 0),
                modified: 1, permissions: nil), bytes: [UInt8](repeating: 7, count: bytes ?? 0))
    }

    /// trip/ (a 30 bytes, day/ (b 50, c 0)), note 20 bytes.
    private func trip() -> MemoryContent {
        MemoryContent(
            entries: [
                entry(0, ["trip"], nil), entry(0, ["trip", "a"], 30), entry(0, ["trip", "day"], nil),
                entry(0, ["trip", "day", "b"], 50), entry(0, ["trip", "day", "c"], 0), entry(1, ["note"], 20),
            ],
            offer: Offer(
                items: [Samples.item(.folder, "trip", 80, entries: 5), Samples.item(.file, "note", 20)], itemCount: 2,
                entryCount: 6, totalSize: 100))
    }

    private func stream(
        _ content: MemoryContent, losing losses: [Int: Int], from point: ResumePoint = .start, room: Int = 64
    ) throws -> (bytes: [UInt8], outgoing: OutgoingContent) {
        var provider = LossyProvider(content, losses: losses)
        let start = try #require(point == .start ? .beginning : StartPoint.find(point, in: &provider))
        var outgoing = OutgoingContent(from: start, withdrawsEntries: true)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: room)
        while !outgoing.isFinished {
            let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
            try #require(count > 0)
            bytes += buffer[..<count]
        }
        return (bytes, outgoing)
    }

    private func consume(
        _ bytes: [UInt8], _ offer: Offer, allowed: Bool = true, contents: [EntryHeader] = [], piece: Int = 7,
        into receiver: inout MemoryReceiver
    ) throws -> IncomingContent {
        var incoming = IncomingContent(
            offer: offer, resumePoint: receiver.resumePoint, contents: contents, allowsWithdrawal: allowed)
        for start in stride(from: 0, to: bytes.count, by: piece) {
            try bytes[start..<min(start + piece, bytes.count)].withUnsafeBytes { try incoming.consume($0, into: &receiver) }
        }
        return incoming
    }

    private func refusal(_ bytes: [UInt8], _ offer: Offer, allowed: Bool = true, contents: [EntryHeader] = []) -> String? {
        var receiver = MemoryReceiver()
        do {
            let isComplete = try consume(bytes, offer, allowed: allowed, contents: contents, into: &receiver).isComplete
            return isComplete ? nil : "cut short"
        } catch IncomingContentError<Never>.violation(let what) {
            return what.description
        } catch {
            return "unexpected: \(error)"
        }
    }

    private func names(_ missing: MissingFiles?) -> [String]? { missing?.listed.map(\.shown) }

    // MARK: Streams

    @Test("what is left arrives, whatever is withdrawn, from the beginning or in its middle, in buffers of any size")
    func anything() throws {
        let content = trip()
        for losses: [Int: Int] in [
            [:], [1: 0], [1: 29], [3: 10, 5: 0], [4: 0], [2: 0, 3: 0, 4: 0], [0: 0, 1: 0, 2: 0, 3: 0, 4: 0],
        ] {
            for room in [1, 3, 4, 5, 9, 64, 500] {
                let (bytes, outgoing) = try stream(content, losing: losses, room: room)
                var receiver = MemoryReceiver()
                let incoming = try consume(bytes, content.offer, piece: room, into: &receiver)
                #expect(incoming.isComplete, "\(losses), \(room)")
                let left = content.entries.indices.filter { losses[$0] == nil }
                #expect(receiver.entries == left.map { content.entries[$0] }, "\(losses), \(room)")
                #expect(receiver.withdrawn == losses.keys.sorted().map { content.entries[$0].header })
                // Withdrawn entries count as done.
                #expect(incoming.contentByteCount == 100 && incoming.finishedEntryCount == 6)
                #expect(outgoing.contentByteCount == 100 && outgoing.finishedEntryCount == 6)
                #expect(incoming.missing == outgoing.missing && (incoming.missing == nil) == losses.isEmpty)
            }
        }
    }

    @Test("files are named, folders only where no file is missing")
    func missing() throws {
        let content = trip()
        let files = try stream(content, losing: [2: 0, 3: 0, 4: 0]).outgoing.missing
        #expect(names(files) == ["b", "c"] && files?.count == 2 && files?.offered == 4)
        let empty = MemoryContent(
            entries: [entry(0, ["t"], nil), entry(0, ["t", "a"], 1), entry(0, ["t", "e"], nil)],
            offer: Offer(items: [Samples.item(.folder, "t", 1, entries: 3)], itemCount: 1, entryCount: 3, totalSize: 1))
        let folder = try stream(empty, losing: [2: 0]).outgoing.missing
        #expect(names(folder) == ["e"] && folder?.count == 1 && folder?.offered == 3)
    }

    @Test("a part that was kept is left out when its file is withdrawn, unread or while the rest is sent")
    func resumed() throws {
        let content = trip()
        for (readable, kept) in [(0, 10), (10, 10), (25, 10)] {
            var receiver = MemoryReceiver(kept: content, entries: 3, bytes: kept)
            let (bytes, outgoing) = try stream(content, losing: [3: readable], from: receiver.resumePoint)
            let incoming = try consume(bytes, content.offer, into: &receiver)
            #expect(incoming.isComplete && incoming.resumedByteCount == 40 && incoming.contentByteCount == 100)
            #expect(receiver.entries == [0, 1, 2, 4, 5].map { content.entries[$0] })
            #expect(names(incoming.missing) == ["b"] && names(outgoing.missing) == ["b"])
        }
    }

    @Test("a file whose digest is asked for and that cannot be read gets one that fits no file")
    func digests() throws {
        let content = trip()
        var provider = LossyProvider(content, losses: [1: 12])
        var list = OutgoingFileList(of: content.offer)
        var buffer = [UInt8](repeating: 0, count: 4096)
        _ = buffer.withUnsafeMutableBytes { list.fill($0, from: &provider) }
        list.begin(hashing: Samples.files([true, true, false, false]))
        provider = LossyProvider(content, losses: [1: 12])
        let count = buffer.withUnsafeMutableBytes { list.fill($0, from: &provider) }
        let mark = [ContentStreamFormat.fileDigest]
        var digest = FileDigest(encodedHeader: content.entries[3].header.encoded)
        content.entries[3].bytes.withUnsafeBytes { digest.update($0) }
        let expected: [UInt8] = mark + [UInt8](repeating: 0, count: 32) + mark + digest.finalize()
        #expect(Array(buffer[..<count]) == expected)
        #expect(!list.hasLostFiles)
    }

    // MARK: Violations

    private func mark(_ mark: UInt8, _ header: EntryHeader) -> [UInt8] {
        [mark] + UInt16(header.encoded.count).bigEndianBytes + header.encoded
    }

    private func withdrawn(_ header: EntryHeader) -> [UInt8] { mark(ContentStreamFormat.withdrawnEntry, header) }
    private func chunked(_ header: EntryHeader) -> [UInt8] { mark(ContentStreamFormat.chunkedEntry, header) }
    private func chunk(_ count: Int) -> [UInt8] { UInt32(count).bigEndianBytes + [UInt8](repeating: 7, count: count) }
    private let start = [ContentStreamFormat.start] + [UInt8](repeating: 0, count: 24)

    private func end(_ headers: EntryHeader...) -> [UInt8] {
        var digest = EntriesDigest()
        for header in headers { digest.append(header) }
        return [ContentStreamFormat.end] + UInt64(headers.count).bigEndianBytes + digest.bytes
    }

    /// Two files, of 10 and 20 bytes.
    private var pair: (offer: Offer, a: EntryHeader, b: EntryHeader) {
        (
            Offer(
                items: [Samples.item(.file, "a", 10), Samples.item(.file, "b", 20)], itemCount: 2, entryCount: 2,
                totalSize: 30), entry(0, ["a"], 10).header, entry(1, ["b"], 20).header
        )
    }

    @Test("A16: marks that were not agreed on are violations, also in an offer of unknown size")
    func notAgreed() throws {
        let (offer, a, b) = pair
        let bytes = start + withdrawn(a) + chunked(b) + chunk(20) + end(a, b)
        #expect(refusal(bytes, offer) == nil)
        #expect(refusal(bytes, offer, allowed: false)?.contains("not agreed on") == true)
        #expect(refusal(start + chunked(a), offer, allowed: false)?.contains("not agreed on") == true)
        var unknown = offer
        unknown.totalSize = nil
        #expect(refusal(start + withdrawn(a), unknown)?.contains("not agreed on") == true)
    }

    @Test("A16: only an offered entry can be withdrawn, in its place, once, and not after it was sent")
    func notOffered() throws {
        let (offer, a, b) = pair
        var other = a
        other.path = [Samples.name("other")]
        var larger = a
        larger.size = 11
        #expect(refusal(start + withdrawn(other), offer)?.contains("another name") == true)
        #expect(refusal(start + withdrawn(larger), offer)?.contains("not the offered file") == true)
        #expect(refusal(start + withdrawn(b), offer)?.contains("more or fewer entries") == true)
        #expect(refusal(start + withdrawn(a) + withdrawn(a), offer)?.contains("more or fewer entries") == true)
        #expect(refusal(start + chunked(a) + chunk(10) + withdrawn(a), offer)?.contains("more or fewer entries") == true)
        #expect(refusal(start + withdrawn(a) + chunked(b) + chunk(20) + withdrawn(b), offer)?.contains("more entries") == true)
        // The sender has listed what it offers.
        let listed = [a.listed, b.listed]
        #expect(refusal(start + withdrawn(other), offer, contents: listed)?.contains("another entry") == true)
        var text = offer
        text.items[0].kind = .text
        #expect(refusal(start + withdrawn(a), text)?.contains("cannot be withdrawn") == true)
        #expect(refusal(start + chunked(a) + chunk(4) + chunk(0), text)?.contains("cannot be withdrawn") == true)
    }

    @Test("A16: chunks within the size of a file, and a stream in which something remains")
    func totals() throws {
        let (offer, a, b) = pair
        #expect(refusal(start + chunked(a) + chunk(11), offer)?.contains("beyond the size") == true)
        #expect(refusal(start + chunked(a) + chunk(4) + chunk(7), offer)?.contains("beyond the size") == true)
        #expect(refusal(start + chunked(entry(0, ["a"], nil).header), offer)?.contains("not the offered file") == true)
        // The end of a file that is withdrawn in its middle is that of its entry.
        #expect(refusal(start + chunked(a) + chunk(4) + chunk(0) + chunk(6), offer)?.contains("unknown mark") == true)
        #expect(refusal(start + chunked(a) + chunk(4) + chunk(0) + chunked(b) + chunk(20) + end(a, b), offer) == nil)
        let none = start + withdrawn(a) + chunked(b) + chunk(0) + end(a, b)
        #expect(refusal(none, offer)?.contains("all of the offer") == true)
        let empty = entry(0, ["a"], 0).header
        let emptyOffer = Offer(
            items: [Samples.item(.file, "a", 0), Samples.item(.file, "b", 20)], itemCount: 2, entryCount: 2, totalSize: 20)
        #expect(refusal(start + chunked(empty), emptyOffer)?.contains("chunks of an entry without content") == true)
    }

    @Test("A16: a file of an announced size of 2^64 cannot be withdrawn past the offer")
    func overflow() throws {
        var (offer, a, _) = pair
        offer.items = []
        a.size = .max
        #expect(refusal(start + withdrawn(a), offer)?.contains("more content than was offered") == true)
    }

    // MARK: Frames

    private func offered(_ features: TransferFeatures) -> TransferOffer {
        TransferOffer(
            id: Samples.id, timeout: .seconds(60), resumeKey: Samples.digest, context: [], offer: Samples.offers[3],
            features: features)
    }

    @Test("a sender withdraws only towards a receiver that has stated it before its accept", arguments: [true, false])
    func agreed(announces: Bool) throws {
        for peerFeatures: TransferFeatures in [.withdrawsEntries, [], .listsFiles] {
            var transfers = OutgoingTransfers()
            _ = transfers.offer(offered(announces ? [.listsFiles, .withdrawsEntries] : .listsFiles), now: now)
            let reactions = try transfers.receiveAccept(Samples.id, window: 100, peerFeatures: peerFeatures, now: now)
            let isAgreed = announces && peerFeatures == .withdrawsEntries
            #expect(reactions.contains(.withdrawalAllowed(Samples.id)) == isAgreed)
        }
    }

    @Test("an ability is stated once, with those that were stated before, until an offer without it")
    func announced() {
        var transfers = OutgoingTransfers()
        _ = transfers.offer(offered(.listsFiles), now: now)
        #expect(transfers.announce(.withdrawsEntries) == [.send(.features([.listsFiles, .withdrawsEntries]))])
        #expect(transfers.announce(.withdrawsEntries).isEmpty)
    }

    @Test(
        "a receiver states that it passes over withdrawn entries before its accept, to senders that use it",
        arguments: [true, false])
    func accept(announces: Bool) throws {
        var lone = Lone()
        _ = lone.receive(.features(announces ? [.listsFiles, .withdrawsEntries] : .listsFiles))
        _ = lone.receive(.offer(Lone.offer()))
        let accept = DirectReaction.send(.accept(Lone.id, window: DirectLimits().window))
        let reactions = lone.machine.accept(Lone.id, now: lone.now)
        #expect(reactions == (announces ? [.send(.features(.withdrawsEntries)), accept] : [accept]))
        // Nothing is stated for an offer that has ended.
        #expect(lone.machine.accept(TransferID(rawValue: 99), now: lone.now).isEmpty)
    }
}
