/// The shape of a note for displays: a fixed number of peaks from 0 to 63 on a square-root scale, on which speech is well
/// visible.
package struct Waveform: Sendable, Hashable {
    package let peaks: [UInt8]

    /// The number of peaks: enough for a wide terminal, and few enough for a tag.
    package static let peakCount = 128
    static let maximumPeak = 63

    /// - Returns: nil unless there are ``peakCount`` peaks of at most 63.
    package init?(peaks: [UInt8]) {
        guard peaks.count == Self.peakCount, peaks.allSatisfy({ $0 <= Self.maximumPeak }) else { return nil }
        self.peaks = peaks
    }

    /// - Parameter peak: the peak of a part of the note, as a share of full scale.
    init(peak: (Int) -> Double) {
        peaks = (0..<Self.peakCount).map { index in
            UInt8((min(1, max(0, peak(index))).squareRoot() * Double(Self.maximumPeak)).rounded())
        }
    }

    // MARK: Tag

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The placeholder in the tag while the note is recorded, of the same length as the waveform.
    static let placeholder = [UInt8](repeating: UInt8(ascii: "."), count: peakCount)

    /// One character of the base64 alphabet for each peak.
    var text: [UInt8] { peaks.map { Self.alphabet[Int($0)] } }

    /// - Returns: nil for text of another length or with other characters, such as the placeholder.
    init?(text: ArraySlice<UInt8>) {
        guard text.count == Self.peakCount else { return nil }
        var peaks: [UInt8] = []
        for character in text {
            guard let value = Self.alphabet.firstIndex(of: character) else { return nil }
            peaks.append(UInt8(value))
        }
        self.init(peaks: peaks)
    }

    // MARK: Display

    /// One height for each column, from 0 to 1. The loudest part has height 1, so that quiet voices are visible, too.
    package func heights(columns: Int) -> [Double] {
        let loudest = Double(max(1, peaks.max() ?? 1))
        return (0..<max(0, columns)).map { column in
            let start = column * peaks.count / columns
            let end = max(start + 1, (column + 1) * peaks.count / columns)
            return Double(peaks[start..<end].max() ?? 0) / loudest
        }
    }
}
