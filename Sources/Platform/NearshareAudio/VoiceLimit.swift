/// How large a note may become, because of the path that it will take.
package struct NoteSizeLimit: Sendable, Hashable {
    package let byteCount: UInt64

    /// - Returns: nil for less than a note's headers and some seconds need.
    package init?(byteCount: UInt64) {
        guard byteCount >= Self.least else { return nil }
        self.byteCount = byteCount
    }

    /// What one message of the frame path carries.
    package static let framePath = NoteSizeLimit(byteCount: 5 << 20)!
    private static let least: UInt64 = 16 << 10

    /// What keeps within both.
    /// - Parameters: nil for no limit.
    package static func smaller(_ one: NoteSizeLimit?, _ other: NoteSizeLimit?) -> NoteSizeLimit? {
        guard let one, let other else { return one ?? other }
        return one.byteCount < other.byteCount ? one : other
    }

    /// What one more second takes, nearly: content, and Ogg's page with its table of 50 packets.
    static func bytesPerSecond(bitrate: Int) -> Int { bitrate / 8 + 80 }

    /// Whole seconds that still fit.
    /// - Parameters:
    ///   - written: what is in the file already.
    ///   - unwritten: seconds that were recorded and are still with the encoder.
    package func secondsLeft(written: UInt64, unwritten: Double, bitrate: Int) -> Int {
        let perSecond = Double(Self.bytesPerSecond(bitrate: bitrate))
        let left = Double(byteCount) - Double(written) - Self.reserve(unwritten: unwritten, bitrate: bitrate)
        return max(0, Int(left / perSecond))
    }

    /// Whether no more may be recorded, for all that was said so far to fit.
    package func isReached(written: UInt64, unwritten: Double, bitrate: Int) -> Bool {
        Double(written) + Self.reserve(unwritten: unwritten, bitrate: bitrate) > Double(byteCount)
    }

    /// The encoder aims at the bit rate over time, and may take twice as much for what it holds back; and a page is not
    /// larger than that of one more second.
    private static func reserve(unwritten: Double, bitrate: Int) -> Double {
        (unwritten + 1) * 2 * Double(bytesPerSecond(bitrate: bitrate))
    }
}
