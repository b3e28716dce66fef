/// Finds the peaks of a recording of unknown length in bounded memory: when there are too many buckets, each two are merged.
package struct WaveformBuilder: Sendable {
    private var buckets: [UInt16] = []
    private var bucketFrames: Int
    /// The unfinished bucket.
    private var filled = 0
    private var highest: UInt16 = 0

    private static let maximumBuckets = 4096

    /// - Parameter rate: frames a second; the first buckets are of 20 ms.
    package init(rate: Int) {
        bucketFrames = max(1, rate / 50)
    }

    package mutating func append(_ samples: UnsafeBufferPointer<Int16>) {
        var rest = samples[...]
        while !rest.isEmpty {
            let part = rest.prefix(bucketFrames - filled)
            highest = max(highest, peakMagnitude(part))
            filled += part.count
            rest = rest.dropFirst(part.count)
            if filled == bucketFrames { completeBucket() }
        }
    }

    /// - Parameter frames: the number of frames, from the first on, that belong to the note.
    package func waveform(frames: Int) -> Waveform {
        let all = filled > 0 ? buckets + [highest] : buckets
        let used = min(all.count, max(1, (frames + bucketFrames - 1) / bucketFrames))
        return Waveform { index in
            guard used > 0, !all.isEmpty else { return 0 }
            let start = index * used / Waveform.peakCount
            let end = max(start + 1, (index + 1) * used / Waveform.peakCount)
            return Double(all[start..<end].max() ?? 0) / 32_768
        }
    }

    private mutating func completeBucket() {
        buckets.append(highest)
        highest = 0
        filled = 0
        guard buckets.count == Self.maximumBuckets else { return }
        for index in 0..<(buckets.count / 2) { buckets[index] = max(buckets[2 * index], buckets[2 * index + 1]) }
        buckets.removeLast(buckets.count / 2)
        bucketFrames *= 2
    }
}
