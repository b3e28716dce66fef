internal import NearshareBase

/// Splits a byte stream into frames, on TCP links and in GATT notifications (bitchat specification, section 11).
package struct MeshFrameAccumulator: Sendable {
    /// An element of the stream.
    package enum Found: Sendable, Hashable {
        /// One frame, complete according to its header.
        case frame(ArraySlice<UInt8>)
        /// An impossible header. All buffered bytes were dropped.
        case reset
    }

    /// Bytes before the last frame that belong to no frame; a neighbour that sends many speaks another protocol.
    package private(set) var skippedBytes: [UInt8] = []
    private let payloadLimit: Int
    private var held: [UInt8] = []
    private var position = 0
    /// Number and value of the padding bytes that may follow the last frame.
    private var fill = 0

    /// - Parameter payloadLimit: a header with a longer payload resets the stream, so at most one frame of this size is
    ///   buffered.
    package init(payloadLimit: Int = MeshPacket.maximumPayloadByteCount) {
        self.payloadLimit = payloadLimit
    }

    /// Size of the buffered data, in bytes.
    package var heldByteCount: Int { held.count - position }

    /// Appends received bytes.
    package mutating func append(_ bytes: some Collection<UInt8>) {
        skippedBytes = []
        if position > 0 {
            // Memory for a large frame is not kept for small ones.
            if position == held.count {
                held.removeAll(keepingCapacity: held.capacity <= 64 << 10)
            } else {
                held.removeFirst(position)
            }
            position = 0
        }
        held.append(contentsOf: bytes)
    }

    /// - Returns: the next element; nil when more bytes are needed.
    package mutating func next() -> Found? {
        skipFill()
        while position < held.count, MeshPacket.Version(rawValue: held[position]) == nil {
            // Enough for a log or a test to recognise the other protocol.
            if skippedBytes.count < 64 { skippedBytes.append(held[position]) }
            position += 1
        }
        switch MeshFrame.statedLength(of: held[position...], payloadLimit: payloadLimit) {
        case .unknown: return nil
        case .impossible:
            held = []
            position = 0
            return .reset
        case .stated(let count, _) where count > held.count - position: return nil
        case .stated(let count, let type):
            // A copy, so that a retained slice does not keep the whole buffer (R1). `Array(slice)` is none where the slice is all
            // that the buffer holds, whatever its capacity.
            let frame = held[position..<position + count].withUnsafeBufferPointer { Array($0) }[...]
            position += count
            // At least 16 bytes of a value of at least 16: never mistaken for the version of the next frame.
            let isPadded = type == .noiseHandshake || type == .noiseEncrypted
            fill = isPadded ? MeshPadding.fill(for: count) : 0
            skipFill()
            return .frame(frame)
        }
    }

    private mutating func skipFill() {
        while fill > 0, position < held.count, held[position] == UInt8(clamping: fill) { position += 1 }
        if position < held.count { fill = 0 }
    }
}

extension MeshFrame {
    enum StatedLength {
        /// The header is incomplete.
        case unknown
        case impossible
        /// Length from the version to the last field.
        case stated(Int, MeshPacketType)
    }

    /// The length of a frame according to its header.
    static func statedLength(of bytes: ArraySlice<UInt8>, payloadLimit: Int) -> StatedLength {
        var reader = ByteReader(bytes, of: "frame")
        do {
            guard let version = MeshPacket.Version(rawValue: try reader.readInteger()) else { return .impossible }
            let type = MeshPacketType(rawValue: try reader.readInteger())
            _ = try reader.readBytes(9)
            let flags: UInt8 = try reader.readInteger()
            let length = version == .v1 ? Int(try reader.readInteger(UInt16.self)) : Int(try reader.readInteger(UInt32.self))
            let sizeField = version == .v1 ? 2 : 4
            guard length <= payloadLimit, flags & MeshFlag.compressed == 0 || length >= sizeField else { return .impossible }
            var count = (version == .v1 ? 14 : 16) + PeerID.byteCount + length
            if flags & MeshFlag.recipient != 0 { count += PeerID.byteCount }
            if flags & MeshFlag.signature != 0 { count += MeshPacket.signatureByteCount }
            if version == .v2, flags & MeshFlag.route != 0 {
                _ = try reader.readBytes(PeerID.byteCount * (flags & MeshFlag.recipient != 0 ? 2 : 1))
                count += 1 + PeerID.byteCount * Int(try reader.readInteger(UInt8.self))
            }
            return .stated(count, type)
        } catch {
            return .unknown
        }
    }

    /// The number of bytes that a frame lacks according to its header; nil when it lacks none, or its header is impossible.
    package static func missingByteCount(of bytes: ArraySlice<UInt8>) -> Int? {
        guard case .stated(let count, _) = statedLength(of: bytes, payloadLimit: MeshPacket.maximumPayloadByteCount),
            count > bytes.count
        else { return nil }
        return count - bytes.count
    }
}
