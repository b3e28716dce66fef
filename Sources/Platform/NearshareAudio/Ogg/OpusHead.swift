package import NearshareInterfaces

/// The identification header of an Ogg Opus stream (RFC 7845, section 5.1).
package struct OpusHead: Sendable, Hashable {
    package let channels: Int
    /// Samples at 48 kHz that a player skips at the beginning; at most 65,535.
    package let preSkip: Int
    /// The sample rate before encoding, for information; 0 when it is not known.
    package let inputRate: UInt32

    /// The rate of granule positions: Opus always decodes at 48 kHz.
    package static let granulesPerSecond = 48_000

    package init(_ packet: ArraySlice<UInt8>) throws(AudioError) {
        let bytes = Array(packet)
        guard bytes.count >= 19, bytes.starts(with: Array("OpusHead".utf8)) else {
            throw AudioError(.damaged, "not an Opus file: it is Ogg with other content")
        }
        // Versions below 16 are compatible (section 5.1).
        guard bytes[8] < 16 else {
            throw AudioError(.damaged, "an Opus version that this version of nearshare does not support")
        }
        guard bytes[18] == 0, (1...2).contains(bytes[9]) else {
            throw AudioError(.damaged, "this Opus file has \(bytes[9]) channels; a voice note has one or two")
        }
        channels = Int(bytes[9])
        preSkip = Int(bytes[10]) | Int(bytes[11]) << 8
        inputRate = (0..<4).reduce(0) { $0 | UInt32(bytes[12 + $1]) << (8 * $1) }
    }
}
