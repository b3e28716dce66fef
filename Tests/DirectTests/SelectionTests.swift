import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

/// A provider that leaves out what is not selected, and renumbers the rest.
private struct PartProvider: ContentProvider {
    var base: MemoryProvider
    let part: OfferPart
    /// An entry that is sent although it is not selected.
    var smuggled: UInt64?
    private var number: UInt64 = 0

    init(_ content: MemoryContent, _ part: OfferPart, smuggled: UInt64? = nil) {
        (base, self.part, self.smuggled) = (MemoryProvider(content), part, smuggled)
    }

    mutating func nextEntry() throws(Never) -> EntryHeader? {
        while let header = base.nextEntry() {
            defer { number += 1 }
            if part.selection.contains(number) || number == smuggled { return part.renumbered(header) ?? header }
        }
        return nil
    }
    mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(Never) -> Int { base.read(into: buffer) }
    mutating func seek(to offset: UInt64) throws(Never) { base.seek(to: offset) }
}

@Suite("a part of an offer") struct SelectionTests {
    private let now = MonotonicInstant(nanoseconds: 0)

    private func selection(_ ranges: ClosedRange<UInt64>...) throws -> EntrySelection {
        try #require(EntrySelection(ranges: ranges))
    }

    /// trip/ (a 3 bytes, day/ (b 5, c 7)), note 2 bytes.
    private func trip() -> MemoryContent {
        func entry(_ item: UInt32, _ path: [String], _ bytes: Int?) -> MemoryContent.Entry {
            MemoryContent.Entry(
                header: EntryHeader(
                    item: item, kind: bytes == nil ? .folder : .file, path: path.map(Samples.name), size: UInt64(bytes ?? 0),
                    modified: 1, permissions: nil), bytes: [UInt8](repeating: 7, count: bytes ?? 0))
        }
        return MemoryContent(
            entries: [
                entry(0, ["trip"], nil), entry(0, ["trip", "a"], 3), entry(0, ["trip", "day"], nil),
                entry(0, ["trip", "day", "b"], 5), entry(0, ["trip", "day", "c"], 7), entry(1, ["note"], 2),
            ],
            offer: Offer(
                items: [Samples.item(.folder, "trip", 15, entries: 5), Samples.item(.file, "note", 2)], itemCount: 2,
                entryCount: 6, totalSize: 17))
    }

    private func listed(_ content: MemoryContent, _ count: Int = .max) -> [EntryHeader] {
        content.entries.prefix(count).map(\.header.listed)
    }

    // MARK: Parts

    @Test func `a part is an offer of its own, numbered anew`() throws {
        let content = trip()
        let part = try #require(
            OfferPart(selection(0...0, 2...2, 4...5), of: content.offer, listed: listed(content)))
        #expect(
            part.offer
                == Offer(
                    items: [Samples.item(.folder, "trip", 7, entries: 3), Samples.item(.file, "note", 2)], itemCount: 2,
                    entryCount: 4, totalSize: 9))
        #expect(part.contents.map { $0.path.last } == ["trip", "day", "c", "note"].map(Samples.name))
        #expect(part.counts == OfferPart.Counts(accepted: 2, offered: 4, size: 9))
        let note = try #require(OfferPart(selection(5...5), of: content.offer, listed: []))
        #expect(note.offer.items == [Samples.item(.file, "note", 2)] && note.offer.entryCount == 1)
        #expect(note.renumbered(content.entries[5].header)?.item == 0 && note.renumbered(content.entries[0].header) == nil)
    }

    @Test("A13: a part that the offer and its list do not tell is none")
    func unknownParts() throws {
        let content = trip()
        func part(_ selection: EntrySelection, listed count: Int = .max) -> OfferPart? {
            OfferPart(selection, of: content.offer, listed: listed(content, count))
        }
        #expect(try part(selection(0...5)) != nil && part(selection(0...4), listed: 0) != nil)
        #expect(try part(selection(6...6)) == nil && part(selection(5...UInt64.max)) == nil, "beyond the offer")
        #expect(try part(selection(0...3), listed: 3) == nil, "an entry that is not listed")
        #expect(try part(selection(1...1)) == nil && part(selection(0...0, 3...3)) == nil, "without its folder")
        #expect(try part(selection(0...1), listed: 2)?.offer.totalSize == 3)
        // A list that names another item at this place.
        var lying = listed(content)
        lying[1].item = 1
        #expect(try OfferPart(selection(0...1), of: content.offer, listed: lying) == nil)
        var endless = content.offer
        endless.totalSize = nil
        endless.items[1].size = nil
        #expect(try OfferPart(selection(5...5), of: endless, listed: []) == nil, "of unknown size")
    }

    @Test func `items beyond the described ones are selected by the list`() throws {
        let entries = (0..<200).map { number in
            EntryHeader(
                item: UInt32(number), kind: .file, path: [Samples.name("f\(number)")], size: 1, modified: nil,
                permissions: nil)
        }
        let offer = Offer(
            items: (0..<128).map { Samples.item(.file, "f\($0)", 1) }, itemCount: 300, entryCount: 300, totalSize: 300)
        let part = try #require(OfferPart(selection(3...3, 150...199), of: offer, listed: entries))
        #expect(part.offer.itemCount == 51 && part.offer.totalSize == 51 && part.contents.count == 51)
        #expect(part.offer.items[1].name == Samples.name("f150") && part.contents[50].item == 50)
        #expect(part.counts == OfferPart.Counts(accepted: 51, offered: 300, size: 51))
        #expect(try OfferPart(selection(200...200), of: offer, listed: entries) == nil)
    }

    @Test("A13: what is selected arrives, for any tree; what is not is a violation", arguments: seeds(0..<100))
    func randomParts(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let content = MemoryContent.random(using: &random, largest: 100)
        let headers = content.entries.map(\.header)
        var numbers: Set<UInt64> = []
        for number in headers.indices where Bool.random(using: &random) {
            numbers.insert(UInt64(number))
            for folder in headers.indices[..<number]
            where headers[folder].item == headers[number].item && headers[folder].kind == .folder
                && headers[number].path.starts(with: headers[folder].path)
            {
                numbers.insert(UInt64(folder))
            }
        }
        guard let selection = EntrySelection(merging: numbers.map { $0...$0 }) else { return }
        #expect(
            selection.entryCount == UInt64(numbers.count)
                && headers.indices.allSatisfy { number in
                    selection.contains(UInt64(number)) == numbers.contains(UInt64(number))
                })
        let part = try #require(OfferPart(selection, of: content.offer, listed: listed(content)), "seed \(seed)")
        func send(smuggling: UInt64?) throws -> (isComplete: Bool, received: [MemoryContent.Entry]) {
            var provider = PartProvider(content, part, smuggled: smuggling)
            var outgoing = OutgoingContent(from: .beginning)
            var incoming = IncomingContent(offer: part.offer, resumePoint: .start, contents: part.contents)
            var receiver = MemoryReceiver()
            while !outgoing.isFinished {
                var buffer = [UInt8](repeating: 0, count: 90)
                let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
                do {
                    try buffer[..<count].withUnsafeBytes { try incoming.consume($0, into: &receiver) }
                } catch IncomingContentError<Never>.violation {
                    return (false, [])
                }
            }
            return (incoming.isComplete, receiver.entries)
        }
        let sent = try send(smuggling: nil)
        #expect(sent.isComplete)
        let expected = content.entries.indices.filter { numbers.contains(UInt64($0)) }.map { content.entries[$0] }
        #expect(sent.received.map(\.bytes) == expected.map(\.bytes))
        #expect(sent.received.map(\.header.path) == expected.map(\.header.path))
        for number in headers.indices where !numbers.contains(UInt64(number)) {
            #expect(try !send(smuggling: UInt64(number)).isComplete, "seed \(seed), entry \(number)")
        }
    }

    // MARK: Frames

    @Test("R1: a selection has 1 to 4095 ranges, which ascend and do not touch")
    func bounds() throws {
        let most = try #require(EntrySelection(ranges: (0..<UInt64(EntrySelection.maximumRangeCount)).map { $0 * 2...$0 * 2 }))
        let frame = ControlFrame.select(Samples.id, most).encoded
        #expect(try frame.count <= 64 << 10 && ControlFrame.decode(frame) == .select(Samples.id, most))
        func decode(_ ranges: [(UInt64, UInt64)]) throws -> ControlFrame? {
            let header = [FrameType.select] + Samples.id.rawValue.bigEndianBytes + UInt16(ranges.count).bigEndianBytes
            return try ControlFrame.decode(header + ranges.flatMap { $0.0.bigEndianBytes + $0.1.bigEndianBytes })
        }
        #expect(try decode([(0, 1), (3, .max)]) == .select(Samples.id, selection(0...1, 3...UInt64.max)))
        for bad: [(UInt64, UInt64)] in [
            [], [(2, 1)], [(0, 1), (2, 3)], [(0, 5), (3, 9)], [(5, 6), (0, 1)], [(0, .max), (0, 0)],
        ] {
            #expect(throws: MalformedInput.self, "\(bad)") { try decode(bad) }
        }
        #expect(throws: MalformedInput.self) { try decode((0..<4096).map { ($0 * 2, $0 * 2) }) }
        #expect(try selection(0...UInt64.max).entryCount == .max)
    }

    private func accepted(_ features: TransferFeatures) throws -> OutgoingTransfers {
        var transfers = OutgoingTransfers()
        _ = transfers.offer(
            TransferOffer(
                id: Samples.id, timeout: .seconds(60), resumeKey: Samples.digest, context: [], offer: Samples.offers[3],
                features: features), now: now)
        _ = try transfers.receiveAccept(Samples.id, window: 100, now: now)
        return transfers
    }

    @Test("A13: a selection that was not announced, is late, or is the second one is a violation")
    func order() throws {
        let (id, some) = (Samples.id, try selection(0...1))
        var transfers = try accepted([.sendsParts, .listsFiles])
        let selected = try transfers.receiveSelection(id, some)
        #expect(selected == [.partSelected(id, some)])
        var twice = transfers
        #expect(throws: MalformedInput.self) { try twice.receiveSelection(id, some) }
        let listed = try transfers.receiveListFiles(id)
        #expect(listed == [.listFiles(id)])
        #expect(throws: MalformedInput.self) { try transfers.receiveSelection(id, some) }
        let resumed = try transfers.receiveResume(id, at: .start)
        #expect(resumed == [.startSending(id, from: .start)])
        #expect(throws: MalformedInput.self) { try transfers.receiveSelection(id, some) }
        var unannounced = try accepted(.listsFiles)
        #expect(throws: MalformedInput.self) { try unannounced.receiveSelection(id, some) }
        var unanswered = OutgoingTransfers()
        #expect(throws: MalformedInput.self) { try unanswered.receiveSelection(id, some) }
        var cancelled = try accepted(.sendsParts)
        _ = cancelled.cancel(id, reason: .cancelled, now: now)
        let race = try cancelled.receiveSelection(id, some)
        #expect(race.isEmpty)
        _ = cancelled.receiveCancelled(id)
        let later = try cancelled.receiveSelection(id, some)
        #expect(later.isEmpty)
    }

    @Test func `a receiver sends its selection with the accept`() throws {
        var transfers = IncomingTransfers(limits: DirectLimits())
        _ = transfers.receiveOffer(
            TransferOffer(
                id: Samples.id, timeout: .seconds(60), resumeKey: Samples.digest, context: [], offer: Samples.offers[3]),
            now: now)
        let some = try selection(0...1)
        let reactions = transfers.accept(Samples.id, selecting: some, now: now)
        #expect(reactions == [.send(.accept(Samples.id, window: DirectLimits().window)), .send(.select(Samples.id, some))])
    }
}
