/// The levels of the last seconds, for a moving display.
struct LevelHistory: Sendable {
    /// The newest last, each 0 to 1 on a square-root scale, as in a ``Waveform``.
    private(set) var levels: [Double] = []
    private let framesPerLevel: Int
    private var highest: UInt16 = 0
    private var filled = 0

    private static let capacity = 240

    init(rate: Int) {
        framesPerLevel = max(1, rate / Recording.levelsPerSecond)
    }

    mutating func append(_ samples: UnsafeBufferPointer<Int16>) {
        var rest = samples[...]
        while !rest.isEmpty {
            let part = rest.prefix(framesPerLevel - filled)
            highest = max(highest, peakMagnitude(part))
            filled += part.count
            rest = rest.dropFirst(part.count)
            guard filled == framesPerLevel else { continue }
            levels.append((Double(highest) / 32_768).squareRoot())
            if levels.count > Self.capacity { levels.removeFirst() }
            highest = 0
            filled = 0
        }
    }
}
