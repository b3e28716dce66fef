internal import NearshareBase

/// The timestamps with which a packet is accepted when it arrives (bitchat specification, section 3).
struct TimestampWindow: Sendable {
    /// How long ago it may have been sent.
    let past: Duration

    func contains(_ timestamp: UInt64, now: WallTime) -> Bool {
        let wall = UInt64(max(0, now.milliseconds))
        return timestamp > wall
            ? timestamp - wall <= Self.milliseconds(Self.clockTolerance)
            : wall - timestamp <= Self.milliseconds(past)
    }

    /// The window for a packet, also for one that came in fragments. Large ones take longer to arrive.
    static func window(for packet: MeshPacket, isReassembled: Bool) -> TimestampWindow {
        let isLong =
            packet.type == .fragment || (isReassembled && [.fileTransfer, .noiseEncrypted].contains(packet.type))
        return TimestampWindow(past: isLong ? .seconds(900) : clockTolerance)
    }

    private static func milliseconds(_ duration: Duration) -> UInt64 { UInt64(duration.components.seconds) * 1000 }

    /// How far two clocks may differ, and how long a short packet may be under way.
    private static let clockTolerance = Duration.seconds(120)
}
