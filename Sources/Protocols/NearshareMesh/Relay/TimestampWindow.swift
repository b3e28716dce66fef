internal import NearshareBase

/// The range of timestamps with which a received packet is accepted (bitchat specification, section 3).
struct TimestampWindow: Sendable {
    /// Limit on the packet's age.
    let past: Duration

    func contains(_ timestamp: UInt64, now: WallTime) -> Bool { contains(timestamp, wall: now.unixMilliseconds) }

    /// Whether a short packet was within its window when it arrived, by the present clock, and that is no longer ago than the window.
    static func hasRecent(_ timestamp: UInt64, receivedBefore age: Duration, now: WallTime) -> Bool {
        let window = TimestampWindow(past: clockTolerance)
        return age <= clockTolerance
            && window.contains(timestamp, wall: now.unixMilliseconds.subtractingClamped(milliseconds(max(age, .zero))))
    }

    private func contains(_ timestamp: UInt64, wall: UInt64) -> Bool {
        timestamp > wall
            ? timestamp - wall <= Self.milliseconds(Self.clockTolerance)
            : wall - timestamp <= Self.milliseconds(past)
    }

    /// The window for a packet, also for a reassembled one. Large packets take longer to arrive.
    static func window(for packet: MeshPacket, isReassembled: Bool) -> TimestampWindow {
        let isLong =
            packet.type == .fragment || (isReassembled && [.fileTransfer, .noiseEncrypted].contains(packet.type))
        return TimestampWindow(past: isLong ? .seconds(900) : clockTolerance)
    }

    private static func milliseconds(_ duration: Duration) -> UInt64 { UInt64(duration.components.seconds) * 1000 }

    /// Allowance for the difference of two clocks and the transit time of a short packet.
    private static let clockTolerance = Duration.seconds(120)
}
