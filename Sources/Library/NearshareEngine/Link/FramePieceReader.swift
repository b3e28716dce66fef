internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareMesh

/// Extracts frames from the bytes received over a mesh link (bitchat specification, section 11).
struct FramePieceReader {
    private let pieces: FrameDelivery
    private var accumulator = MeshFrameAccumulator()
    private var last: MonotonicInstant?

    /// Time after which an incomplete frame is dropped; the next byte begins a new frame.
    static let stallTime = Duration.milliseconds(250)

    init(_ pieces: FrameDelivery) {
        self.pieces = pieces
    }

    /// Appends received bytes, and returns the frames that they complete. Bytes outside frames are dropped: a radio link can
    /// lose pieces.
    mutating func receive(_ piece: [UInt8], at now: MonotonicInstant) -> [ArraySlice<UInt8>] {
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
