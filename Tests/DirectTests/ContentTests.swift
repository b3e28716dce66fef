import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct ContentTests {
    /// The whole stream, filled into buffers of random size.
    private func stream(of content: MemoryContent, from start: StartPoint, provider: MemoryProvider, seed: UInt64) throws
        -> [UInt8]
    {
        var random = SeededRandom(seed: seed)
        var provider = provider
        var outgoing = OutgoingContent(from: start)
        var bytes: [UInt8] = []
        while !outgoing.isFinished {
            var buffer = [UInt8](repeating: 0, count: Int.random(in: 1...200, using: &random))
            let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
            // R5: a caller that gets none would try again at once.
            #expect(count > 0)
            bytes += buffer[..<count]
        }
        #expect(outgoing.finishedEntryCount == content.offer.entryCount)
        return bytes
    }

    /// - Parameter piece: the stream is handed over in random pieces of at most this many bytes.
    private func consume(
        _ bytes: [UInt8], offer: Offer, into receiver: inout MemoryReceiver, piece: Int = 300, seed: UInt64 = 1
    ) throws -> IncomingContent {
        var random = SeededRandom(seed: seed)
        var incoming = IncomingContent(offer: offer, resumePoint: receiver.resumePoint)
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(Int.random(in: 1...piece, using: &random)))
            rest = rest.dropFirst(part.count)
            try part.withUnsafeBytes { try incoming.consume($0, into: &receiver) }
        }
        return incoming
    }

    private func plain(_ content: MemoryContent) throws -> [UInt8] {
        try stream(of: content, from: .beginning, provider: MemoryProvider(content), seed: 1)
    }

    private func refusal(_ bytes: [UInt8], offer: Offer) -> String? {
        var receiver = MemoryReceiver()
        do {
            return try consume(bytes, offer: offer, into: &receiver).isComplete ? nil : "cut short"
        } catch IncomingContentError<Never>.violation(let what) {
            return what.description
        } catch {
            return "unexpected: \(error)"
        }
    }

    @Test("R5: the output equals the input for any tree, and each buffer gets at least a byte", arguments: seeds(0..<100))
    func randomTrees(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let content = MemoryContent.random(using: &random, largest: 700, allowsUnknown: true)
        let bytes = try stream(
            of: content, from: .beginning,
            provider: MemoryProvider(content, largestRead: Int.random(in: 1...100, using: &random)),
            seed: seed)
        var receiver = MemoryReceiver()
        let incoming = try consume(bytes, offer: content.offer, into: &receiver, seed: seed)
        #expect(incoming.isComplete, "seed \(seed)")
        #expect(receiver.entries == content.entries, "seed \(seed)")
        #expect(incoming.finishedEntryCount == content.offer.entryCount)
        #expect(incoming.contentByteCount == UInt64(content.entries.reduce(0) { $0 + $1.bytes.count }))
    }

    @Test("resumes at every entry and every byte", arguments: seeds(0..<12)) func resume(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let content = MemoryContent.random(using: &random, largest: 12)
        for entry in 0...content.entries.count {
            for offset in 0...(entry < content.entries.count ? content.entries[entry].bytes.count : 0) {
                var receiver = MemoryReceiver(kept: content, entries: entry, bytes: offset)
                var provider = MemoryProvider(content)
                let start = try #require(StartPoint.find(receiver.resumePoint, in: &provider), "seed \(seed)")
                #expect(start.completeEntries == UInt64(entry) && start.offset == UInt64(offset))
                let bytes = try stream(of: content, from: start, provider: provider, seed: seed)
                let incoming = try consume(bytes, offer: content.offer, into: &receiver, seed: seed)
                #expect(incoming.isComplete && receiver.entries == content.entries, "seed \(seed), \(entry), \(offset)")
                #expect(incoming.resumedByteCount == start.completeByteCount + start.offset)
            }
        }
    }

    @Test("A10: a transfer from a changed source is not resumed") func changedSource() {
        let content = MemoryContent(file: "a", [1, 2, 3, 4])
        let kept = MemoryReceiver(kept: content, entries: 0, bytes: 3).resumePoint
        for other in [[1, 2, 9, 4], [1, 2]] as [[UInt8]] {
            var provider = MemoryProvider(MemoryContent(file: "a", other))
            #expect(StartPoint.find(kept, in: &provider) == nil)
        }
        var provider = MemoryProvider(MemoryContent(file: "b", [1, 2, 3, 4]))
        #expect(StartPoint.find(MemoryReceiver(kept: content, entries: 1, bytes: 0).resumePoint, in: &provider) == nil)
        provider = MemoryProvider(content)
        let beyond = ResumePoint(completeEntries: 2, entriesDigest: kept.partialDigest, partialSize: 0, partialDigest: [])
        #expect(StartPoint.find(beyond, in: &provider) == nil)
    }

    @Test("K13: a stream that ends too early is never complete", arguments: seeds(0..<10)) func truncated(
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        let content = MemoryContent.random(using: &random, largest: 20, allowsUnknown: true)
        let bytes = try plain(content)
        for length in bytes.indices {
            #expect(refusal(Array(bytes[..<length]), offer: content.offer) != nil, "seed \(seed), cut to \(length)")
        }
        #expect(refusal(bytes, offer: content.offer) == nil)
        #expect(refusal(bytes + [1], offer: content.offer) == "content after the end of the transfer")
    }

    @Test("R7: changed streams are rejected or complete, and never trap", arguments: 0..<500 as Range<UInt64>)
    func mutated(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let content = MemoryContent.random(using: &random, largest: 20, allowsUnknown: true)
        let bytes = try plain(content).mutated(using: &random)
        var receiver = MemoryReceiver()
        let incoming = try? consume(bytes, offer: content.offer, into: &receiver, seed: seed)
        if incoming?.isComplete == true { #expect(receiver.entries.count == content.entries.count, "seed \(seed)") }
    }

    private func file(_ item: UInt32, _ name: String, _ bytes: [UInt8], size: UInt64?? = nil) -> MemoryContent.Entry {
        MemoryContent.Entry(
            header: EntryHeader(
                item: item, kind: .file, path: [ClaimedFileName(name)!], size: size ?? UInt64(bytes.count), modified: nil,
                permissions: nil),
            bytes: bytes)
    }

    private var two: MemoryContent {
        let (a, b) = (MemoryContent(file: "a", [1, 2]), MemoryContent(file: "b", [3, 4]))
        return MemoryContent(
            entries: [file(0, "a", [1, 2]), file(1, "b", [3, 4])],
            offer: Offer(items: a.offer.items + b.offer.items, itemCount: 2, entryCount: 2, totalSize: 4))
    }

    @Test("R12, A3: only offered content is accepted") func beyondTheOffer() throws {
        let offer = two.offer
        func refusal(_ entries: [MemoryContent.Entry]) throws -> String? {
            self.refusal(
                try plain(
                    MemoryContent(
                        entries: entries,
                        offer: Offer(
                            items: offer.items, itemCount: 2, entryCount: UInt64(entries.count), totalSize: nil))), offer: offer
            )
        }
        let (a, b) = (file(0, "a", [1, 2]), file(1, "b", [3, 4]))
        #expect(try refusal([a, b]) == nil)
        #expect(try refusal([a, b, file(1, "c", [])]) == "more entries than were offered")
        #expect(try refusal([a]) == "the content ended before the offer was complete")
        #expect(try refusal([]) == "the content ended before the offer was complete")
        #expect(try refusal([file(0, "x", [1, 2]), b]) == "an item with another name than offered")
        #expect(try refusal([file(0, "a", [1, 2, 3]), b]) == "an entry that is not the offered file")
        #expect(
            try refusal([file(0, "a", [1, 2], size: .some(nil)), b]) == "an entry of unknown size in an offer of known sizes")
        #expect(try refusal([file(7, "a", [1, 2]), b]) == "an item that was not offered")
        for order in [[b, a], [a, a], [b, b]] {
            #expect(try refusal(order)?.contains("item") == true, "one item in another's place")
        }
        #expect(try refusal([file(0, "a", [UInt8](repeating: 0, count: 5)), b]) == "more content than was offered")
    }

    @Test("A2: content begins only at the requested position") func wrongStart() throws {
        let content = MemoryContent(file: "a", [1, 2, 3, 4])
        var provider = MemoryProvider(content)
        let start = try #require(
            StartPoint.find(MemoryReceiver(kept: content, entries: 0, bytes: 2).resumePoint, in: &provider))
        let bytes = try stream(of: content, from: start, provider: provider, seed: 1)
        #expect(refusal(bytes, offer: content.offer) == "content starts at a position that was not requested")
        #expect(refusal([9] + bytes.dropFirst(), offer: content.offer) == "content does not start with its start mark")
    }

    @Test("R7: numbers near the edges do not wrap") func hugeNumbers() {
        var start: [UInt8] = [ContentStreamFormat.start] + [UInt8](repeating: 0, count: 24)
        start[9] = 0xff
        #expect(refusal(start, offer: two.offer) == "content starts after another number of bytes than was kept")
        let header = EntryHeader(
            item: 0, kind: .file, path: [ClaimedFileName("a")!], size: .max, modified: nil, permissions: nil
        ).encoded
        let entry = [ContentStreamFormat.entry, 0, UInt8(header.count)] + header
        start[9] = 0
        #expect(refusal(start + entry, offer: two.offer) == "more content than was offered")
        #expect(refusal(start + [ContentStreamFormat.entry, 0xff, 0xff], offer: two.offer) == "entry: a header of 65535 bytes")
        #expect(refusal(start + [0x77], offer: two.offer) == "content: unknown mark 119")
    }
}
