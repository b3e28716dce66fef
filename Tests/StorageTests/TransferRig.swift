import Glibc
import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTesting
import Testing

// The other names in there are those of the in-memory forms in NearshareInterfaces, which this target is about.
import class NearshareTesting.ScratchFolder

@testable import NearshareStorage

typealias ScratchFolder = NearshareTesting.ScratchFolder

extension ScratchFolder {
    /// Writes a file, with the folders that it needs.
    @discardableResult
    func write(_ name: String, _ content: [UInt8], modified: Int64? = nil) throws -> String {
        var directory = path
        for part in name.split(separator: "/").dropLast() {
            directory += "/\(part)"
            mkdir(directory, 0o700)
        }
        let file = FileDescriptor(owning: open("\(path)/\(name)", O_WRONLY | O_CREAT | O_TRUNC, 0o600))
        try #require(file.rawValue >= 0, "cannot write \(name)")
        try file.write(content)
        if let modified { file.setModified(modified) }
        return self(name)
    }

    func makeFolder(_ name: String) { mkdir(self(name), 0o700) }

    func read(_ name: String) throws -> [UInt8] {
        try FileDescriptor.openForReading(path: self(name)).read(upTo: 1 << 30)
    }

    func status(_ name: String) throws -> stat {
        var status = stat()
        try #require(lstat(self(name), &status) == 0, "no \(name)")
        return status
    }

    func exists(_ name: String) -> Bool {
        var status = stat()
        return lstat(self(name), &status) == 0
    }

    /// Everything below a folder of it, each with its kind: `d name`, `f name`, `l name`; hidden staging excluded.
    func tree(_ name: String) -> [String] {
        func walk(_ directory: FileDescriptor, _ prefix: String) -> [String] {
            ((try? directory.names()) ?? []).flatMap { child -> [String] in
                if prefix.isEmpty, child == ".nearshare" { return [] }
                var status = stat()
                fstatat(directory.rawValue, child, &status, AT_SYMLINK_NOFOLLOW)
                switch status.st_mode & S_IFMT {
                case S_IFDIR:
                    let below = (try? directory.openDirectory(child)).map { walk($0, "\(prefix)\(child)/") } ?? []
                    return ["d \(prefix)\(child)"] + below
                case S_IFLNK: return ["l \(prefix)\(child)"]
                default: return ["f \(prefix)\(child)"]
                }
            }
        }
        return (try? FileDescriptor.openDirectory(path: self(name))).map { walk($0, "") } ?? []
    }
}

let anna = Fingerprint(bytes: [UInt8](repeating: 7, count: 32))!
let someKey = [UInt8](repeating: 9, count: 32)

/// Random bytes that are the same in every run.
func bytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var state = seed &* 0x9e37_79b9_7f4a_7c15 | 1
    return (0..<count).map { _ in
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return UInt8(truncatingIfNeeded: state)
    }
}

struct RigFailure: Error, CustomStringConvertible {
    let description: String
}

/// Moves content from a source to a sink through the real stream, cut off where a test wants it.
struct TransferRig {
    /// Bytes that travel at once.
    var recordSize = 1000
    /// After so many bytes of the stream the connection is gone.
    var cut: Int?
    /// Whether files are compared before they are sent, where the sink does that.
    var comparesFiles = false
    /// Whether both ends know withdrawn entries.
    var withdrawsEntries = false

    struct Result {
        /// nil when it was cut.
        var delivered: [DeliveredItem]?
        /// Bytes of content that did not have to be sent.
        var resumed: UInt64
        var streamByteCount: Int
        var compared: ComparedFiles?
    }

    @discardableResult
    func move(_ source: any ResourceSource, to sink: any ResourceSink) throws -> Result {
        let point = try sink.resumePoint()
        let present = comparesFiles && sink.comparesFiles ? try compare(source, with: sink) : .none
        try sink.checkLimits()
        var provider = try Provider(of: source, withdrawsEntries)
        var start = StartPoint.beginning
        if point != .start {
            if let found = try StartPoint.find(point, in: &provider) {
                start = found
            } else {
                provider = try Provider(of: source, withdrawsEntries)
            }
        }
        var outgoing = OutgoingContent(from: start, present: present, withdrawsEntries: withdrawsEntries)
        var incoming = IncomingContent(
            offer: source.offer, resumePoint: point, present: present, allowsWithdrawal: withdrawsEntries)
        var receiver = SinkReceiver(sink: sink, asked: point)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: recordSize, alignment: 16)
        defer { buffer.deallocate() }
        var total = 0
        while !incoming.isComplete {
            var count = try outgoing.fill(buffer, from: &provider)
            if let cut, total + count >= cut {
                count = cut - total
                try consume(UnsafeRawBufferPointer(rebasing: buffer[..<count]), &incoming, &receiver)
                return Result(delivered: nil, resumed: incoming.resumedByteCount, streamByteCount: cut)
            }
            total += count
            try consume(UnsafeRawBufferPointer(rebasing: buffer[..<count]), &incoming, &receiver)
        }
        return Result(
            delivered: try sink.finish(), resumed: incoming.resumedByteCount, streamByteCount: total, compared: present.counts)
    }

    private func compare(_ source: any ResourceSource, with sink: any ResourceSink) throws -> PresentFiles {
        var outgoing = OutgoingFileList(of: source.offer)
        var incoming = IncomingFileList(of: source.offer)
        var comparer = Comparer(sink: sink)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: recordSize, alignment: 16)
        defer { buffer.deallocate() }
        while !incoming.isComplete {
            var provider = try Provider(of: source)
            while !outgoing.isPartFinished {
                let count = try outgoing.fill(buffer, from: &provider)
                do {
                    try incoming.consume(UnsafeRawBufferPointer(rebasing: buffer[..<count]), with: &comparer)
                } catch {
                    throw RigFailure(description: "\(error)")
                }
            }
            if incoming.isListed { incoming.beginComparison() }
            if !incoming.isComplete { outgoing.begin(hashing: incoming.candidates) }
        }
        return incoming.presentFiles
    }

    private struct Comparer: FileComparer {
        let sink: any ResourceSink

        mutating func compare(
            _ header: EntryHeader, encodedHeader: [UInt8], number: UInt64
        ) throws(StorageError) -> FilePresence {
            try sink.compare(header, encodedHeader: encodedHeader, number: number)
        }
        mutating func decide(number: UInt64, digest: [UInt8]) throws(StorageError) -> FilePresence {
            try sink.compareDigest(digest, number: number)
        }
    }

    /// Bytes that the whole of it takes in a stream.
    static func streamByteCount(of source: any ResourceSource, withdrawsEntries: Bool = false) throws -> Int {
        var provider = try Provider(of: source, withdrawsEntries)
        var outgoing = OutgoingContent(from: .beginning, withdrawsEntries: withdrawsEntries)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var total = 0
        while !outgoing.isFinished { total += try outgoing.fill(buffer, from: &provider) }
        return total
    }

    private func consume(
        _ bytes: UnsafeRawBufferPointer, _ incoming: inout IncomingContent, _ receiver: inout SinkReceiver
    ) throws {
        do {
            try incoming.consume(bytes, into: &receiver)
        } catch {
            switch error {
            case .violation(let what): throw RigFailure(description: what.description)
            case .receiver(let failure): throw failure
            }
        }
    }

    private struct Provider: ContentProvider {
        let reader: any ResourceReader

        init(of source: any ResourceSource, _ withdrawsEntries: Bool = false) throws(StorageError) {
            reader = try source.makeReader()
            if withdrawsEntries { reader.allowWithdrawal() }
        }

        var isWithdrawn: Bool { reader.withdrawal != nil }
        mutating func nextEntry() throws(StorageError) -> EntryHeader? { try reader.nextEntry() }
        mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
            try reader.read(into: buffer)
        }
        mutating func seek(to offset: UInt64) throws(StorageError) { try reader.seek(to: offset) }
    }
}

/// A real inbox in a scratch folder.
struct InboxRig: Sendable {
    let scratch: ScratchFolder
    let inbox: Inbox
    let clock = ManualClock()

    static let detector = MediaTypeDetector()

    init(scratch: ScratchFolder = ScratchFolder(), inboxPath: String? = nil, limits: InboxLimits = Self.limits) throws {
        self.scratch = scratch
        scratch.makeFolder("state")
        inbox = try Inbox(
            path: inboxPath ?? scratch("inbox"), spoolPath: scratch("state/spool"), limits: limits, detector: Self.detector)
    }

    /// A small machine's disk may have less than the usual reserve.
    static var limits: InboxLimits {
        var limits = InboxLimits()
        limits.minimumFreeByteCount = 0
        return limits
    }

    func sink(_ offer: Offer, key: [UInt8] = someKey, from sender: Fingerprint = anna) throws -> any ResourceSink {
        try inbox.makeSink(for: offer, from: sender, resumeKey: key, clock: clock.read)
    }

    @discardableResult
    func receive(_ source: any ResourceSource, key: [UInt8] = someKey, recordSize: Int = 1000) throws -> [DeliveredItem] {
        let result = try TransferRig(recordSize: recordSize).move(source, to: try sink(source.offer, key: key))
        return try #require(result.delivered)
    }
}

func unlinkFile(_ path: String) { unlink(path) }
func renameFile(_ path: String, _ newPath: String) { rename(path, newPath) }

/// Hands entries to a sink as they are, past the checks of the stream: what a sink must withstand by itself.
func drive(_ entries: [InMemorySource.Entry], into sink: any ResourceSink) throws -> [DeliveredItem] {
    let point = try sink.resumePoint()
    #expect(point == .start)
    try sink.resume(at: point)
    for entry in entries {
        try sink.begin(entry.header, at: 0, entriesDigest: [UInt8](repeating: 1, count: 32))
        if entry.header.kind == .file { try entry.content.withUnsafeBytes { try sink.write($0) } }
        try sink.endEntry()
    }
    return try sink.finish()
}
