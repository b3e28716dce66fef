import NearshareBase
import NearshareDirect
import NearshareTesting

extension DecoderProperty {
    /// A content stream of an offer: parts of the genuine stream, parts left out, and marks, headers and content made up.
    static let incomingContent = Self(
        name: "incoming-content",
        seeds: [
            // The whole stream, from the start and resumed; then one of a made-up entry with its end mark.
            [3, 0, 0, 7], [5, 1, 1, 7], [9, 2, 40, 7], [0, 0, 0, 0, 25, 0, 3, 0, 0, 0, 20, 0, 4, 20, 0, 6],
            // Two files, of which the first is withdrawn from the beginning or in its middle, the other one sent in chunks.
            [1, 0, 0, 0, 25, 0, 8, 0, 0, 0, 20, 0, 9, 1, 0, 0, 20, 0, 5, 20, 0, 4, 20, 0, 6],
            [
                1, 0, 0, 0, 25, 0, 9, 0, 0, 0, 20, 0, 5, 4, 0, 4, 4, 0, 5, 0, 0, 9, 1, 0, 0, 20, 0, 5, 4, 0, 4, 4, 0, 5, 16, 0,
                4,
                16, 0, 6,
            ],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes)
        let story = ContentStory(&script)
        let stream = story.stream(&script)
        var whole = ContentRun(story)
        try whole.consume(stream.bytes)
        // The size of the pieces makes no difference.
        let size = 1 + script.number(below: 64)
        var pieces = ContentRun(story)
        for start in stride(from: 0, to: stream.bytes.count, by: size) {
            try pieces.consume(Array(stream.bytes[start..<min(start + size, stream.bytes.count)]))
        }
        try require(
            whole.recorder == pieces.recorder && whole.isRejected == pieces.isRejected
                && whole.content.isComplete == pieces.content.isComplete, "pieces of \(size) bytes give another result")
        if stream.isGenuine {
            try require(whole.content.isComplete, "a genuine stream is not accepted")
            try require(whole.recorder.bytes == story.expectedBytes, "a genuine stream gives other content")
        }
        return whole.content.isComplete
    }
}

/// An offer, what is kept of it, and the genuine stream of the rest.
private struct ContentStory {
    let content: MemoryContent
    let kept: MemoryReceiver
    private let keptByteCount: Int

    init(_ script: inout EventScript) {
        let seed = UInt64(script.number(below: 256))
        var random = SeededRandom(seed: seed)
        content =
            switch seed {
            case 0: MemoryContent(file: "a", random.bytes(20))
            case 1: MemoryContent(files: ["a", "b"], random.bytes(20))
            default: MemoryContent.random(using: &random, largest: 300, allowsUnknown: true)
            }
        // Only entries of known sizes are kept.
        let limit = content.entries.prefix { $0.header.size != nil }.count
        let count = min(script.number(below: 4), limit)
        let wanted = script.number(below: 256)
        let partial = count < limit ? min(wanted, content.entries[count].bytes.count) : 0
        kept = MemoryReceiver(kept: content, entries: count, bytes: partial)
        keptByteCount = content.entries.prefix(count).reduce(0) { $0 + $1.bytes.count } + partial
    }

    var expectedBytes: [UInt8] { Array(content.entries.flatMap(\.bytes).dropFirst(keptByteCount)) }

    /// The genuine stream.
    private var genuine: [UInt8] {
        var provider = MemoryProvider(content)
        let found = StartPoint.find(kept.resumePoint, in: &provider)
        if found == nil { provider = MemoryProvider(content) }
        var outgoing = OutgoingContent(from: found ?? .beginning)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while !outgoing.isFinished {
            let count = buffer.withUnsafeMutableBytes { outgoing.fill($0, from: &provider) }
            bytes += buffer[..<count]
        }
        return bytes
    }

    /// The stream that the script composes.
    func stream(_ script: inout EventScript) -> (bytes: [UInt8], isGenuine: Bool) {
        var rest = genuine[...]
        var bytes: [UInt8] = []
        var isGenuine = true
        var digest = EntriesDigest()
        var entryCount: UInt64 = 0
        while let event = script.nextEvent(below: 10) {
            switch event {
            case 0:
                let count = script.number(below: 1024)
                bytes += rest.prefix(count)
                rest = rest.dropFirst(count)
                continue
            case 7:
                bytes += rest
                rest = []
                continue
            case 1: rest = rest.dropFirst(script.number(below: 256))
            case 2: bytes += script.bytes(upTo: 16)
            case 3, 8, 9:
                // An entry with a size or without, in an item that may not be offered.
                let item = UInt32(script.number(below: 5))
                let offered = item < content.offer.items.count ? content.offer.items[Int(item)] : nil
                let name = offered.flatMap { script.number(below: 8) == 7 ? nil : $0.name } ?? ClaimedFileName("other")!
                let kind: EntryHeader.Kind = script.number(below: 4) == 3 ? .folder : .file
                let path = offered?.kind == .folder && kind == .file ? [name, ClaimedFileName("inner")!] : [name]
                let size = script.number(below: 512)
                let header = EntryHeader(
                    item: item, kind: kind, path: path,
                    size: kind == .folder ? 0 : size == 511 ? nil : size == 510 ? .max : UInt64(size), modified: nil,
                    permissions: nil)
                let encoded = header.encoded
                let marks = [8: ContentStreamFormat.withdrawnEntry, 9: ContentStreamFormat.chunkedEntry]
                bytes += [marks[event] ?? ContentStreamFormat.entry] + UInt16(encoded.count).bigEndianBytes + encoded
                digest.append(header)
                entryCount += 1
            case 4: bytes += [UInt8](repeating: 0x61, count: script.number(below: 512))
            case 5: bytes += UInt32(script.number(below: 512)).bigEndianBytes
            default:
                // An end mark that fits the made-up entries.
                bytes += [ContentStreamFormat.end] + entryCount.bigEndianBytes + digest.bytes
            }
            isGenuine = false
        }
        return (bytes, isGenuine && rest.isEmpty)
    }
}

/// One machine and the record of what it delivers.
private struct ContentRun {
    var content: IncomingContent
    var recorder: ContentRecorder
    private(set) var isRejected = false
    private let offer: Offer

    init(_ story: ContentStory) {
        offer = story.content.offer
        content = IncomingContent(offer: offer, resumePoint: story.kept.resumePoint, allowsWithdrawal: true)
        recorder = ContentRecorder(asked: story.kept.resumePoint)
    }

    mutating func consume(_ bytes: [UInt8]) throws(DecoderProperty.Violation) {
        guard !isRejected else { return }
        isRejected = bytes.withUnsafeBytes { (try? content.consume($0, into: &recorder)) == nil }
        if let fault = recorder.fault { throw DecoderProperty.Violation(description: fault) }
        try DecoderProperty.require(
            content.contentByteCount <= offer.totalSize ?? .max, "\(content.contentByteCount) bytes of an offer of fewer")
        try DecoderProperty.require(
            content.finishedEntryCount <= offer.entryCount, "\(content.finishedEntryCount) entries of an offer of fewer")
        try DecoderProperty.require(
            content.contentByteCount
                == content.resumedByteCount + UInt64(recorder.bytes.count) + recorder.withdrawnByteCount,
            "bytes that are not counted")
        guard content.isComplete, !isRejected else { return }
        try DecoderProperty.require(
            content.finishedEntryCount == offer.entryCount
                && content.contentByteCount == offer.totalSize ?? content.contentByteCount,
            "complete, and not as offered")
    }
}

/// Records the order of calls, and the bytes.
private struct ContentRecorder: ContentReceiver, Hashable {
    private(set) var headers: [EntryHeader] = []
    private(set) var bytes: [UInt8] = []
    private(set) var withdrawnByteCount: UInt64 = 0
    private(set) var fault: String?
    private var remaining: UInt64?
    private var isStarted = false
    private var isInEntry = false
    private let asked: ResumePoint

    init(asked: ResumePoint) { self.asked = asked }

    private mutating func expect(_ condition: Bool, _ what: String) { if !condition { fault = fault ?? what } }

    mutating func start(completeEntries: UInt64, offset: UInt64) throws(Never) {
        expect(!isStarted, "started twice")
        isStarted = true
        expect(
            (completeEntries, offset) == (0, 0) || (completeEntries, offset) == (asked.completeEntries, asked.partialSize),
            "starts where nobody asked")
    }

    mutating func keepPresent(_ header: EntryHeader, number: UInt64, digest: [UInt8]) throws(Never) {
        expect(false, "an entry is skipped that nobody has")
    }

    mutating func withdraw(_ header: EntryHeader) throws(Never) {
        expect(isStarted, "an entry is withdrawn before the start")
        // The received part is counted already.
        withdrawnByteCount += isInEntry ? remaining ?? 0 : header.size ?? 0
        isInEntry = false
    }

    mutating func begin(_ header: EntryHeader, at offset: UInt64, digest: [UInt8]) throws(Never) {
        expect(isStarted && !isInEntry, "an entry begins in another")
        (isInEntry, remaining) = (true, header.size)
        if let size = header.size {
            expect(offset <= size, "an offset beyond the entry")
            remaining = size - min(size, offset)
        }
        headers.append(header)
    }

    mutating func content(_ new: UnsafeRawBufferPointer) throws(Never) {
        expect(isInEntry && !new.isEmpty, "content outside of an entry, or none")
        if let left = remaining {
            expect(UInt64(new.count) <= left, "more content than the header says")
            remaining = left - min(left, UInt64(new.count))
        }
        bytes += new
    }

    mutating func endEntry() throws(Never) {
        expect(isInEntry && remaining ?? 0 == 0, "an entry ends early")
        isInEntry = false
    }
}
