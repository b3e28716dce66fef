package import NearshareBase

/// The frames of byte streams (`docs/PROTOCOL.md`, section 11).
package enum StreamFrame: Sendable, Hashable {
    /// The bytes that each side may send on a new stream before the first credit.
    package static let initialWindow: UInt64 = 256 << 10
    /// Limit on the data of one frame.
    package static let maximumDataByteCount = RecordFormat.maximumContentByteCount

    /// Opens a stream. Data may follow at once.
    case open(StreamID, StreamPurpose, StreamName)
    /// 1 to ``maximumDataByteCount`` bytes.
    case data(StreamID, ArraySlice<UInt8>)
    /// Raises the limit on bytes of the stream, counted from its start.
    case credit(StreamID, upTo: UInt64)
    /// Ends the sender's direction.
    case finish(StreamID)
    /// Ends both directions; data in flight is lost.
    case reset(StreamID, StreamResetReason)

    /// The stream of the frame.
    package var id: StreamID {
        switch self {
        case .open(let id, _, _), .data(let id, _), .credit(let id, _), .finish(let id), .reset(let id, _): id
        }
    }

    /// The frame's bytes: type, stream, then fields.
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

    /// Decodes exactly one frame.
    /// - Returns: nil for a type that is not a stream frame.
    package init?(decoding frame: ArraySlice<UInt8>) throws(MalformedInput) {
        guard let type = frame.first, (FrameType.streamOpen...FrameType.streamReset).contains(type) else { return nil }
        var reader = ByteReader(frame.dropFirst(), of: "stream frame")
        let id = StreamID(rawValue: try reader.readInteger())
        guard id.rawValue > 0 else { throw MalformedInput("stream frame: 0 is not a valid stream") }
        switch type {
        case FrameType.streamOpen:
            guard let purpose = StreamPurpose(rawValue: try reader.readInteger()) else {
                throw MalformedInput("stream frame: an unknown purpose")
            }
            let name = try reader.readCounted(by: UInt8.self, upTo: StreamName.maximumByteCount, field: "the name")
            guard let text = String(validating: name, as: UTF8.self), let name = StreamName(text) else {
                throw MalformedInput("stream frame: the name is not valid UTF-8")
            }
            self = .open(id, purpose, name)
        case FrameType.streamData:
            let bytes = reader.readRemaining()
            guard (1...Self.maximumDataByteCount).contains(bytes.count) else {
                throw MalformedInput("stream frame: data of \(bytes.count) bytes")
            }
            self = .data(id, bytes)
        case FrameType.streamCredit: self = .credit(id, upTo: try reader.readInteger())
        case FrameType.streamFinish: self = .finish(id)
        default: self = .reset(id, StreamResetReason(rawValue: try reader.readInteger()) ?? .cancelled)
        }
        try reader.finish()
    }
}
