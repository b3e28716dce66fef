import NearshareBase

/// A script of events for state machines, read from a fuzzer's bytes. Each event and each argument consumes the next bytes, so
/// that a small change of the bytes is a small change of the story. After the last byte every number is 0.
struct EventScript {
    private var rest: ArraySlice<UInt8>
    private var remainingEventCount: Int
    /// The virtual time of the story.
    private(set) var now = Moment(
        monotonic: MonotonicInstant(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: 1_800_000_000_000))

    /// - Parameter maximumEventCount: Limit on the events of a story, so that its duration is bounded.
    init(_ bytes: [UInt8], maximumEventCount: Int = 512) {
        rest = bytes[...]
        remainingEventCount = maximumEventCount
    }

    /// Returns the next event's number, below `count`; nil at the end of the story.
    mutating func nextEvent(below count: Int) -> Int? {
        guard remainingEventCount > 0, let byte = rest.popFirst() else { return nil }
        remainingEventCount -= 1
        return Int(byte) % count
    }

    /// A number from 0 up to `count`, exclusive, from one byte, or from two where one is too small.
    mutating func number(below count: Int) -> Int {
        let low = Int(rest.popFirst() ?? 0)
        guard count > 256 else { return low % max(count, 1) }
        return (Int(rest.popFirst() ?? 0) << 8 | low) % count
    }

    mutating func flag() -> Bool { number(below: 2) == 1 }

    mutating func element<Element>(of elements: [Element]) -> Element? {
        elements.isEmpty ? nil : elements[number(below: elements.count)]
    }

    /// At most `limit` bytes as they are.
    mutating func bytes(upTo limit: Int) -> [UInt8] {
        let count = min(number(below: limit + 1), rest.count)
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// One to three changes of a packet: a bit flipped, a byte replaced, inserted or removed.
    mutating func altered(_ packet: [UInt8]) -> [UInt8] {
        var packet = packet
        for _ in 0...number(below: 3) {
            let index = number(below: packet.count + 1)
            let byte = UInt8(number(below: 256))
            switch number(below: 4) {
            case 0 where index < packet.count: packet[index] ^= 1 << (byte % 8)
            case 1 where index < packet.count: packet[index] = byte
            case 2 where index < packet.count: packet.remove(at: index)
            default: packet.insert(byte, at: index)
            }
        }
        return packet
    }

    /// Lets time pass on both clocks: nothing, or from 1 ms to 18 hours, twice as long for every eight numbers.
    mutating func elapse() {
        let step = number(below: 256)
        guard step > 0 else { return }
        elapse(.microseconds(Int64(1_000 + step % 8 * 125) << Int64(step / 8)))
    }

    mutating func elapse(_ duration: Duration) {
        now = Moment(
            monotonic: now.monotonic + duration,
            wall: WallTime(milliseconds: now.wall.milliseconds + duration.nanoseconds / 1_000_000))
    }

    /// Moves the time on to a deadline that is later.
    mutating func elapse(to deadline: MonotonicInstant) {
        if deadline > now.monotonic { elapse(deadline - now.monotonic) }
    }
}

extension DecoderProperty {
    /// State machines that a script of events drives, with a peer that keeps to the protocol, and with one that does not.
    static let machines = [
        incomingContent, directConnection, handshakes, byteStreams, messageChannels, noteSummary, oggPages, aacTracks,
        inboxJournal,
        meshRouters, bundleRouters,
    ]

    /// A machine whose deadline has passed has a later one, or none, afterwards: otherwise its driver would not rest.
    static func requireProgress(_ deadline: MonotonicInstant?, _ now: Moment) throws(Violation) {
        try require(deadline.map { $0 > now.monotonic } ?? true, "a deadline that is not later after it was handled")
    }
}
