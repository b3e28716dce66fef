/// Finds where speech begins and ends: passes samples on from shortly before the first sound, and knows where the last
/// one ended.
package struct SilenceTrimmer: Sendable {
    private let isOn: Bool
    private let windowFrames: Int
    private let marginFrames: Int
    /// Square sum from which a window is a sound.
    private let threshold: Double
    private var held: [Int16] = []
    private var energy = 0.0
    private var filled = 0
    private var isOpen: Bool
    private var passed = 0
    private var soundEnd = 0

    /// What lies more than 54 dB below full scale, over 20 ms, is silence: a quiet room, but not a whisper.
    private static let silence = 65.0
    /// What stays of the silence on either side: a word's soft beginning and end.
    private static let marginInMilliseconds = 200

    /// - Parameters:
    ///   - rate: frames a second, of one channel.
    ///   - isOn: false passes everything on.
    package init(rate: Int, isOn: Bool) {
        self.isOn = isOn
        isOpen = !isOn
        windowFrames = max(1, rate / 50)
        marginFrames = rate * Self.marginInMilliseconds / 1000
        threshold = Self.silence * Self.silence * Double(windowFrames)
    }

    /// Whether anything was heard.
    package var hasSound: Bool { isOpen }

    /// How many of the frames passed on belong to the note.
    package var frames: Int { isOn ? min(passed, soundEnd + marginFrames) : passed }

    /// - Parameter pass: gets the frames that are to be kept, in order, at most twice; and what ``frames`` is with them.
    package mutating func take<Failure: Error>(
        _ samples: UnsafeBufferPointer<Int16>, pass: (UnsafeBufferPointer<Int16>, Int) throws(Failure) -> Void
    ) throws(Failure) {
        guard isOn else {
            passed += samples.count
            return try pass(samples, passed)
        }
        var firstSound: Int?
        var lastSound: Int?
        for (index, sample) in samples.enumerated() {
            energy += Double(sample) * Double(sample)
            filled += 1
            if filled == windowFrames {
                if energy >= threshold {
                    lastSound = index + 1
                    firstSound = firstSound ?? index + 1 - windowFrames
                }
                energy = 0
                filled = 0
            }
        }
        if !isOpen {
            guard let firstSound, let lastSound else { return hold(samples) }
            return try open(samples, from: firstSound - marginFrames, to: lastSound, pass: pass)
        }
        if let lastSound { soundEnd = passed + lastSound }
        passed += samples.count
        try pass(samples, frames)
    }

    /// - Parameters:
    ///   - start: where the note begins, counted from the first of `samples`; before it in what is held, where negative.
    ///   - soundEnd: where the last sound in them ends.
    private mutating func open<Failure: Error>(
        _ samples: UnsafeBufferPointer<Int16>, from start: Int, to soundEnd: Int,
        pass: (UnsafeBufferPointer<Int16>, Int) throws(Failure) -> Void
    ) throws(Failure) {
        isOpen = true
        let before = held.suffix(max(0, -start))
        held = []
        let skipped = max(0, start)
        passed = before.count
        self.soundEnd = passed
        try before.withUnsafeBufferPointer { (before) throws(Failure) in try pass(before, before.count) }
        self.soundEnd = passed + soundEnd - skipped
        passed += samples.count - skipped
        try pass(UnsafeBufferPointer(rebasing: samples[skipped...]), frames)
    }

    private mutating func hold(_ samples: UnsafeBufferPointer<Int16>) {
        // A sound's window may have begun in what is held already.
        let kept = marginFrames + windowFrames
        held.append(contentsOf: samples.suffix(kept))
        if held.count > kept { held.removeFirst(held.count - kept) }
    }
}
