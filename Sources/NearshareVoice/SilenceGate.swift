/// Finds where speech begins and ends: passes samples on from shortly before the first sound, and knows where the last
/// one ended.
public struct SilenceGate: Sendable {
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
    public init(rate: Int, isOn: Bool) {
        self.isOn = isOn
        isOpen = !isOn
        windowFrames = max(1, rate / 50)
        marginFrames = rate * Self.marginInMilliseconds / 1000
        threshold = Self.silence * Self.silence * Double(windowFrames)
    }

    /// Whether anything was heard.
    public var hasSound: Bool { isOpen }

    /// How many of the frames passed on belong to the note.
    public var frames: Int { isOn ? min(passed, soundEnd + marginFrames) : passed }

    /// - Parameter pass: gets the frames that are to be kept, in order, at most twice; and what ``frames`` is with them.
    public mutating func take<Failure: Error>(
        _ samples: UnsafeBufferPointer<Int16>, pass: (UnsafeBufferPointer<Int16>, Int) throws(Failure) -> Void
    ) throws(Failure) {
        guard isOn else {
            passed += samples.count
            return try pass(samples, passed)
        }
        var lastSound: Int?
        for (index, sample) in samples.enumerated() {
            energy += Double(sample) * Double(sample)
            filled += 1
            if filled == windowFrames {
                if energy >= threshold { lastSound = index + 1 }
                energy = 0
                filled = 0
            }
        }
        if !isOpen {
            guard lastSound != nil else { return hold(samples) }
            isOpen = true
            let kept = held
            held = []
            passed = kept.count
            soundEnd = passed
            try kept.withUnsafeBufferPointer { (kept) throws(Failure) in try pass(kept, kept.count) }
        }
        if let lastSound { soundEnd = passed + lastSound }
        passed += samples.count
        try pass(samples, frames)
    }

    private mutating func hold(_ samples: UnsafeBufferPointer<Int16>) {
        held.append(contentsOf: samples.suffix(marginFrames))
        if held.count > marginFrames { held.removeFirst(held.count - marginFrames) }
    }
}
