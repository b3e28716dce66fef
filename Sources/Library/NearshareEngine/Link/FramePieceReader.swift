internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareMesh

/// Finds the frames in what comes over a frame link (bitchat specification, section 11).
struct FramePieceReader {
    private let pieces: FrameDelivery
    private var accumulator = MeshFrameAccumulator()
    private var last: MonotonicInstant?

    /// The rest of a frame that has not come by then is lost, and what comes next is a new one.
    static let stallTime = Duration.milliseconds(250)

    init(_ pieces: FrameDelivery) {
        self.pieces = pieces
    }

    /// Frames that are complete with this piece. Bytes that belong to none are dropped: on a radio they come with the trade.
    mutating func take(_ piece: [UInt8], at now: MonotonicInstant) -> [ArraySlice<UInt8>] {
        let isStalled = last.map { now - $0 > Self.stallTime } ?? false
        if pieces == .whole || isStalled { accumulator = MeshFrameAccumulator() }
        last = now
        accumulator.append(piece)
        var frames: [ArraySlice<UInt8>] = []
        while let found = accumulator.next() {
            guard case .frame(let frame) = found else { break }
            frames.append(frame)
        }
        return frames
    }
}
