import FoundationEssentials
import Glibc
import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareStorage
import NearshareTesting

extension DecoderProperty {
    /// A transfer into a real inbox that ends in the middle again and again, and whose journal is damaged in between.
    static let inboxJournal = Self(
        name: "inbox-journal",
        seeds: [
            // In one attempt; killed after each part; suspended, and with a damaged journal.
            [3], [7, 0, 200, 1, 0, 200, 1, 0, 250, 1], [9, 0, 250, 4, 220, 0, 99, 1, 0, 200, 2, 0, 50, 3, 0, 20, 1, 0, 1],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 24)
        let story = InboxStory(&script)
        while let event = script.nextEvent(below: 6) { try story.perform(event, &script) }
        try story.complete()
        return true
    }
}

private final class InboxStory {
    private static let detector = MediaTypeDetector()
    private static let sender = Fingerprint(bytes: [UInt8](repeating: 7, count: Fingerprint.byteCount))!

    private let scratch = ScratchFolder()
    private let content: MemoryContent
    private let inbox: Inbox
    private let now = Monitor(MonotonicInstant(nanoseconds: 1_000_000_000))
    private var attempt: Attempt?
    /// The staged content was altered, so that only its safety is checked.
    private var isDamaged = false

    init(_ script: inout EventScript) {
        var random = SeededRandom(seed: UInt64(script.number(below: 256)))
        var content = MemoryContent.random(using: &random, largest: 2_000)
        for (index, entry) in content.entries.enumerated() {
            guard case .link = entry.header.kind else { continue }
            // Beside the link, so that it does not lead out of its item.
            content.entries[index].header = EntryHeader(
                item: entry.header.item, kind: .link(target: Array("beside".utf8)), path: entry.header.path, size: 0,
                modified: nil, permissions: nil)
        }
        self.content = content
        var limits = InboxLimits()
        limits.minimumFreeByteCount = 0
        try! FileManager.default.createDirectory(atPath: scratch("state"), withIntermediateDirectories: false)
        inbox = try! Inbox(
            path: scratch("inbox"), spoolPath: scratch("state/spool"), limits: limits, detector: Self.detector)
    }

    func perform(_ event: Int, _ script: inout EventScript) throws(DecoderProperty.Violation) {
        guard attempt?.isFinished != true else { return }
        switch event {
        case 0:
            let count = script.number(below: 256) * 16
            try withAttempt { attempt throws(DecoderProperty.Violation) in try attempt.receive(count) }
        // The process is killed: what it has not written is gone.
        case 1: attempt = nil
        case 2:
            attempt?.sink.suspend()
            attempt = nil
        case 3: damage(script.number(below: 256), script.number(below: 256), UInt8(script.number(below: 256)))
        case 4:
            script.elapse()
            now.update { $0 = script.now.monotonic }
        default:
            attempt?.sink.discard()
            attempt = nil
        }
        // Nothing has a final name before everything is there.
        try DecoderProperty.require(try names().isEmpty || attempt?.isFinished == true, "a name in the inbox before the end")
    }

    /// Receives the rest; the items in the inbox are then those of the offer.
    func complete() throws(DecoderProperty.Violation) {
        for _ in 0..<3 where attempt?.isFinished != true {
            try withAttempt { attempt throws(DecoderProperty.Violation) in try attempt.receive(.max) }
        }
        guard attempt?.isFinished == true else {
            return try DecoderProperty.require(isDamaged, "an interrupted transfer that cannot be resumed")
        }
        let found = try files(in: scratch("inbox"))
        var expected: [String: [UInt8]] = [:]
        for entry in content.entries where entry.header.kind == .file {
            expected[entry.header.path.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/")] = entry.bytes
        }
        // Two entries of equal names are stored beside each other; then their number is enough.
        let names = Set(content.entries.map(\.header.path))
        guard names.count == content.entries.count, Set(content.offer.items.map(\.name)).count == content.offer.items.count,
            !isDamaged
        else { return }
        for (name, bytes) in expected {
            try DecoderProperty.require(found[name] == bytes, "\(name) has other content than was sent")
        }
    }

    private func withAttempt(
        _ body: (Attempt) throws(DecoderProperty.Violation) -> Void
    ) throws(DecoderProperty.Violation) {
        if attempt == nil {
            let clock: @Sendable () -> MonotonicInstant = { [now] in now.withLock { $0 } }
            do {
                let sink = try inbox.makeSink(
                    for: content.offer, from: Self.sender, resumeKey: ResumeKey.derive(from: content.offer), clock: clock)
                attempt = try Attempt(content, sink)
            } catch {
                try DecoderProperty.require(isDamaged, "the inbox refuses: \(error)")
            }
        }
        guard let attempt else { return }
        try body(attempt)
        if attempt.failure != nil {
            try DecoderProperty.require(isDamaged, "\(attempt.failure ?? "")")
            self.attempt = nil
        }
    }

    /// Changes a byte of a journal, or removes its end.
    private func damage(_ choice: Int, _ position: Int, _ byte: UInt8) {
        attempt = nil
        let journals = (try? FileManager.default.subpathsOfDirectory(atPath: scratch("state/spool")))?.sorted().filter {
            $0.hasSuffix("/journal") || $0.hasSuffix("/journal.safe") || $0.hasSuffix("/names")
        }
        guard let journals, !journals.isEmpty else { return }
        let path = scratch("state/spool/\(journals[choice % journals.count])")
        let file = open(path, O_RDWR)
        defer { close(file) }
        let size = Int(lseek(file, 0, SEEK_END))
        guard size > 0 else { return }
        isDamaged = true
        guard byte != 0 else {
            ftruncate(file, off_t(min(position, size)))
            return
        }
        withUnsafeBytes(of: byte) { _ = pwrite(file, $0.baseAddress, 1, off_t(position % size)) }
    }

    private func names() throws(DecoderProperty.Violation) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: scratch("inbox"))) ?? []).filter { $0 != ".nearshare" }
    }

    private func files(in folder: String) throws(DecoderProperty.Violation) -> [String: [UInt8]] {
        var files: [String: [UInt8]] = [:]
        for name in (try? FileManager.default.subpathsOfDirectory(atPath: folder)) ?? [] {
            let file = open("\(folder)/\(name)", O_RDONLY)
            defer { close(file) }
            var bytes = [UInt8](repeating: 0, count: 4_096)
            let count = bytes.withUnsafeMutableBytes { read(file, $0.baseAddress, $0.count) }
            if count >= 0 { files[name] = Array(bytes.prefix(count)) }
        }
        return files
    }
}

/// One attempt at a transfer, from the resume point of the one before.
private final class Attempt {
    let sink: any ResourceSink
    private(set) var isFinished = false
    private(set) var failure: String?
    private var provider: MemoryProvider
    private var outgoing: OutgoingContent
    private var incoming: IncomingContent
    private let point: ResumePoint

    init(_ content: MemoryContent, _ sink: any ResourceSink) throws {
        self.sink = sink
        point = try sink.resumePoint()
        provider = MemoryProvider(content)
        let found = StartPoint.find(point, in: &provider)
        if found == nil { provider = MemoryProvider(content) }
        outgoing = OutgoingContent(from: found ?? .beginning)
        incoming = IncomingContent(offer: content.offer, resumePoint: point)
    }

    func receive(_ limit: Int) throws(DecoderProperty.Violation) {
        guard !isFinished else { return }
        do {
            var remaining = limit
            var receiver = SinkReceiver(sink: sink, asked: point)
            var buffer = [UInt8](repeating: 0, count: 1_000)
            while remaining > 0, !incoming.isComplete {
                let size = min(remaining, buffer.count)
                let count = buffer.withUnsafeMutableBytes {
                    outgoing.fill(UnsafeMutableRawBufferPointer(rebasing: $0[..<size]), from: &provider)
                }
                // A chunk of unknown size needs more room.
                guard count > 0 else { break }
                remaining -= count
                try buffer.withUnsafeBytes {
                    try incoming.consume(UnsafeRawBufferPointer(rebasing: $0[..<count]), into: &receiver)
                }
            }
            guard incoming.isComplete else { return }
            _ = try sink.finish()
            isFinished = true
        } catch {
            failure = "\(error)"
        }
    }
}
