import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// Signals that tests know in advance.
enum Tones {
    static func sine(seconds: Double, hz: Double = 440, rate: Int = 16_000, amplitude: Double = 12_000) -> [Int16] {
        (0..<Int(seconds * Double(rate))).map { Int16(amplitude * sin(2 * .pi * hz * Double($0) / Double(rate))) }
    }

    static func silence(seconds: Double, rate: Int = 16_000) -> [Int16] {
        [Int16](repeating: 0, count: Int(seconds * Double(rate)))
    }

    /// The best correlation of two signals, -1 to 1, over shifts of up to `shift` samples either way.
    static func correlation(_ left: [Int16], _ right: [Int16], shift: Int) -> Double {
        (-shift...shift).map { offset in
            var product = 0.0
            var leftSquare = 0.0
            var rightSquare = 0.0
            for index in max(0, -offset)..<min(left.count, right.count - offset) {
                let (a, b) = (Double(left[index]), Double(right[index + offset]))
                product += a * b
                leftSquare += a * a
                rightSquare += b * b
            }
            return product / max(1, (leftSquare * rightSquare).squareRoot())
        }.max() ?? 0
    }
}

extension ScratchFolder {
    /// A note in it, which is not there yet.
    func note() throws -> NoteFile { try #require(try NoteFile.create(self("note.opus"))) }
}
