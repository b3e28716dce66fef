package import NearshareBase

extension ControlFrame {
    /// The frame's bytes: type, then fields.
    package var encoded: [UInt8] {
        var writer = ByteWriter(reserving: 64)
        switch self {
        case .hello(let name, let commitment, let time):
            writer.write(FrameType.hello)
            writer.write(commitment)
            writer.write(UInt64(bitPattern: time.milliseconds))
            writer.writeCounted(name.claimed.utf8, by: UInt8.self)
        case .reveal(let nonce):
            writer.write(FrameType.reveal)
            writer.write(nonce)
        case .ping(let token):
            writer.write(FrameType.ping)
            writer.write(token)
        case .pong(let token):
            writer.write(FrameType.pong)
            writer.write(token)
        case .close(let reason):
            writer.write(FrameType.close)
            writer.write(reason.rawValue)
        case .compare: writer.write(FrameType.compare)
        case .compared(let isSame):
            writer.write(FrameType.compared)
            writer.write(UInt8(isSame ? 1 : 0))
        case .features(let features):
            writer.write(FrameType.features)
            writer.write(features.rawValue)
        case .contents(let id, let entries):
            writer.write(FrameType.contents)
            writer.write(id.rawValue)
            let encoded = Self.encodedPrefix(of: entries)
            writer.write(UInt16(clamping: encoded.count))
            for header in encoded { writer.writeCounted(header, by: UInt16.self) }
        case .offer(let offer):
            writer.write(FrameType.offer)
            writer.write(offer.id.rawValue)
            writer.write(UInt16(clamping: offer.timeout.components.seconds))
            writer.write(offer.resumeKey)
            writer.writeCounted(offer.context, by: UInt16.self)
            offer.offer.write(to: &writer)
        case .accept(let id, let window):
            writer.write(FrameType.accept)
            writer.write(id.rawValue)
            writer.write(window)
        case .decline(let id, let reason):
            writer.write(FrameType.decline)
            writer.write(id.rawValue)
            writer.write(reason?.rawValue ?? DeclineReason.expiredNumber)
        case .resume(let id, let point):
            writer.write(FrameType.resume)
            writer.write(id.rawValue)
            writer.write(point.completeEntries)
            writer.writeCounted(point.entriesDigest, by: UInt8.self)
            writer.write(point.partialSize)
            writer.writeCounted(point.partialDigest, by: UInt8.self)
        case .select(let id, let selection):
            writer.write(FrameType.select)
            writer.write(id.rawValue)
            writer.write(UInt16(clamping: selection.ranges.count))
            for range in selection.ranges {
                writer.write(range.lowerBound)
                writer.write(range.upperBound)
            }
        case .listFiles(let id):
            writer.write(FrameType.listFiles)
            writer.write(id.rawValue)
        case .candidates(let id, let files):
            writer.write(FrameType.candidates)
            writer.write(id.rawValue)
            files.write(to: &writer)
        case .present(let id, let identical, let newer):
            writer.write(FrameType.present)
            writer.write(id.rawValue)
            identical.write(to: &writer)
            newer.write(to: &writer)
        case .credit(let id, let limit):
            writer.write(FrameType.credit)
            writer.write(id.rawValue)
            writer.write(limit)
        case .changedNames(let id, let names):
            writer.write(FrameType.changedNames)
            writer.write(id.rawValue)
            writer.write(names.count)
            writer.write(UInt8(clamping: names.listed.count))
            for change in names.listed {
                writer.writeCounted(change.claimed.bytes, by: UInt8.self)
                writer.writeCounted(change.stored.bytes, by: UInt8.self)
            }
        case .stored(let id):
            writer.write(FrameType.stored)
            writer.write(id.rawValue)
        case .cancel(let id, let reason):
            writer.write(FrameType.cancel)
            writer.write(id.rawValue)
            writer.write(reason.rawValue)
        case .cancelled(let id):
            writer.write(FrameType.cancelled)
            writer.write(id.rawValue)
        case .hotspot(let frame): frame.write(to: &writer)
        }
        return writer.bytes
    }

    /// Limit on the bytes of ``contents(_:_:)``.
    package static let maximumContentsByteCount = 64 << 10
    /// Limit on the entries of ``contents(_:_:)``: each is held in memory until the offer is answered.
    package static let maximumContentsCount = 256
    /// Limit on the components of all paths of ``contents(_:_:)``: each takes about 60 bytes of memory, where it may have one.
    package static let maximumContentsComponentCount = 4_096

    /// The first entries, while the frame has room for them.
    private static func encodedPrefix(of entries: [EntryHeader]) -> [[UInt8]] {
        var remainingByteCount = maximumContentsByteCount - 1 - 8 - 2
        var encoded: [[UInt8]] = []
        var componentCount = 0
        for header in entries.prefix(maximumContentsCount) {
            // Bounded: at most 256 entries of 128 components.
            componentCount += header.path.count
            guard componentCount <= maximumContentsComponentCount else { break }
            let bytes = header.encoded
            // Bounded: a header has less than 64 KiB.
            remainingByteCount -= MemoryLayout<UInt16>.size + bytes.count
            guard remainingByteCount >= 0 else { break }
            encoded.append(bytes)
        }
        return encoded
    }

    /// Decodes exactly one frame.
    /// - Returns: nil for a type that this version does not know; the receiver skips such frames.
    package static func decode(_ bytes: [UInt8]) throws(MalformedInput) -> ControlFrame? {
        var reader = ByteReader(bytes, of: "frame")
        let type: UInt8 = try reader.readInteger()
        let frame: ControlFrame
        switch type {
        case FrameType.hello:
            let commitment = Array(try reader.readBytes(32))
            let time: UInt64 = try reader.readInteger()
            let name = try reader.readCounted(by: UInt8.self, upTo: DisplayName.maximumByteCount, field: "display name")
            do {
                frame = .hello(
                    name: try DisplayName(utf8: name), commitment: commitment,
                    time: WallTime(milliseconds: Int64(bitPattern: time)))
            } catch {
                throw MalformedInput("hello: \(error)")
            }
        case FrameType.reveal: frame = .reveal(nonce: Array(try reader.readBytes(32)))
        case FrameType.ping: frame = .ping(try reader.readInteger())
        case FrameType.pong: frame = .pong(try reader.readInteger())
        case FrameType.close:
            // A reason of a later version closes the link all the same.
            frame = .close(CloseReason(rawValue: try reader.readInteger()) ?? .goingAway)
        case FrameType.compare: frame = .compare
        case FrameType.compared: frame = .compared(isSame: try reader.readInteger(UInt8.self) == 1)
        case FrameType.features: frame = .features(TransferFeatures(rawValue: try reader.readInteger()))
        case FrameType.contents:
            guard bytes.count <= maximumContentsByteCount else { throw MalformedInput("contents: too long") }
            let id = try reader.readTransferID()
            let count: UInt16 = try reader.readInteger()
            guard count <= maximumContentsCount else { throw MalformedInput("contents: too many entries") }
            var entries: [EntryHeader] = []
            var componentCount = 0
            for _ in 0..<count {
                let encoded = try reader.readCounted(
                    by: UInt16.self, upTo: EntryHeader.maximumEncodedByteCount, field: "entry")
                let header = try EntryHeader(decoding: encoded)
                guard header == header.listed else { throw MalformedInput("contents: more than is listed") }
                // Bounded: at most 256 entries of 128 components.
                componentCount += header.path.count
                guard componentCount <= maximumContentsComponentCount else { throw MalformedInput("contents: too deep") }
                entries.append(header)
            }
            frame = .contents(id, entries)
        case FrameType.offer:
            let id = try reader.readTransferID()
            let timeout: UInt16 = try reader.readInteger()
            let resumeKey = Array(try reader.readBytes(32))
            let context = try reader.readCounted(
                by: UInt16.self, upTo: TransferOffer.maximumContextByteCount, field: "context")
            let offer = try Offer(from: &reader)
            frame = .offer(
                TransferOffer(
                    id: id, timeout: .seconds(Int64(timeout)), resumeKey: resumeKey, context: Array(context), offer: offer))
        case FrameType.accept: frame = .accept(try reader.readTransferID(), window: try reader.readInteger())
        case FrameType.decline:
            let id = try reader.readTransferID()
            let number: UInt8 = try reader.readInteger()
            let reason = DeclineReason(rawValue: number) ?? .declined
            frame = .decline(id, number == DeclineReason.expiredNumber ? nil : reason)
        case FrameType.resume:
            let id = try reader.readTransferID()
            let complete: UInt64 = try reader.readInteger()
            let entriesDigest = try reader.readDigest()
            let partial: UInt64 = try reader.readInteger()
            let partialDigest = try reader.readDigest()
            guard entriesDigest.isEmpty == (complete == 0), partialDigest.isEmpty == (partial == 0) else {
                throw MalformedInput("resume: a digest without content, or content without a digest")
            }
            frame = .resume(
                id,
                ResumePoint(
                    completeEntries: complete, entriesDigest: entriesDigest, partialSize: partial,
                    partialDigest: partialDigest))
        case FrameType.select: frame = .select(try reader.readTransferID(), try reader.readSelection())
        case FrameType.listFiles: frame = .listFiles(try reader.readTransferID())
        case FrameType.candidates: frame = .candidates(try reader.readTransferID(), try FileSet(from: &reader))
        case FrameType.present:
            let id = try reader.readTransferID()
            let (identical, newer) = (try FileSet(from: &reader), try FileSet(from: &reader))
            guard identical.count == newer.count, identical.isDisjoint(with: newer) else {
                throw MalformedInput("present: two sets that do not match")
            }
            frame = .present(id, identical: identical, newer: newer)
        case FrameType.credit: frame = .credit(try reader.readTransferID(), upTo: try reader.readInteger())
        case FrameType.changedNames:
            frame = .changedNames(try reader.readTransferID(), try reader.readChangedNames())
        case FrameType.stored: frame = .stored(try reader.readTransferID())
        case FrameType.cancel:
            frame = .cancel(
                try reader.readTransferID(), CancelReason(rawValue: try reader.readInteger()) ?? .cancelled)
        case FrameType.cancelled: frame = .cancelled(try reader.readTransferID())
        default:
            guard let hotspot = try HotspotFrame(type: type, from: &reader) else { return nil }
            frame = .hotspot(hotspot)
        }
        try reader.finish()
        return frame
    }
}

extension ByteReader {
    fileprivate mutating func readTransferID() throws(MalformedInput) -> TransferID {
        TransferID(rawValue: try readInteger())
    }

    fileprivate mutating func readSelection() throws(MalformedInput) -> EntrySelection {
        let count: UInt16 = try readInteger()
        guard count <= EntrySelection.maximumRangeCount else { throw MalformedInput("select: too many ranges") }
        var ranges: [ClosedRange<UInt64>] = []
        for _ in 0..<count {
            let (first, last): (UInt64, UInt64) = (try readInteger(), try readInteger())
            guard first <= last else { throw MalformedInput("select: a range that ends before it begins") }
            ranges.append(first...last)
        }
        guard let selection = EntrySelection(ranges: ranges) else {
            throw MalformedInput("select: no range, or ranges that do not ascend")
        }
        return selection
    }

    fileprivate mutating func readChangedNames() throws(MalformedInput) -> ChangedNames {
        let count: UInt64 = try readInteger()
        let listedCount: UInt8 = try readInteger()
        guard listedCount <= ChangedNames.maximumListedCount, listedCount <= count else {
            throw MalformedInput("changed names: \(listedCount) of \(count) names")
        }
        var listed: [ChangedNames.Change] = []
        for _ in 0..<listedCount {
            listed.append(ChangedNames.Change(try readFileName(), storedAs: try readFileName()))
        }
        return ChangedNames(count: count, listed: listed)
    }

    private mutating func readFileName() throws(MalformedInput) -> ClaimedFileName {
        let bytes = try readCounted(by: UInt8.self, upTo: ClaimedFileName.maximumByteCount, field: "name")
        guard let name = ClaimedFileName(bytes: bytes) else { throw MalformedInput("changed names: a long name") }
        return name
    }

    /// Reads a SHA-256 digest, or an empty field.
    fileprivate mutating func readDigest() throws(MalformedInput) -> [UInt8] {
        let digest = try readCounted(by: UInt8.self, upTo: 32, field: "digest")
        guard digest.isEmpty || digest.count == 32 else { throw MalformedInput("resume: a digest of \(digest.count) bytes") }
        return Array(digest)
    }
}
