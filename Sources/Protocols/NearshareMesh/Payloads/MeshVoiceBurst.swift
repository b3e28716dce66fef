package import NearshareBase

/// A part of a live voice message (bitchat specification, section 9.5): burst id 8 · sequence u16 · flags u8 · body.
package struct MeshVoiceBurst: Sendable, Hashable {
    package enum Content: Sendable, Hashable {
        /// 1 to 8 encoded frames, none empty.
        case frames([ArraySlice<UInt8>])
        /// The burst begins, in AAC.
        case start
        /// The burst ends, with its totals.
        case end(frameCount: UInt16, milliseconds: UInt32)
        /// The sender withdraws the burst.
        case cancelled
    }

    /// 8 bytes.
    package var burst: [UInt8]
    /// Number of the part in its burst.
    package var sequence: UInt16
    package var content: Content

    package init(burst: [UInt8], sequence: UInt16, content: Content) {
        self.burst = burst
        self.sequence = sequence
        self.content = content
    }

    /// Decodes the body, whose length is implied.
    package init(decoding body: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(body, of: "voice")
        burst = Array(try reader.readBytes(8))
        sequence = try reader.readInteger()
        switch try reader.readInteger(UInt8.self) {
        case 0:
            var frames: [ArraySlice<UInt8>] = []
            while reader.remaining > 0 {
                frames.append(try reader.readCounted(by: UInt16.self, upTo: 65_535, field: "a frame"))
            }
            guard (1...8).contains(frames.count), frames.allSatisfy({ !$0.isEmpty }) else {
                throw MalformedInput("voice: it holds 1 to 8 frames, none of them empty")
            }
            content = .frames(frames)
        case 1:
            guard try reader.readInteger(UInt8.self) == Self.codec else { throw MalformedInput("voice: an unknown codec") }
            content = .start
        case 2:
            let count: UInt16 = try reader.readInteger()
            content = .end(frameCount: count, milliseconds: try reader.readInteger())
        case 4: content = .cancelled
        default: throw MalformedInput("voice: unknown flags")
        }
    }

    /// The body, which follows the kind in the payload.
    package var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.write(burst)
        writer.write(sequence)
        switch content {
        case .frames(let frames):
            writer.write(UInt8(0))
            for frame in frames { writer.writeCounted(frame, by: UInt16.self) }
        case .start: writer.write([1, Self.codec])
        case .end(let count, let milliseconds):
            writer.write(UInt8(2))
            writer.write(count)
            writer.write(milliseconds)
        case .cancelled: writer.write(UInt8(4))
        }
        return writer.bytes
    }

    private static let codec: UInt8 = 1
}
