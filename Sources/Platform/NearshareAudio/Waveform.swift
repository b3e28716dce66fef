internal import Glibc

/// How a note looks: a fixed number of peaks, each a number from 0 to 63 on a scale of square roots, on which speech is seen
/// well.
package struct Waveform: Sendable, Hashable {
    package let peaks: [UInt8]

    /// Enough for a wide terminal, and so few that a tag holds them.
    package static let count = 128
    static let highest = 63

    /// - Returns: nil unless there are ``count`` peaks of at most 63.
    package init?(peaks: [UInt8]) {
        guard peaks.count == Self.count, peaks.allSatisfy({ $0 <= Self.highest }) else { return nil }
        self.peaks = peaks
    }

    // MARK: As a tag

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// What stands in the tag while the peaks are not known yet: as long as they will be.
    static let unknownText = [UInt8](repeating: UInt8(ascii: "."), count: count)

    /// One character of the base64 alphabet for each peak.
    var text: [UInt8] { peaks.map { Self.alphabet[Int($0)] } }

    init?(text: ArraySlice<UInt8>) {
        guard text.count == Self.count else { return nil }
        var peaks: [UInt8] = []
        for character in text {
            guard let value = Self.alphabet.firstIndex(of: character) else { return nil }
            peaks.append(UInt8(value))
        }
        self.init(peaks: peaks)
    }

    // MARK: As a picture

    /// As many heights as there are columns, each from 0 to 1, where 1 is the note's loudest moment: a soft voice is to be
    /// seen as well.
    package func heights(columns: Int) -> [Double] {
        let loudest = Double(max(1, peaks.max() ?? 1))
        return (0..<max(0, columns)).map { column in
            let start = column * peaks.count / columns
            let end = max(start + 1, (column + 1) * peaks.count / columns)
            return Double(peaks[start..<end].max() ?? 0) / loudest
        }
    }
}

/// Finds the peaks of a recording whose length nobody knows yet, in bounded memory: when there are too many, each two
/// become one.
package struct WaveformBuilder: Sendable {
    private var buckets: [UInt16] = []
    private var bucketFrames: Int
    private var filled = 0
    private var highest: UInt16 = 0

    private static let maximumBuckets = 4096

    /// - Parameter rate: frames a second; the first buckets are of 20 ms.
    package init(rate: Int) {
        bucketFrames = max(1, rate / 50)
    }

    package mutating func take(_ samples: UnsafeBufferPointer<Int16>) {
        var rest = samples[...]
        while !rest.isEmpty {
            let piece = rest.prefix(bucketFrames - filled)
            highest = max(highest, loudest(piece))
            filled += piece.count
            rest = rest.dropFirst(piece.count)
            if filled == bucketFrames { endBucket() }
        }
    }

    /// - Parameter frames: how many of the frames taken belong to the note.
    package func waveform(frames: Int) -> Waveform {
        let all = filled > 0 ? buckets + [highest] : buckets
        let used = min(all.count, max(1, (frames + bucketFrames - 1) / bucketFrames))
        let peaks = (0..<Waveform.count).map { index -> UInt8 in
            guard used > 0, !all.isEmpty else { return 0 }
            let start = index * used / Waveform.count
            let end = max(start + 1, (index + 1) * used / Waveform.count)
            let peak = Double(all[start..<end].max() ?? 0) / 32_768
            return UInt8((peak.squareRoot() * Double(Waveform.highest)).rounded())
        }
        return Waveform(peaks: peaks)!
    }

    private mutating func endBucket() {
        buckets.append(highest)
        highest = 0
        filled = 0
        guard buckets.count == Self.maximumBuckets else { return }
        for index in 0..<(buckets.count / 2) { buckets[index] = max(buckets[2 * index], buckets[2 * index + 1]) }
        buckets.removeLast(buckets.count / 2)
        bucketFrames *= 2
    }
}

/// The largest magnitude. A plain loop over memory, which the compiler turns into vector instructions.
func loudest(_ samples: Slice<UnsafeBufferPointer<Int16>>) -> UInt16 {
    var highest: UInt16 = 0
    for sample in UnsafeBufferPointer(rebasing: samples) { highest = max(highest, sample.magnitude) }
    return highest
}

/// How loud it is at the moment: jumps up at once and falls slowly, as people expect of a level bar.
package struct LevelMeter: Sendable {
    /// Of full scale, 0 to 1.
    private var peak = 0.0
    private let rate: Double

    /// What the bar's empty end stands for.
    static let floorInDecibels = -60.0
    private static let fallPerSecond = 24.0

    package init(rate: Int) {
        self.rate = Double(rate)
    }

    package mutating func take(_ samples: UnsafeBufferPointer<Int16>) {
        let highest = loudest(samples[...])
        let seconds = Double(samples.count) / rate
        peak = max(Double(highest) / 32_768, peak * pow(10, -Self.fallPerSecond * seconds / 20))
    }

    /// From 0 (60 dB below full scale) to 1 (full scale).
    package var level: Double {
        guard peak > 0 else { return 0 }
        return min(1, max(0, 1 - 20 * log10(peak) / Self.floorInDecibels))
    }

    /// So loud that it is distorted.
    package var isClipping: Bool { peak > 0.99 }
}
