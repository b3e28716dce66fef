internal import NearshareBase

/// The frames of a ``MessageChannel`` (`docs/PROTOCOL.md`, section 12.4).
enum ChannelFrame: Sendable, Hashable {
    /// The first frame of each direction on a link: the sender's epoch, the receiver's as the sender knows it (0 for none), and
    /// the number of the message that the sender expects next.
    case resume(ownEpoch: UInt64, peerEpoch: UInt64, expected: UInt64)
    /// A message with its number and an acknowledgement.
    case message(number: UInt64, acknowledged: UInt64, kind: UInt8, bytes: ArraySlice<UInt8>)
    /// All messages below this number were delivered to the program.
    case acknowledgement(UInt64)
    /// All messages below `next` were delivered to the program, and later ones in these ranges, which ascend and do not touch.
    case selectiveAcknowledgement(next: UInt64, [Range<UInt64>])
    /// The sender's metadata, with the number of the change. It takes no room in the window: a receiver holds the latest one.
    case metadata(revision: UInt64, bytes: ArraySlice<UInt8>)

    private enum FrameType {
        static let resume: UInt8 = 0
        static let message: UInt8 = 1
        static let acknowledgement: UInt8 = 2
        static let metadata: UInt8 = 3
        static let selectiveAcknowledgement: UInt8 = 4
    }

    /// Limit on the ranges of a selective acknowledgement; further ones go into the next frame.
    static let maximumRangeCount = 64

    var encoded: [UInt8] {
        switch self {
        case .resume(let ownEpoch, let peerEpoch, let expected):
            var writer = ByteWriter(reserving: 25)
            writer.write(FrameType.resume)
            writer.write(ownEpoch)
            writer.write(peerEpoch)
            writer.write(expected)
            return writer.bytes
        case .message(let number, let acknowledged, let kind, let bytes):
            var writer = ByteWriter(reserving: 18 + bytes.count)
            writer.write(FrameType.message)
            writer.write(number)
            writer.write(acknowledged)
            writer.write(kind)
            writer.write(bytes)
            return writer.bytes
        case .acknowledgement(let number):
            var writer = ByteWriter(reserving: 9)
            writer.write(FrameType.acknowledgement)
            writer.write(number)
            return writer.bytes
        case .metadata(let revision, let bytes):
            var writer = ByteWriter(reserving: 9 + bytes.count)
            writer.write(FrameType.metadata)
            writer.write(revision)
            writer.write(bytes)
            return writer.bytes
        case .selectiveAcknowledgement(let next, let ranges):
            var writer = ByteWriter(reserving: 9 + 16 * ranges.count)
            writer.write(FrameType.selectiveAcknowledgement)
            writer.write(next)
            for range in ranges {
                writer.write(range.lowerBound)
                writer.write(range.upperBound)
            }
            return writer.bytes
        }
    }

    /// - Returns: nil for a type that this version does not know; the receiver skips such frames.
    init?(decoding frame: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(frame, of: "message")
        switch try reader.readInteger(UInt8.self) {
        case FrameType.resume:
            self = .resume(
                ownEpoch: try reader.readInteger(), peerEpoch: try reader.readInteger(), expected: try reader.readInteger())
            try reader.finish()
        case FrameType.message:
            let number: UInt64 = try reader.readInteger()
            let acknowledged: UInt64 = try reader.readInteger()
            let kind: UInt8 = try reader.readInteger()
            let bytes = reader.readRemaining()
            guard bytes.count <= SessionMessage.maximumByteCount else {
                throw MalformedInput("message: it is longer than \(SessionMessage.maximumByteCount) bytes")
            }
            self = .message(number: number, acknowledged: acknowledged, kind: kind, bytes: bytes)
        case FrameType.acknowledgement:
            self = .acknowledgement(try reader.readInteger())
            try reader.finish()
        case FrameType.metadata:
            self = .metadata(revision: try reader.readInteger(), bytes: reader.readRemaining())
        case FrameType.selectiveAcknowledgement:
            let next: UInt64 = try reader.readInteger()
            var ranges: [Range<UInt64>] = []
            while ranges.isEmpty || reader.remaining > 0 {
                let first: UInt64 = try reader.readInteger()
                let end: UInt64 = try reader.readInteger()
                guard ranges.count < Self.maximumRangeCount, first > ranges.last?.upperBound ?? next, end > first else {
                    throw MalformedInput("message: invalid ranges of acknowledged messages")
                }
                ranges.append(first..<end)
            }
            self = .selectiveAcknowledgement(next: next, ranges)
        default: return nil
        }
    }
}
