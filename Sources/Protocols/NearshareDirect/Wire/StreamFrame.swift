package import NearshareBase

/// Names a byte stream of one link. Streams that the link's initiator opens have odd numbers, the responder's even ones; each
/// number is used once, in rising order.
package struct StreamID: Sendable, Hashable, Comparable {
    /// Never 0.
    package let rawValue: UInt32

    /// A number that came with a frame, or is next.
    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// The name of a stream, for the program at the other end: at most 255 bytes of UTF-8.
public struct StreamName: Sendable, Hashable {
    /// The length is one byte.
    package static let maximumByteCount = 255
    /// The untrusted text; `TerminalText.escaped` makes it safe to show.
    public let text: String

    /// - Returns: nil for more than ``maximumByteCount`` bytes.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumByteCount else { return nil }
        self.text = text
    }

    /// Fit for a terminal.
    package var shown: String { TerminalText.escaped(text) }
}

/// What a stream is for.
package enum StreamPurpose: UInt8, Sendable, Hashable {
    /// Bytes between two programs.
    case bytes = 0
    /// Messages of a session, one after the other.
    case messages = 1
    /// A link between two members of a session through a third, who can't read it.
    case relay = 2
}

/// Why a stream ends before its end.
public enum StreamResetReason: UInt8, Sendable, Hashable {
    /// The program at that end wants no more of it.
    case cancelled = 0
    /// Nobody there takes streams of this name or purpose.
    case refused = 1
    /// More are open than that end takes.
    case tooMany = 2
}

/// Frames of byte streams, which share a link with transfers (`docs/PROTOCOL.md`, section 11).
package enum StreamFrame: Sendable, Hashable {
    /// What both ends may send on a stream before the other has said a word.
    package static let initialWindow: UInt64 = 256 << 10
    /// As much as a content frame holds.
    package static let maximumDataByteCount = RecordFormat.maximumContentByteCount

    /// A new stream. Data may follow at once.
    case open(StreamID, StreamPurpose, StreamName)
    /// 1 to ``maximumDataByteCount`` bytes.
    case data(StreamID, ArraySlice<UInt8>)
    /// So many bytes of the stream, counted from its start, may be sent.
    case credit(StreamID, upTo: UInt64)
    /// Nothing more comes in this direction.
    case finish(StreamID)
    /// Both directions are over; what was on its way is lost.
    case reset(StreamID, StreamResetReason)

    /// Of the stream that it is about.
    package var id: StreamID {
        switch self {
        case .open(let id, _, _), .data(let id, _), .credit(let id, _), .finish(let id), .reset(let id, _): id
        }
    }

    /// As bytes of a record.
    package var encoded: [UInt8] {
        var writer = ByteWriter(reserving: 16)
        switch self {
        case .open(let id, let purpose, let name):
            writer.write(FrameType.streamOpen)
            writer.write(id.rawValue)
            writer.write(purpose.rawValue)
            writer.writeCounted(name.text.utf8, by: UInt8.self)
        case .data(let id, let bytes):
            writer = ByteWriter(reserving: 5 + bytes.count)
            writer.write(FrameType.streamData)
            writer.write(id.rawValue)
            writer.write(bytes)
        case .credit(let id, let limit):
            writer.write(FrameType.streamCredit)
            writer.write(id.rawValue)
            writer.write(limit)
        case .finish(let id):
            writer.write(FrameType.streamFinish)
            writer.write(id.rawValue)
        case .reset(let id, let reason):
            writer.write(FrameType.streamReset)
            writer.write(id.rawValue)
            writer.write(reason.rawValue)
        }
        return writer.bytes
    }

    /// - Returns: nil for a frame of another kind.
    package init?(decoding frame: ArraySlice<UInt8>) throws(MalformedInput) {
        guard let type = frame.first, (FrameType.streamOpen...FrameType.streamReset).contains(type) else { return nil }
        var reader = ByteReader(frame.dropFirst(), of: "stream frame")
        let id = StreamID(rawValue: try reader.readInteger())
        guard id.rawValue > 0 else { throw MalformedInput("stream frame: no stream has the number 0") }
        switch type {
        case FrameType.streamOpen:
            guard let purpose = StreamPurpose(rawValue: try reader.readInteger()) else {
                throw MalformedInput("stream frame: an unknown purpose")
            }
            let name = try reader.readCounted(by: UInt8.self, upTo: StreamName.maximumByteCount, field: "the name")
            guard let text = String(validating: name, as: UTF8.self) else {
                throw MalformedInput("stream frame: the name is not valid UTF-8")
            }
            self = .open(id, purpose, StreamName(text)!)
        case FrameType.streamData:
            let bytes = reader.readRemaining()
            guard (1...Self.maximumDataByteCount).contains(bytes.count) else {
                throw MalformedInput("stream frame: 1 to \(Self.maximumDataByteCount) bytes are data")
            }
            self = .data(id, bytes)
        case FrameType.streamCredit: self = .credit(id, upTo: try reader.readInteger())
        case FrameType.streamFinish: self = .finish(id)
        default: self = .reset(id, StreamResetReason(rawValue: try reader.readInteger()) ?? .cancelled)
        }
        try reader.finish()
    }
}
