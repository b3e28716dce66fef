/// Trims silence at both ends of a recording: passes samples on from shortly before the first sound, and knows the end of the
/// last one.
package struct SilenceTrimmer: Sendable {
    private let isOn: Bool
    private let windowFrames: Int
    private let marginFrames: Int
    /// The sum of squares from which a window counts as sound.
    private let threshold: Double
    /// The latest frames before the first sound.
    private var held: [Int16] = []
    private var window = Window()
    private var isOpen: Bool
    private var passedFrames = 0
    private var soundEnd = 0

    /// The unfinished measuring window.
    private struct Window {
        var energy = 0.0
        var frames = 0
    }

    /// Sound more than 54 dB below full scale, over 20 ms, is silence: a quiet room, but not a whisper.
    private static let silentAmplitude = 65.0
    /// The silence that is kept on either side, for the soft beginnings and ends of words.
    private static let marginInMilliseconds = 200

    /// - Parameters:
    ///   - rate: frames a second, of one channel.
    ///   - isOn: false passes all samples on.
    package init(rate: Int, isOn: Bool) {
        self.isOn = isOn
        isOpen = !isOn
        windowFrames = max(1, rate / 50)
        marginFrames = rate * Self.marginInMilliseconds / 1000
        threshold = Self.silentAmplitude * Self.silentAmplitude * Double(windowFrames)
    }

    /// Whether any sound was found.
    package var hasSound: Bool { isOpen }

    /// The number of passed frames that belong to the note.
    package var frames: Int { isOn ? min(passedFrames, soundEnd + marginFrames) : passedFrames }

    /// - Parameter pass: receives the kept frames in order, in at most two calls, and the value of ``frames`` with them.
    package mutating func append<Failure: Error>(
        _ samples: UnsafeBufferPointer<Int16>, pass: (UnsafeBufferPointer<Int16>, Int) throws(Failure) -> Void
    ) throws(Failure) {
        guard isOn else {
            passedFrames += samples.count
            return try pass(samples, passedFrames)
        }
        let sound = findSound(in: samples)
        if !isOpen {
            guard let sound else { return hold(samples) }
            return try open(samples, from: sound.lowerBound - marginFrames, soundEnd: sound.upperBound, pass: pass)
        }
        if let sound { soundEnd = passedFrames + sound.upperBound }
        passedFrames += samples.count
        try pass(samples, frames)
    }

    /// The range from the beginning of the first to the end of the last window with sound; it may begin before the samples.
    private mutating func findSound(in samples: UnsafeBufferPointer<Int16>) -> Range<Int>? {
        var found: Range<Int>?
        for (index, sample) in samples.enumerated() {
            window.energy += Double(sample) * Double(sample)
            window.frames += 1
            guard window.frames == windowFrames else { continue }
            if window.energy >= threshold { found = (found?.lowerBound ?? index + 1 - windowFrames)..<(index + 1) }
            window = Window()
        }
        return found
    }

    /// Passes the first sound on, with a margin before it.
    /// - Parameters:
    ///   - start: the beginning of the note, relative to the samples; negative for held frames.
    ///   - soundEnd: the end of the last sound, relative to the samples.
    private mutating func open<Failure: Error>(
        _ samples: UnsafeBufferPointer<Int16>, from start: Int, soundEnd: Int,
        pass: (UnsafeBufferPointer<Int16>, Int) throws(Failure) -> Void
    ) throws(Failure) {
        isOpen = true
        let before = held.suffix(max(0, -start))
        held = []
        let skipped = max(0, start)
        passedFrames = before.count
        self.soundEnd = passedFrames
        try before.withUnsafeBufferPointer { (before) throws(Failure) in try pass(before, before.count) }
        self.soundEnd = passedFrames + soundEnd - skipped
        passedFrames += samples.count - skipped
        try pass(UnsafeBufferPointer(rebasing: samples[skipped...]), frames)
    }

    private mutating func hold(_ samples: UnsafeBufferPointer<Int16>) {
        // The window of the first sound may have begun in the held frames.
        let capacity = marginFrames + windowFrames
        held.append(contentsOf: samples.suffix(capacity))
        if held.count > capacity { held.removeFirst(held.count - capacity) }
    }
}
