package import NearshareBase
package import NearshareInterfaces

/// The comment header of a voice note's stream (RFC 7845, section 5.2). All fields are unauthenticated claims.
package struct NoteTags: Sendable, Hashable {
    /// The speaker's display name (`ARTIST`).
    package var speaker: String?
    /// The time of the recording (`DATE`).
    package var recorded: WallTime?
    /// The waveform (`NEARSHARE_WAVEFORM`).
    package var waveform: Waveform?

    package init(speaker: String? = nil, recorded: WallTime? = nil, waveform: Waveform? = nil) {
        self.speaker = speaker
        self.recorded = recorded
        self.waveform = waveform
    }

    static let speakerName = "ARTIST"
    static let dateName = "DATE"
    static let waveformName = "NEARSHARE_WAVEFORM"

    /// Limit on a header that spans pages: notes use about 300 bytes. Longer ones, such as those with a picture, are skipped.
    package static let maximumByteCount = 60 << 10
    private static let maximumCount = 256

    /// - Throws: for another packet than `OpusTags`, lengths beyond the packet, or too many comments.
    package init(_ packet: ArraySlice<UInt8>) throws(AudioError) {
        var rest = packet
        func read(_ count: Int) throws(AudioError) -> ArraySlice<UInt8> {
            guard count <= rest.count else { throw AudioError(.damaged, "its tags are damaged") }
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count)
        }
        func readLength() throws(AudioError) -> Int {
            Int(truncatingBigEndian: try read(4).reversed())
        }
        guard try read(8).elementsEqual("OpusTags".utf8) else { throw AudioError(.damaged, "its tags are damaged") }
        _ = try read(readLength())
        let count = try readLength()
        guard count <= Self.maximumCount else {
            throw AudioError(.damaged, "it has \(count) tags; the limit is \(Self.maximumCount)")
        }
        for _ in 0..<count { add(try read(readLength())) }
    }

    private mutating func add(_ comment: ArraySlice<UInt8>) {
        guard let equals = comment.firstIndex(of: UInt8(ascii: "=")) else { return }
        let value = comment[(equals + 1)...]
        switch String(decoding: comment[..<equals], as: UTF8.self).uppercased() {
        // Claims are cut at 256 bytes.
        case Self.speakerName where speaker == nil: speaker = String(decoding: value.prefix(256), as: UTF8.self)
        case Self.dateName where recorded == nil:
            recorded = WallTime(iso8601: String(decoding: value.prefix(32), as: UTF8.self))
        case Self.waveformName where waveform == nil: waveform = Waveform(text: value)
        default: break
        }
    }
}
