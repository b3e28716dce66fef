internal import NearshareBase

/// The size limit of a note, which depends on the transport that will carry it.
package struct NoteSizeLimit: Sendable, Hashable {
    package let byteCount: UInt64

    /// - Returns: nil for less than the headers and a few seconds need.
    package init?(byteCount: UInt64) {
        guard byteCount >= Self.minimum else { return nil }
        self.init(checked: byteCount)
    }

    private init(checked byteCount: UInt64) {
        self.byteCount = byteCount
    }

    /// The limit of files in the mesh.
    package static let mesh = NoteSizeLimit(checked: UInt64(MeshFileLimit.byteCount))
    private static let minimum: UInt64 = 16 << 10

    /// The smaller of two limits; nil means no limit.
    package static func smaller(_ one: NoteSizeLimit?, _ other: NoteSizeLimit?) -> NoteSizeLimit? {
        guard let one, let other else { return one ?? other }
        return one.byteCount < other.byteCount ? one : other
    }

    /// The approximate size of one second: content, and an Ogg page header for 50 packets.
    static func bytesPerSecond(bitrate: Int) -> Int { bitrate / 8 + 80 }

    /// The whole seconds that still fit.
    /// - Parameters:
    ///   - written: the size of the file, in bytes.
    ///   - unwritten: recorded seconds that the encoder has not written yet.
    package func secondsLeft(written: UInt64, unwritten: Double, bitrate: Int) -> Int {
        let perSecond = Double(Self.bytesPerSecond(bitrate: bitrate))
        let left = Double(byteCount) - Double(written) - Self.reserve(unwritten: unwritten, bitrate: bitrate)
        return Int(min(max(0, left / perSecond), Double(Int32.max)))
    }

    /// Whether recording has to stop, so that everything recorded so far fits.
    package func isReached(written: UInt64, unwritten: Double, bitrate: Int) -> Bool {
        Double(written) + Self.reserve(unwritten: unwritten, bitrate: bitrate) > Double(byteCount)
    }

    /// Space for unwritten sound: the encoder meets the bit rate on average and may use twice as much for a short time. One
    /// more second covers the current page.
    private static func reserve(unwritten: Double, bitrate: Int) -> Double {
        (unwritten + 1) * 2 * Double(bytesPerSecond(bitrate: bitrate))
    }
}
