internal import NearshareBase

/// The position of recorded sound in time: by how many frames it lags behind after an overrun.
///
/// An overrun loses what was recorded since the last read, and what was still unread then, which only the time since the start tells.
struct CaptureClock {
    private let rate: Int
    private let start: MonotonicInstant
    /// Frames that were read, and silence in place of lost ones.
    private var frameCount = 0

    init(rate: Int, start: MonotonicInstant) {
        self.rate = rate
        self.start = start
    }

    mutating func recordFrames(_ count: Int) { frameCount += count }

    /// Records that all frames which are missing at this time are lost.
    /// - Returns: their number.
    mutating func recordLoss(at now: MonotonicInstant) -> Int {
        // The clock of the device may run a little faster.
        let lost = max(0, Int((now - start).inSeconds * Double(rate)) - frameCount)
        frameCount += lost
        return lost
    }
}
