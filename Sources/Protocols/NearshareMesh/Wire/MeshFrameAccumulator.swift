internal import NearshareBase

/// Finds frames in a stream of bytes, as TCP links and notifications over GATT carry them (bitchat specification, section 11).
package struct MeshFrameAccumulator: Sendable {
    /// What has been put together.
    package enum Found: Sendable, Hashable {
        /// The bytes of one frame, complete by its own header.
        case frame(ArraySlice<UInt8>)
        /// A header that can't be: everything that was held has been dropped.
        case reset
    }

    /// Bytes in front of a frame that belonged to none; whoever sends many is no peer.
    package private(set) var skippedBytes: [UInt8] = []
    private let payloadLimit: Int
    private var held: [UInt8] = []
    private var position = 0
    /// What filling may follow the frame that was found last, and the value of its bytes.
    private var fill = 0

    /// - Parameter payloadLimit: a header that promises more resets the stream; so no more than one frame of this size is held.
    package init(payloadLimit: Int = MeshPacket.maximumPayloadByteCount) {
        self.payloadLimit = payloadLimit
    }

    /// How much is held that has not been handed out yet, in bytes.
    package var heldByteCount: Int { held.count - position }

    /// Takes bytes as they come in.
    package mutating func append(_ bytes: some Collection<UInt8>) {
        skippedBytes = []
        if position > 0 {
            held.removeFirst(position)
            position = 0
        }
        held.append(contentsOf: bytes)
    }

    /// - Returns: nil when more bytes are needed.
    package mutating func next() -> Found? {
        skipFill()
        while position < held.count, MeshPacket.Version(rawValue: held[position]) == nil {
            // Enough to tell people and tests what it was.
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
            // A copy: whoever keeps a piece of it shall not keep all that came along with it (R1).
            let frame = Array(held[position..<position + count])[...]
            position += count
            // At least 16 bytes of at least 16: never mistaken for the version of a frame that follows.
            let isPadded = type == .noiseHandshake || type == .noiseEncrypted
            fill = isPadded ? MeshPadding.fill(for: count) : 0
            skipFill()
            return .frame(frame)
        }
    }

    private mutating func skipFill() {
        while fill > 0, position < held.count, held[position] == UInt8(fill) { position += 1 }
        if position < held.count { fill = 0 }
    }
}

extension MeshFrame {
    enum StatedLength {
        /// The header is not there in whole.
        case unknown
        case impossible
        /// From the version to the last field.
        case stated(Int, MeshPacketType)
    }

    /// How long a frame is, by what its header says.
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

    /// How many bytes a frame lacks of what its header says; nil when it lacks none, or its header is none.
    package static func missingByteCount(of bytes: ArraySlice<UInt8>) -> Int? {
        guard case .stated(let count, _) = statedLength(of: bytes, payloadLimit: MeshPacket.maximumPayloadByteCount),
            count > bytes.count
        else { return nil }
        return count - bytes.count
    }
}
